"""Files that only one side has since git ignores them: it would fail, or run something else without a word."""

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from shlex import quote

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.evidence import Side
from pytest_hwperf.host.files import is_file, is_folder
from pytest_hwperf.trees.git import git

_SHOWN = 3  # files
_MOST = 1000  # that are asked about: a command line has an end
_PREFIXES = (sys.prefix, sys.exec_prefix, sys.base_prefix)  # an environment inside the tree is no code of it
_FOREIGN = frozenset({"site-packages", "__pycache__"})  # of environments, and of what a process makes for itself
_NAMES = re.compile(r"'([^']+)'|\"([^\"]+)\"|([^\s'\",:;()<>]+)")  # what may be a path in a message
_ABOUT_FILES = re.compile("no[ _]?such ?file|filenotfound|not ?a ?directory", re.IGNORECASE)
_LIBRARY = re.compile(r"\.(so(\.\d+)+|dylib|dll|pyd)$")
_SOURCE = ".py"
_SETUP = "setup.py"


def check_ignored(
    candidate: Path, baseline: Path, loaded: Mapping[Side, Sequence[str]], prefixes: Sequence[str] = _PREFIXES
) -> None:
    """Refuse sides of which one has loaded code that the other lacks and git does not keep."""
    roots: Mapping[Side, Path] = {"candidate": candidate, "baseline": baseline}
    for side, files in loaded.items():
        own, other = roots[side], baseline if side == "candidate" else candidate
        missing = _missing(files, own, other, prefixes)
        tracked = tracked_files(own, missing)
        ignored = ignored_files(candidate, [file for file in missing if file not in (tracked or ())])
        others = [file for file in missing if is_compiled(file) and file not in ignored]
        built = [file for file in ignored if is_compiled(file)] + _untracked(other, others, tracked)
        if built or ignored:
            raise UsageProblem(_built_problem(side, built, own) if built else _generated_problem(side, ignored))


def missing_files(text: str, candidate: Path, baseline: Path, folders: Sequence[Path]) -> list[str]:
    """Return the data files in a message of the baseline that only the candidate has, relative to the root."""
    found = dict[str, None]()
    about_files = _ABOUT_FILES.search(text)
    for single, double, bare in _NAMES.findall(text):
        name = single or double or bare
        if not about_files and name.isidentifier():  # `build` may be a folder, and is a function here
            continue
        for path in _places(name, candidate, baseline, folders):
            relative = os.path.relpath(path, candidate)
            is_there = is_file(path) or (is_folder(path) and not bare.isidentifier())  # "the model" is no folder
            if path.suffix != _SOURCE and is_there and not _exists(baseline / relative):
                found[relative] = None
    return list(found)


def is_compiled(file: str) -> bool:
    """Whether it is an extension module or another library of machine code by its name."""
    return file.endswith(tuple(EXTENSION_SUFFIXES)) or bool(_LIBRARY.search(file))


def sharing(files: Sequence[str]) -> str:
    """Return the options that give the baseline these files."""
    return " ".join(f"--hwperf-share={quote(file)}" for file in files)


def _built_problem(side: Side, files: Sequence[str], root: Path) -> str:
    if side == "candidate":
        return (
            f"{named(files)}: compiled in place, which git does not have, so that the baseline would run other "
            f"code: have both trees built with {_how_to_build(root)}, or the baseline's project with "
            "-o hwperf_base_env=build, or give the Python of an environment in which it is, --hwperf-base-python=PATH"
        )
    return (
        f"{named(files)}: compiled in the baseline only, so that the present tree would run other code: build it here "
        "in the same way, as by `pip install -e .` or `python setup.py build_ext --inplace`"
    )


def _how_to_build(root: Path) -> str:
    """Return the option that compiles in both trees; where it is not known how, with a placeholder."""
    return f"--hwperf-build={quote('python setup.py build_ext --inplace' if is_file(root / _SETUP) else 'COMMAND')}"


def _generated_problem(side: Side, files: Sequence[str]) -> str:
    if side == "candidate":
        return (
            f"{named(files)}: loaded by the tests and ignored by git, so that the baseline does not have it: "
            "have it made in both trees with --hwperf-build=COMMAND, or in the baseline with -o hwperf_base_env=build, "
            f"or give the baseline the present one with {sharing(files)}"
        )
    return (
        f"{named(files)}: loaded by the tests of the baseline and ignored by git, and the present tree does not have "
        "it: generate it here as it was there, as by `pip install -e .`"
    )


def _missing(files: Sequence[str], own: Path, other: Path, prefixes: Sequence[str]) -> list[str]:
    """Return what a side has loaded from its own tree and the other's lacks, relative to the root."""
    root = os.path.realpath(own)
    others = {os.path.realpath(one) for one in (*prefixes, str(other))} - {root}
    outside = tuple(f"{place}{os.sep}" for place in others if not root.startswith(f"{place}{os.sep}"))
    mine = (file for file in files if file.startswith(f"{root}{os.sep}") and not file.startswith(outside))
    relative = (os.path.relpath(file, root) for file in mine)
    return [one for one in relative if _FOREIGN.isdisjoint(Path(one).parts) and not (other / one).exists()][:_MOST]


def _exists(path: Path) -> bool:
    return is_file(path) or is_folder(path)


def ignored_files(candidate: Path, files: Sequence[str]) -> list[str]:
    """Return those that git ignores; none where it cannot tell, as outside of a repository."""
    if not files:
        return []
    found = git(candidate, "-c", "core.quotePath=off", "check-ignore", "--no-index", "--", *files)
    return found.output.splitlines() if found.code == 0 else []


def tracked_files(own: Path, files: Sequence[str]) -> Collection[str] | None:
    """Return those that are part of a revision; None where git cannot tell."""
    if not files:
        return ()
    kept = git(own, "--literal-pathspecs", "ls-files", "-z", "--", *files)
    return None if kept.code else kept.output.split("\0")


def _untracked(other: Path, compiled: Sequence[str], tracked: Collection[str] | None) -> list[str]:
    """Return those that are no part of a revision; without git, those of which the other side has the source."""
    if tracked is not None:
        return [file for file in compiled if file not in tracked]
    return [file for file in compiled if (other / file).with_name(f"{_module(file)}{_SOURCE}").exists()]


def _module(file: str) -> str:
    return Path(file).name.partition(".")[0]


def _places(name: str, candidate: Path, baseline: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield what a path in a message of the baseline may mean in the candidate's tree."""
    path = Path(name)
    if not path.is_absolute():
        yield from (folder / path for folder in folders if ".." not in path.parts)
    elif path.is_relative_to(baseline):
        yield candidate / path.relative_to(baseline)


def named(files: Sequence[str]) -> str:
    """Return the first few of them, and how many more there are."""
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return f"{', '.join(files[:_SHOWN])}{more}"
