"""Loaded code that git ignores: the baseline's tree lacks it, and would fail, or run something else without a word."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from shlex import quote

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.trees.git import git
from pytest_hwperf.trees.isolation import loaded_files

_SHOWN = 3  # files
_MOST = 1000  # that are asked about: a command line has an end
_PREFIXES = (sys.prefix, sys.exec_prefix, sys.base_prefix)  # an environment inside the tree is no code of it
_COMPILED = tuple(EXTENSION_SUFFIXES)


def check_ignored(candidate: Path, baseline: Path, prefixes: Sequence[str] = _PREFIXES) -> None:
    """Refuse a baseline that lacks code which this process has loaded and git ignores.

    Args:
        candidate: root of the present tree.
        baseline: root of the baseline's tree, shared files included.
        prefixes: of environments, which may lie inside the tree.

    Raises:
        UsageProblem: names the files, and what to type to give them to the baseline or to build them there.
    """
    missing = _ignored(candidate, _missing(candidate, baseline, prefixes))
    compiled = [file for file in missing if file.endswith(_COMPILED)]
    if compiled:
        raise UsageProblem(
            f"{_named(compiled)}: compiled in place, which git does not have, so that the baseline would run other "
            "code: build its revision in an environment of its own and give its Python, --hwperf-base-python=PATH"
        )
    if missing:
        options = " ".join(f"--hwperf-share={quote(file)}" for file in missing)
        raise UsageProblem(
            f"{_named(missing)}: loaded by the tests and ignored by git, so that the baseline does not have it: "
            f"give it the present one with {options}"
        )


def _missing(candidate: Path, baseline: Path, prefixes: Sequence[str]) -> list[str]:
    """Return what this process has loaded from the candidate's tree and the baseline's lacks, relative to the root."""
    root = os.path.realpath(candidate)
    others = {os.path.realpath(one) for one in (*prefixes, str(baseline))} - {root}
    outside = tuple(f"{place}{os.sep}" for place in others)
    mine = (file for file in loaded_files() if file.startswith(f"{root}{os.sep}") and not file.startswith(outside))
    relative = (os.path.relpath(file, root) for file in mine if "site-packages" not in Path(file).parts)
    return [file for file in relative if not (baseline / file).exists()][:_MOST]


def _ignored(candidate: Path, files: Sequence[str]) -> list[str]:
    """Return those that git ignores; none where it cannot tell, as outside of a repository."""
    if not files:
        return []
    found = git(candidate, "-c", "core.quotePath=off", "check-ignore", "--no-index", "--", *files)
    return found.output.splitlines() if found.code == 0 else []


def _named(files: Sequence[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return f"{', '.join(files[:_SHOWN])}{more}"
