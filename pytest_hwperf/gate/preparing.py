"""What a baseline needs before its rehearsal: its tree built as the present one is, and an interpreter."""

import dataclasses
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

from pytest_hwperf.gate.environments import BaseEnvironment, environment_built, environment_with
from pytest_hwperf.gate.request import GateRequest
from pytest_hwperf.gate.sharing import NONE, Sharer
from pytest_hwperf.trees.both import Trees, commands, with_leftovers
from pytest_hwperf.trees.ignored import check_ignored, named
from pytest_hwperf.trees.interpreter import Interpreter, with_plugins
from pytest_hwperf.trees.isolation import loaded_files
from pytest_hwperf.trees.own_builds import Place, run_builds


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
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


def prepared(request: GateRequest, sharer: Sharer, until: float) -> tuple[GateRequest, Ready]:
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
        check_ignored(trees.candidate, trees.baseline, {"candidate": loaded})
    if request.build or sharer.trees is not trees:  # what was built or given may differ too
        sharer.trees = with_leftovers(sharer.trees)
    return request, Ready(seconds=seconds, earlier_s=request.built.seconds, notes=_notes(request, made))


def _build(request: GateRequest, trees: Trees, until: float) -> float:
    """Build the baseline as the present tree was built, in its own environment variables."""
    command = commands(request.command, trees, request.files, request.base_python)["baseline"]
    root = os.path.relpath(os.path.realpath(request.command.root), trees.candidate)
    place = Place(
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
