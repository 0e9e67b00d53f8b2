"""The environment of the baseline: made over this one with what has to differ, and kept for the next time."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.host.files import cache_folder, new_folder
from pytest_hwperf.host.workdirs import remove_tree
from pytest_hwperf.trees.installing import install
from pytest_hwperf.trees.layer import make_layer, name_of_interpreter, packages_here, packages_of

Install = Callable[[Path, Sequence[str], float], None]  # interpreter, arguments of pip, seconds at most

_KEPT = 8  # environments
_WHOLE = "whole"  # file in an environment that is not half made
_MAKING = "making"
_ABANDONED_S = 86400.0
_SHOWN = 6  # packages


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEnvironment:
    """An environment of the baseline's own."""

    python: Path  # its interpreter
    notes: tuple[str, ...]  # what differs in it
    seconds: float  # that it took to make or to find


def environment_with(
    requirements: Sequence[str], root: Path, until: float, installed: Install = install
) -> BaseEnvironment:
    """Return an environment in which these versions come before those of this one.

    Args:
        requirements: as pip takes them, such as `onnxruntime==1.22.0`.
        root: top of the candidate's tree.
        until: instant of `monotonic` at which the time is up.
        installed: what installs packages.

    Raises:
        UsageProblem: they cannot be had, or are what this environment has.
        WorkerError: no environment can be made.
        OSError: the cache folder cannot be written to.
    """
    began, here = monotonic(), packages_here(root)

    def make(folder: Path) -> None:
        installed(make_layer(folder, root), requirements, max(until - monotonic(), 1.0))

    folder, is_new = _kept([*sorted(requirements), str(root), name_of_interpreter(), here], make)
    seconds = monotonic() - began
    differing = [
        f"{name} {version} (here {here.get(name, 'none')})"
        for name, version in sorted(packages_of(folder).items())
        if here.get(name) != version
    ]
    if not differing:
        raise UsageProblem(
            f"--hwperf-base-with={' '.join(requirements)}: this environment has just that, so that nothing would be "
            "compared: give another version, such as that before the upgrade"
        )
    more = f" and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else ""
    made = f"made in {seconds:.1f} s and kept for the next time" if is_new else "kept from an earlier run"
    note = f"the baseline's environment has {', '.join(differing[:_SHOWN])}{more}; it was {made}"
    return BaseEnvironment(python=_python_of(folder), notes=(note,), seconds=seconds)


def _python_of(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


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
    found = sorted(place.glob(f"*/{_WHOLE}"), key=lambda mark: mark.stat().st_mtime, reverse=True)
    for mark in found[_KEPT - 1 :]:
        remove_tree(mark.parent)
    for making in place.glob(f"{_MAKING}-*"):
        if time.time() - making.stat().st_mtime > _ABANDONED_S:
            remove_tree(making)
