"""Commands that build a tree in place, as the user gives them: run without a shell, their output kept in a log."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from time import monotonic

from pytest_hwperf.core.errors import UsageProblem, WorkerError
from pytest_hwperf.host.files import new_folder
from pytest_hwperf.host.launch import run_logged
from pytest_hwperf.trees.ignored import is_compiled

_PYTHON = frozenset({"python", "python3", "python.exe"})  # stands for the interpreter of the side


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What building a tree took."""

    seconds: float = 0.0
    stale: tuple[str, ...] = ()  # compiled files that this process had loaded before they were made anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a tree is built."""

    side: str  # "baseline" or "present tree", as it is shown
    directory: Path  # the root of the tests in it
    environment: Mapping[str, str]
    interpreter: str  # for which it is built
    logs: Path  # the log of a build that fails is kept here


def run_builds(builds: Sequence[str], place: Place, until: float, loaded: Sequence[str] = ()) -> Built:
    """Run the commands in a tree, one after the other."""
    began, before = monotonic(), {file: _state(file) for file in filter(is_compiled, loaded)}
    for build in builds:
        _run(build, place, max(until - monotonic(), 1.0))
    stale = tuple(file for file, state in before.items() if _state(file) != state)
    return Built(seconds=monotonic() - began, stale=stale)


def _state(file: str) -> tuple[int, int] | None:
    """Return what tells whether a file was written or replaced."""
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _run(build: str, place: Place, timeout_s: float) -> None:
    first, *others = shlex.split(build)
    words = [place.interpreter if first in _PYTHON else first, *others]
    log = new_folder(place.logs, "build") / f"{place.side.replace(' ', '-')}.log"
    try:
        done = run_logged(words, log, timeout_s=timeout_s, directory=place.directory, environment=_variables(place))
    except WorkerError as error:
        raise UsageProblem(f"--hwperf-build={shlex.quote(build)}, in the {place.side}: {error}") from error
    if done.code is None:
        why = f"did not end within {timeout_s:.0f} s; give more time with --hwperf-time-limit=SECONDS"
    elif done.code:
        why = f"ended with code {done.code}"
    else:
        log.unlink()
        log.parent.rmdir()
        return
    raise UsageProblem(
        f"--hwperf-build={shlex.quote(build)}, in the {place.side}, {why}. {done.tail}\nAll of it: {log}"
    )


def _variables(place: Place) -> dict[str, str]:
    """Return its environment, in which the programs beside the interpreter are found first."""
    before = [str(PurePath(place.interpreter).parent), place.environment.get("PATH", os.defpath)]
    return {**place.environment, "PATH": os.pathsep.join(before)}
