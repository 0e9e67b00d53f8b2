"""Files that the sides have opened: those that lead from one side to the other, and those that only one side reads."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from pytest_hwperf.core.errors import UsageProblem, WorkerError
from pytest_hwperf.core.evidence import Side
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.host.opened_files import ABSENT, APPENDED, ASKED, FOLDER, MADE, PUT, Opened
from pytest_hwperf.trees.differences import is_same
from pytest_hwperf.trees.ignored import is_compiled, named, sharing
from pytest_hwperf.trees.isolation import Tree
from pytest_hwperf.trees.overlay import INI_COPY
from pytest_hwperf.trees.shared_files import check_shared

_SHOWN = 3  # files
_ANSWERS, _MADE = frozenset({ASKED, ABSENT}), frozenset({MADE, APPENDED, FOLDER, PUT})
_SOURCE = ".py"
_METADATA = (".egg-info", ".dist-info")  # read by whoever asks for installed packages, wherever they come from


def check_opened(
    opened: Mapping[Side, Opened], candidate: Path, baseline: Path, prefixes: Sequence[str], since: float
) -> list[str]:
    """Return warnings about data files that make the sides alike, or different."""
    if len(opened) < len(SIDES):
        return []
    trees: Mapping[Side, Tree] = {
        "candidate": Tree(candidate, prefixes, other=baseline),
        "baseline": Tree(baseline, prefixes),
    }
    crossed = [file for file in opened["baseline"].read if _counts(trees["candidate"], file)]
    if code := [file for file in crossed if file.endswith(_SOURCE) or is_compiled(file)]:
        raise WorkerError(
            f"the baseline has read {named(code)} of the present tree, which is not its own code: let the tests find "
            "it by a path from their own file, as `Path(__file__).parent`"
        )
    here, there = (trees[side].root for side in ("candidate", "baseline"))
    own = {file: there / PurePath(file).relative_to(here) for file in crossed}
    if changed := [file for file in crossed if own[file].is_file() and not is_same(Path(file), own[file])]:
        raise UsageProblem(
            f"not comparable: the baseline has read {named(changed)} of the present tree, which differs from its own: "
            "give it by a path relative to the tests, or in an environment variable"
        )
    check_shared({side: one.uses for side, one in opened.items()}, prefixes, since)
    return [*_crossing(crossed), *_uneven(opened, trees)]


def _crossing(files: Sequence[str]) -> Iterator[str]:
    if files:
        yield (
            f"both sides have read {named(files)} of the present tree, so that a change of it is not seen: "
            "give it by a path relative to the tests, or in an environment variable"
        )


def _uneven(opened: Mapping[Side, Opened], trees: Mapping[Side, Tree]) -> Iterator[str]:
    """Yield what only one side has read of its own tree, and has not made itself."""
    read = {side: set(own_data(opened[side], trees[side])) for side in SIDES}
    for side, other in (SIDES, SIDES[::-1]):
        files = sorted(read[side] - read[other])
        absent = [file for file in files if not (trees[other].root / file).exists()]
        if absent and side == "candidate":
            yield f"read by the present code only, and not there in the baseline: {named(absent)}; {_remedy(absent)}"
        if absent and side == "baseline":
            yield f"read by the baseline only, and not there in the present tree: {named(absent)}"
        if there := [file for file in files if file not in absent]:
            yield f"read by the {side} only: {named(there)}"
        asked = _asked(opened[side], trees[side], ASKED) & _asked(opened[other], trees[other], ABSENT)
        if alone := sorted(asked - {*files}):
            yield f"both sides ask whether it exists, and only the {side} has it: {named(alone)}"


def _asked(opened: Opened, tree: Tree, answer: str) -> set[str]:
    """Return what a side has asked about in its own tree with one answer only, and not made itself, as `own_data`."""
    found = {path for path, uses in opened.uses.items() if _ANSWERS & {*uses} == {answer} and _MADE.isdisjoint(uses)}
    files = (path for path in map(os.path.realpath, found) if _counts(tree, path))
    return {PurePath(path).relative_to(tree.root).as_posix() for path in files}


def _remedy(files: Sequence[str]) -> str:
    return f"if git does not keep it, give it with {sharing(files[:_SHOWN])}"


def own_data(opened: Opened, tree: Tree) -> Iterator[str]:
    """Yield the files of a tree, other than Python's, that a side has read there and not made, relative to its root."""
    for file in {*opened.read} - {*opened.written}:
        path = PurePath(file)
        if _counts(tree, file) and path.suffix != _SOURCE and not path.name.startswith(INI_COPY):
            yield path.relative_to(tree.root).as_posix()


def _counts(tree: Tree, file: str) -> bool:
    """Whether it is a file of the tree that code reads, and not one that tools keep there for themselves."""
    path = PurePath(file)
    if not tree.holds(path):
        return False
    parts = path.relative_to(tree.root).parts
    return not any(part.startswith(".") or part == "__pycache__" or part.endswith(_METADATA) for part in parts)
