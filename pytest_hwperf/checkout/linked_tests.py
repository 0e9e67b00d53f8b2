"""Tests that are given through links of the tree: the baseline has the same ids by links of its own."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.text import shell_word


def given_place(file: Path, root: Path) -> PurePath | None:
    """Return where a file lies in the tree as it was given, through links; None where the way there leads elsewhere."""
    real = root.resolve()
    top = next((folder for folder in reversed(file.parents) if folder.resolve() == real), None)
    return None if top is None else file.relative_to(top)


def own_ways(root: Path, files: Iterable[Path]) -> set[PurePath]:
    """Return the folders on the way to these files that lie in the tree where they seem to."""
    real = root.resolve()
    places = filter(None, (given_place(file, root) for file in files))
    return {way for place in places for way in place.parents if (real / way).resolve() == real / way}


def lay_links(candidate: Path, baseline: Path, files: Iterable[Path]) -> None:
    """Give the baseline the links on the way to these tests that it lacks; refuse what is another thing there."""
    places = dict.fromkeys(filter(None, (given_place(file, candidate) for file in files)))
    for link, target in dict.fromkeys(one for place in places for one in _links(candidate, place)):
        there, goal = baseline / link, baseline / target
        if not os.path.lexists(there):
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(os.path.relpath(goal, there.parent.resolve()), target_is_directory=True)
        elif there.resolve() != goal.resolve():
            is_link = there.is_symlink()
            what = f"leads to {there.readlink()}" if is_link else "is no link"
            raise UsageProblem(
                f"{link} leads to {target} in your tree, and {what} in the baseline: give the tests by the folder in "
                f"which they lie, as `pytest {shell_word(str(candidate / target))}`"
            )


def _links(root: Path, place: PurePath) -> Iterator[tuple[PurePath, PurePath]]:
    """Yield each link to a folder on the way to a file, the outermost first, and where it leads in the tree."""
    real = root.resolve()
    for way in reversed(place.parents):
        path = real / way
        if path.is_symlink() and path.resolve().is_relative_to(real):
            yield way, path.resolve().relative_to(real)
