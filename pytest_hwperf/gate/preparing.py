"""What a gate is asked, and what its baseline needs before the rehearsal: a tree that is built, and an interpreter."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from pytest_hwperf.checkout.both import commands, with_leftovers
from pytest_hwperf.checkout.building import BuildPlace, Built, run_builds
from pytest_hwperf.checkout.ignored import check_ignored
from pytest_hwperf.checkout.layer import Interpreter, own_folders, with_plugins
from pytest_hwperf.checkout.shared_install import read_alike
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.gate.affected import Untouched, watches_of
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.environments import Policy, environment_built, environment_with
from pytest_hwperf.gate.explaining import Explain, Explainer
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.processes import BothSides
from pytest_hwperf.gate.rehearsal import Rehearser
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.gate.sharing import Sharer
from pytest_hwperf.host.files import CACHE_VARIABLE
from pytest_hwperf.host.launch import Command, PytestCommand
from pytest_hwperf.host.pinning import cores_first, processors
from pytest_hwperf.host.source_files import loaded_files
from pytest_hwperf.host.workdirs import remove_tree
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Evidence, Explanation, Hypothesis, PairedProfiles, Side
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.text import named
from pytest_hwperf.records.units import show_change
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.causes.changed_code import Xfails
from pytest_hwperf.stats.pairs.hypotheses import SIDES, EnergySource, MeasuredTest, Questions

_NOTHING_TO_BUILD = (
    "The baseline has neither pyproject.toml nor setup.py, so that it cannot be installed: give the Python of an "
    "environment with the baseline installed, --hwperf-base-python=PATH"
)
_SIDE_LETTERS = 4  # of both sides' names: paths of one length, on which the memory layout may depend


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


@dataclass(slots=True, kw_only=True)
class GateRun:
    """One gate on its road: what was asked, and what its stages have found."""

    asked: GateRequest
    stack: ExitStack  # what is there until the gate is over
    until: float  # instant of `monotonic` at which its time is up
    began: float = field(default_factory=monotonic)
    sharer: Sharer = field(init=False)  # has the trees, and gives the baseline what it lacks
    caches: Path = field(init=False)  # folder with one for each side, in which it keeps what it makes
    base_python: Interpreter | None = field(init=False)  # of the baseline, None for this one
    notes: tuple[str, ...] = ()  # on the environment
    conductor: Conductor = field(init=False)
    rehearser: Rehearser = field(init=False)
    trace: PairTrace = field(init=False)  # of the rehearsal
    untouched: Untouched = field(default_factory=Untouched)
    questions: Questions = field(init=False)
    unseen: Sequence[str] = ()  # what the proof does not reach
    xfails: Mapping[Path, Xfails] = field(default_factory=dict)  # test file or conftest → what has an `xfail`
    sides: BothSides = field(init=False)
    explainer: Explainer = field(init=False)
    explain_s: float = 0.0  # kept at the end, where something has regressed
    evidence: Evidence = field(init=False)
    profiles: list[PairedProfiles] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with the interpreter that was asked for."""
        self.base_python = self.asked.base_python

    @property
    def trees(self) -> Trees:
        """Both trees, as far as the baseline has been given what it lacks."""
        return self.sharer.trees

    @property
    def why_late(self) -> Statement:
        """Why nothing more is measured when the time is up."""
        return state("out of time", limit=self.asked.time_s)

    def commands(self, *nodes: str, caches: Path | None = None) -> dict[Side, Command]:
        """Return how both sides are started: for all tests, or for the files of some.

        Each has a cache of converted models for itself: a model comes from the converters of its own tree. So it has
        its own temporary folder, in which a fixture may write to a fixed name.
        """
        asked, found = self.asked, dict[Side, Command]()
        named = {asked.command.root / node.partition("::")[0] for node in nodes}
        files = [file for file in asked.files if not nodes or file in named]
        for side, command in commands(asked.command, self.trees, files, self.base_python).items():
            place = (caches or self.caches) / side[:_SIDE_LETTERS]
            own = {**own_folders(place, command.environment), CACHE_VARIABLE: str(place / "models")}
            found[side] = replace(command, environment={**command.environment, **own})
        return found

    def forget_caches(self) -> None:
        """Forget what both sides have kept while the baseline lacked files."""
        for side in SIDES:
            remove_tree(self.caches / side[:_SIDE_LETTERS])
        self.commands()  # which makes the folders anew


