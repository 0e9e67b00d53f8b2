"""Packages of this project's extras: which of them are missing here, and what to type then."""

import sys
from importlib.util import find_spec

from pytest_hwperf.records.errors import HwperfError, UsageProblem, install

_NOT_BUILT = {"win32": ("memray",)}  # for a platform: there is nothing to install


def exists_here(module: str) -> bool:
    """Say whether the module exists for this platform."""
    return module not in _NOT_BUILT.get(sys.platform, ())


def missing(*modules: str) -> list[str]:
    """Return those of the modules that are not installed; none of them is imported."""
    return [name for name in dict.fromkeys(modules) if find_spec(name) is None]


def require(extra: str, sentence: str, *modules: str, error: type[HwperfError] = UsageProblem) -> None:
    """Refuse with `error` where a module of the extra is missing; `{}` in the sentence stands for those that are."""
    if lacking := missing(*modules):
        raise error(f"{sentence.format(' and '.join(lacking))}: {install(extra)}")
