"""The tree in which the sessions of `hwperf bisect` run: BAD, with the tests of the user that it lacks."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.checkout.overlay import lay_over, modules_below, share
from pytest_hwperf.checkout.trees import own_paths, translated
from pytest_hwperf.checkout.worktree import fill_submodules, worktree
from pytest_hwperf.host.files import digest_of, is_file, is_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class BadTree:
    """A private work tree of BAD, in which pytest is started."""

    top: Path
    folder: Path  # that corresponds to the user's
    environment: dict[str, str]
    laid: Mapping[str, str] = field(default_factory=dict)  # file that it was given since BAD lacks a test → SHA-256


@contextmanager
def tree_of_bad(
    here: Path, top: Path, bad: str, globs: Sequence[str], sys_path: Sequence[str], arguments: Sequence[str] = ()
) -> Iterator[BadTree]:
    """Check BAD out where nobody works; it is gone afterwards.

    The paths from which the user's process imports code of the user's tree lead to this one in its environment.
    """
    with worktree(top, bad) as tree:
        fill_submodules(top, tree)
        if globs:
            share(globs, top, tree)
        new = [*_new_tests(arguments, here, top, tree)]
        laid = {file: digest_of(tree / file) for file in (lay_over(top, tree, new) if new else [])}
        paths = own_paths(sys_path, top)
        inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        moved = [_moved(entry, top, tree) for entry in inherited if entry]
        found = os.pathsep.join([*map(str, translated(paths, top, tree)), *moved])
        folder = tree / here.resolve().relative_to(top.resolve())
        yield BadTree(top=tree, folder=folder, environment={**os.environ, "PYTHONPATH": found}, laid=laid)


def _new_tests(arguments: Sequence[str], here: Path, top: Path, tree: Path) -> Iterator[Path]:
    """Yield the files of tests that arguments name in the user's tree and that another tree lacks."""
    for argument in arguments:
        path = here / argument.partition("::")[0]
        place = path.parent.resolve() / path.name
        if place.is_relative_to(top.resolve()) and not os.path.lexists(tree / place.relative_to(top.resolve())):
            yield from modules_below(path) if is_folder(path) else [path] if is_file(path) else []


def moved_arguments(arguments: Sequence[str], top: Path, tree: Path) -> list[str]:
    """Let what names a path of the user's tree name that of another one."""
    return [_moved(one, top, tree) for one in arguments]


def _moved(text: str, top: Path, tree: Path) -> str:
    path, separator, rest = text.partition("::")
    if not Path(path).is_absolute() or not Path(path).is_relative_to(top):
        return text
    return f"{tree / Path(path).relative_to(top)}{separator}{rest}"
