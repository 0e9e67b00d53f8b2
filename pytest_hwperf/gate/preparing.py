"""What a baseline needs before its rehearsal: its tree built as the present one is, and an interpreter."""

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from pytest_hwperf.checkout.both import commands, with_leftovers
from pytest_hwperf.checkout.building import BuildPlace, Built, run_builds
from pytest_hwperf.checkout.isolation import check_ignored
from pytest_hwperf.checkout.layer import Interpreter, with_plugins
from pytest_hwperf.checkout.loaded import loaded_files
from pytest_hwperf.checkout.trees import Trees, named
from pytest_hwperf.gate.conductor import Progress
from pytest_hwperf.gate.environments import BaseEnvironment, Policy, environment_built, environment_with
from pytest_hwperf.gate.explaining import Explain
from pytest_hwperf.gate.sharing import NONE, Sharer
from pytest_hwperf.host.launch import PytestCommand
from pytest_hwperf.records.evidence import Hypothesis
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.units import show_change
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.hypotheses import EnergySource, MeasuredTest


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What is compared with what, and how."""

    tests: Sequence[MeasuredTest]
    files: Sequence[Path]  # of these tests
    command: PytestCommand  # as this user started pytest
    against: Path | str  # a folder, or a git revision
    name: str  # of the baseline, as it is shown
    alpha: float  # false-alarm rate of the build
    time_s: float  # for all of it; what runs then is cut off
    silence_s: float = 60.0  # that a process may be silent in the rehearsal next to the other side
    logs: Path  # the logs of lost pairs are kept here
    energy: EnergySource | None = None  # by which energy can be compared
    share: Sequence[str] = ()  # globs of files that the baseline is given, "auto" and "none"
    build: Sequence[str] = ()  # commands that build the baseline's tree, as they have built the present one
    built: Built = field(default_factory=Built)  # what building the present tree took, and what is to be said of it
    base_python: Interpreter | None = None  # of the baseline, None for this one
    base_env: Policy = "auto"  # whether its project is built in an environment of its own
    base_with: Sequence[str] = ()  # requirements of packages that the baseline alone is given
    parallel: int = 1  # pairs side by side
    plant: float = 0.0  # share of work that is added to the candidate's calls, to see it found
    explain: Explain = "auto"  # whether regressions are explained, or every comparison, or none
    prove_equal: bool = False  # whether what is inconclusive is measured further, until it is equivalent
    affected: bool = False  # whether tests are left out that nothing reaches of what differs
    operators: bool = False  # whether both sides' operators are asked for, and not of regressions alone
    progress: Callable[[Progress], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)  # one line that stays

    def tell(self, hypothesis: Hypothesis, comparison: Comparison) -> None:
        """Say what is decided while pairs go on."""
        what = metric_of(hypothesis.margin.metric).called(hypothesis.margin.statistic)
        change = show_change(comparison.change.value, comparison.scale) if comparison.change else ""
        self.say(f"{comparison.outcome}: {hypothesis.measurement.test}, {what} {change}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """What was done before the rehearsal."""

    seconds: Mapping[str, float]  # stage → time that it took after the checkout began
    earlier_s: float  # that building the present tree took before
    notes: tuple[str, ...]

    @property
    def all_seconds(self) -> dict[str, float]:
        """Stage → time, with what was before."""
        found = dict(self.seconds)
        if "build" in found:
            found["build"] += self.earlier_s
        return found


def sharer_of(request: GateRequest, trees: Trees) -> Sharer:
    """Return what gives the baseline files, unless that is switched off."""
    return Sharer(
        trees=trees,
        folders=(request.command.directory, request.command.root),
        is_on=NONE not in request.share,
        own_interpreter=bool(request.base_python),
    )


def prepared(request: GateRequest, sharer: Sharer, until: float) -> tuple[GateRequest, Preparation]:
    """Build the baseline's tree, give it generated modules, and choose its interpreter with that one's plugins.

    Modules are given before the rehearsal where that spares an environment; an interpreter of its own may have them.
    """
    made, seconds, trees = None, dict[str, float](), sharer.trees
    if request.base_with:
        made = environment_with(request.base_with, trees.candidate, until)
        request = dataclasses.replace(request, base_python=Interpreter(path=str(made.python)))
    if request.build:
        seconds["build"] = _build(request, trees, until)
    loaded = loaded_files()
    if not request.base_python and request.base_env != "build":
        sharer.give_loaded(loaded)
    if not request.base_python:
        made = environment_built(trees, request.base_env, until, loaded)
    if made:
        seconds["environment"] = made.seconds
        request = dataclasses.replace(request, base_python=Interpreter(path=str(made.python)))
    if request.base_python:
        sharer.own_interpreter = True
        request = dataclasses.replace(request, base_python=with_plugins(request.base_python, until - monotonic()))
    else:
        check_ignored(trees, {"candidate": loaded})
    if request.build or sharer.trees is not trees:  # what was built or given may differ too
        sharer.trees = with_leftovers(sharer.trees)
    return request, Preparation(seconds=seconds, earlier_s=request.built.seconds, notes=_notes(request, made))


def _build(request: GateRequest, trees: Trees, until: float) -> float:
    """Build the baseline as the present tree was built, in its own environment variables."""
    command = commands(request.command, trees, request.files, request.base_python)["baseline"]
    root = os.path.relpath(os.path.realpath(request.command.root), trees.candidate)
    place = BuildPlace(
        side="baseline",
        directory=trees.baseline / root,
        environment=command.environment,
        interpreter=request.base_python.path if request.base_python else sys.executable,
        logs=request.logs,
    )
    return run_builds(request.build, place, until).seconds


def _notes(request: GateRequest, made: BaseEnvironment | None) -> tuple[str, ...]:
    stale = request.built.stale
    again = (
        f"--hwperf-build has made {named(stale)} anew, which this process had loaded before, as by a conftest.py: "
        "what is not measured in pairs is of the old one, type the same command again"
    )
    return (*(made.notes if made else ()), *([again] if stale else ()))