def prepare(gate: GateRun) -> None:
    """Build the baseline's tree, give it generated modules, and choose its interpreter with that one's plugins.

    Modules are given before the rehearsal where that spares an environment; an interpreter of its own may have them.
    """
    asked, sharer, made, seconds = gate.asked, gate.sharer, None, dict[str, float]()
    trees, loaded = gate.trees, loaded_files()
    if asked.base_with:
        made = environment_with(asked.base_with, trees.candidate, gate.until)
        gate.base_python = Interpreter(path=str(made.python))
    if asked.build:
        seconds["build"] = _build(gate)
    if not gate.base_python and asked.base_env != "build":
        sharer.give_loaded(loaded)
    if not gate.base_python:
        made = environment_built(trees, asked.base_env, gate.until, loaded)
    if made:
        seconds["environment"], gate.notes = made.seconds, made.notes
        gate.base_python = Interpreter(path=str(made.python))
    if gate.base_python:
        sharer.own_interpreter = True
        gate.base_python = with_plugins(gate.base_python, gate.until - monotonic())
    else:
        check_ignored(trees, {"candidate": loaded})
    if asked.build or sharer.trees is not trees:  # what was built or given may differ too
        sharer.trees = with_leftovers(sharer.trees)
    if asked.built.stale:
        again = (
            f"--hwperf-build has made {named(asked.built.stale)} anew, which this process had loaded before, as by a "
            "conftest.py: what is not measured in pairs is of the old one, type the same command again"
        )
        gate.notes = (*gate.notes, again)
    gate.conductor = _conductor(gate)
    gate.conductor.seconds |= {"checkout": monotonic() - gate.began - sum(seconds.values()), **seconds}
    if asked.build:
        gate.conductor.seconds["build"] += asked.built.seconds


def part_installs(gate: GateRun) -> bool:
    """Give the baseline an install of its own where the trial run has asked the shared one for what differs.

    A version alone, which most packages read to show it, is remarked where it cannot be built.
    """
    asked = gate.asked
    alike = [] if gate.base_python else read_alike(gate.trees, gate.rehearser.used)
    needed = [one for one in alike if not one.is_of_git]
    made, problem = None, _NOTHING_TO_BUILD
    if needed and asked.base_env != "shared":
        why = " and ".join(one.said for one in needed)
        try:
            made = environment_built(gate.trees, "auto", gate.until, (), why=f"{why}, and both trees differ in that")
        except UsageProblem as error:
            problem = str(error)
        if made is None and not all(one.is_version for one in needed):
            raise UsageProblem(f"not comparable: {why}, and both trees differ in that. {problem}")
    if made is None:
        gate.notes = (*gate.notes, *(one.remark for one in alike))
        return False
    gate.conductor.seconds["environment"], gate.notes = made.seconds, (*gate.notes, *made.notes)
    gate.base_python = with_plugins(Interpreter(path=str(made.python)), gate.until - monotonic())
    gate.sharer.own_interpreter = True
    gate.conductor.commands = gate.commands()
    gate.conductor.watches = watches_of(gate.trees, own_interpreter=True)
    gate.rehearser.forget()
    return True


def _conductor(gate: GateRun) -> Conductor:
    asked = gate.asked
    return Conductor(
        commands=gate.commands(),
        logs=asked.logs,
        at_once=asked.parallel,
        processors=cores_first(processors()),
        progress=asked.progress,
        tell=asked.tell,
        say=asked.say,
        plant=asked.plant,
        since=asked.command.since,
        watches=watches_of(gate.trees, own_interpreter=bool(gate.base_python)),
        serial={test.node for test in asked.tests if test.is_serial},
    )


def _build(gate: GateRun) -> float:
    """Build the baseline as the present tree was built, in its own environment variables."""
    asked, trees = gate.asked, gate.trees
    place = BuildPlace(
        side="baseline",
        directory=trees.baseline / os.path.relpath(os.path.realpath(asked.command.root), trees.candidate),
        environment=commands(asked.command, trees, asked.files, gate.base_python)["baseline"].environment,
        interpreter=gate.base_python.path if gate.base_python else sys.executable,
        logs=asked.logs,
    )
    return run_builds(asked.build, place, gate.until).seconds
