"""The environment of the baseline: made over this one with what has to differ, and kept for the next time."""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

from pytest_hwperf.checkout.building import fill, install, projects_in, ways_to_install, why_not_shared
from pytest_hwperf.checkout.layer import (
    Needs,
    make_layer,
    name_of_interpreter,
    needs_of,
    packages_here,
    packages_of,
    site_of,
)
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.files import cache_folder, new_folder
from pytest_hwperf.host.launch import interpreter_of
from pytest_hwperf.host.workdirs import remove_tree
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.text import named

Install = Callable[[Path, Sequence[str], float], None]  # interpreter, arguments of pip, seconds at most
Policy = Literal["auto", "shared", "build"]  # whether the baseline has an environment of its own

_KEPT = 8  # environments
_WHOLE = "whole"  # file in an environment that is not half made
_MAKING = "making"
_ABANDONED_S = 86400.0
_SHOWN = 6  # packages
_INSTEAD = (
    "give the Python of an environment with the baseline installed, --hwperf-base-python=PATH, or run both sides in "
    "this environment with -o hwperf_base_env=shared"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEnvironment:
    """An environment of the baseline's own."""

    python: Path  # its interpreter
    notes: tuple[str, ...]  # what differs in it
    seconds: float  # that it took to make or to find


def environment_with(
    requirements: Sequence[str], root: Path, until: float, installed: Install = install
) -> BaseEnvironment:
    """Return an environment in which these versions come before those of this one."""
    began, here = monotonic(), packages_here(root)

    def make(folder: Path) -> None:
        installed(make_layer(folder, root), requirements, max(until - monotonic(), 1.0))

    folder, is_new = _kept([*sorted(requirements), str(root), name_of_interpreter(), here], make)
    seconds = monotonic() - began
    differing = _differing(packages_of(folder), here)
    if not differing:
        raise UsageProblem(
            f"--hwperf-base-with={' '.join(requirements)}: this environment has just that, so that nothing would be "
            "compared: give another version, such as that before the upgrade"
        )
    made = f"made in {seconds:.1f} s and kept for the next time" if is_new else "kept from an earlier run"
    note = f"the baseline's environment has {differing}; it was {made}"
    return BaseEnvironment(python=interpreter_of(folder), notes=(note,), seconds=seconds)


def environment_built(
    trees: Trees, policy: Policy, until: float, loaded: Sequence[str], installed: Install = install, why: str = ""
) -> BaseEnvironment | None:
    """Build the baseline's project in an environment of its own where that is asked for or needed; None where not.

    The trial run may have shown `why` it is needed.
    """
    began = monotonic()
    why = why or ("it was asked for" if policy == "build" else "")
    if policy == "auto" and not why:
        why = why_not_shared(trees, loaded)
    if not why:
        return None
    projects = projects_in(trees)
    if not projects and policy == "auto":
        return None  # what it needs is said elsewhere
    if not projects:
        raise UsageProblem(
            "-o hwperf_base_env=build: the baseline has neither pyproject.toml nor setup.py, so that nothing can be "
            "installed from it: leave the option out, or give an interpreter with --hwperf-base-python=PATH"
        )

    own = needs_of(trees, [*projects]) if policy == "build" else Needs()

    def make(folder: Path) -> None:
        python, ways = make_layer(folder, trees.candidate), list(ways_to_install(trees.baseline, projects))
        more = own.arguments(folder)
        for way in ways:
            try:
                installed(python, [*way, *more], max(until - monotonic(), 1.0))
            except UsageProblem as problem:
                if way == ways[-1]:
                    raise UsageProblem(f"{problem}\nIt was built since {why}; {_INSTEAD}") from problem
            else:
                return

    what = [trees.revision or secrets.token_hex(8), *(f"{folder}{extras}" for folder, extras in projects.items())]
    what += [policy, *own.requirements] if own.is_any else []
    key: list[str | Mapping[str, str]] = [*what, str(trees.candidate), name_of_interpreter()]
    key.append(here := packages_here(trees.candidate))
    folder, is_new = _kept(key, make)
    fill(trees.baseline, projects, site_of(folder))
    seconds = monotonic() - began
    made = f"built in {seconds:.1f} s and kept for the next time" if is_new else "built by an earlier run"
    differing = _differing({name: one for name, one in packages_of(folder).items() if name in here}, here)
    note = f"the baseline has an environment of its own, {made}, since {why}{own.shown}"
    note += f"; it has {differing}" if differing else ""
    return BaseEnvironment(python=interpreter_of(folder), notes=(note,), seconds=seconds)


def _differing(packages: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Name the first packages that are others than here, and how many more there are; "" where there are none."""
    found = [
        f"{name} {version} (here {here.get(name, 'none')})"
        for name, version in sorted(packages.items())
        if here.get(name) != version
    ]
    return named(found, _SHOWN)


def _kept(key: Sequence[str | Mapping[str, str]], make: Callable[[Path], None]) -> tuple[Path, bool]:
    """Return the environment of a key, and whether it was made now; a half-made one is never used."""
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:20]
    place = cache_folder() / "environments"
    folder = place / name
    if not (folder / _WHOLE).is_file():
        _prune(place)
        making = new_folder(place, _MAKING)
        try:
            make(making)
            (making / _WHOLE).touch()
            with suppress(OSError):  # another run was quicker
                making.rename(folder)
                return folder, True
        finally:
            remove_tree(making)
    os.utime(folder / _WHOLE)
    return folder, False


def _prune(place: Path) -> None:
    """Leave the environments that were used last, and what another run is just making."""
    with suppress(FileNotFoundError):  # another run removes them too
        found = sorted(place.glob(f"*/{_WHOLE}"), key=lambda mark: mark.stat().st_mtime, reverse=True)
        for mark in found[_KEPT - 1 :]:
            gone = new_folder(place, _MAKING)  # what is half removed is half made
            mark.parent.rename(gone / mark.parent.name)
            remove_tree(gone)
        for rest in (one for one in place.iterdir() if not (one / _WHOLE).is_file()):
            is_making = rest.name.startswith(f"{_MAKING}-")
            if not is_making or time.time() - rest.stat().st_mtime > _ABANDONED_S:
                remove_tree(rest)
