"""Both trees of a rerun: what belongs to each, from where a process imports its code, and what differs between them."""

import glob
import os
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from pytest_hwperf.checkout.overlay import INI_COPY
from pytest_hwperf.checkout.worktree import files_of, walk
from pytest_hwperf.host.files import read_file
from pytest_hwperf.host.source_files import SITES, is_of_tests, real_path
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.text import shell_word
from pytest_hwperf.stats.causes.changed_code import MODULE, Changes, Keys, Xfails, compared_code

PREFIXES = tuple(dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix)))  # of environments of both sides
_FINDER = re.compile(r"__editable___.+_finder")  # the module that setuptools writes for an editable install
_LARGEST_SOURCE = 10_000_000  # bytes of a Python file whose code is compared
_PART = 1 << 20  # bytes that are compared at once
_NOT_OF_A_REVISION = frozenset({".git", ".hwperf", ".pytest_cache"})  # the repository's own, and what pytest keeps
_SOURCE = ".py"


class Tree:
    """What belongs to a side: the files below its root but for environments, and but for the other side's tree."""

    def __init__(self, root: Path, other: Path | None = None) -> None:
        self.root = real_path(root)
        outside = [real_path(one) for one in PREFIXES] + ([real_path(other)] if other else [])
        # A prefix around the tree, such as /usr around /usr/src/app, is not part of the tree.
        self._outside = [path for path in outside if path != self.root and path.is_relative_to(self.root)]

    def holds(self, path: PurePath) -> bool:
        """Whether a real path lies in the tree and is not installed there."""
        if not path.is_relative_to(self.root) or any(path.is_relative_to(other) for other in self._outside):
            return False
        return SITES.isdisjoint(path.relative_to(self.root).parts)

    def has_code(self, path: PurePath, tests: Collection[PurePath] = ()) -> bool:
        """Whether it is code of the tree that was not laid over: neither a test nor in a folder of tests."""
        if not self.holds(path) or path in tests or path.name == "conftest.py":
            return False
        return not is_of_tests(path.relative_to(self.root).parent)

    def own(self, files: Iterable[str]) -> Iterator[str]:
        """Yield which of real paths lie in the tree, relative to its root."""
        top = f"{self.root}{os.sep}"
        for path in (PurePath(file) for file in files if file.startswith(top)):
            if self.holds(path):
                yield path.relative_to(self.root).as_posix()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """The candidate's tree, and the baseline's with the candidate's tests laid over it."""

    candidate: Path  # root of the user's own tree; only read
    baseline: Path  # root of a temporary tree
    revision: str = ""  # commit of the baseline, "" for a folder
    shared: Mapping[str, str] = field(default_factory=dict)  # file that the baseline was given → SHA-256
    changed: frozenset[Path] = frozenset()  # test files that are not the baseline's own, in the candidate's tree
    warnings: tuple[str, ...] = ()
    changes: Changes | None = None  # between both, where they were asked for
    laid: frozenset[str] = frozenset()  # the candidate's benchmark code that the baseline was given
    ini: tuple[str, ...] = ()  # arguments that make pytest read the candidate's ini file in the baseline's tree
    xfails: Mapping[Path, Xfails] = field(default_factory=dict)  # test file or conftest → what has an `xfail`
    origin: Path | None = None  # folder that the baseline is a copy of, without what git ignores there
    since: float = field(default_factory=time.time)  # instant at which they were there, in seconds since 1970

    def root(self, side: Side) -> Path:
        """Return the root of a side's tree."""
        return self.candidate if side == "candidate" else self.baseline

    def tree(self, side: Side) -> Tree:
        """Return what belongs to a side."""
        return Tree(self.root(side), self.baseline if side == "candidate" else self.candidate)


def own_paths(sys_path: Sequence[str], root: Path) -> list[Path]:
    """Return from where this process imports code of the tree, links resolved, in their order and each once.

    The folders of setuptools' editable installs, which are on no path, follow the entries of `sys_path`.
    """
    real, mine = [real_path(entry) for entry in (*map(Path, sys_path), *_editable_folders())], Tree(root)
    return list(dict.fromkeys(entry for entry in real if entry.exists() and mine.holds(entry)))


def translated(paths: Iterable[Path], root: Path, other_root: Path) -> list[Path]:
    """Return the folders in `other_root` that correspond to `paths` in `root`."""
    return [other_root / path.resolve().relative_to(root.resolve()) for path in paths]


def sharing(files: Sequence[str]) -> str:
    """Return the options that give the baseline these files."""
    return " ".join(f"--hwperf-share={shell_word(glob.escape(file))}" for file in files)


def _editable_folders() -> Iterator[Path]:
    """Yield the folders that would have to be on the path for the packages of setuptools' editable finders."""
    for name, module in list(sys.modules.items()):
        if _FINDER.fullmatch(name):
            for package, path in getattr(module, "MAPPING", {}).items():
                parts = tuple(package.split("."))
                found = Path(path) if Path(path).is_dir() else Path(path).with_suffix("")
                if found.parts[-len(parts) :] == parts:  # else the folder has another name, and no path can help
                    yield found.parents[len(parts) - 1]


def changes_between(candidate: Path, baseline: Path) -> Changes:
    """Compare all files that either revision has, and what was built, shared or not yet added besides."""
    then, now = (
        {os.path.relpath(path, root) for path in files}
        for root, files in ((baseline, walk(baseline)), (candidate, files_of(candidate)))
    )
    changed, other, only = dict[str, Mapping[Side, tuple[str, ...]]](), set[str](), dict[str, Side]()
    moved = dict[str, Mapping[Side, tuple[str, ...]]]()
    folders = set[str]()
    for file in sorted(then | now):
        if _NOT_OF_A_REVISION.intersection(Path(file).parts) or Path(file).name.startswith(INI_COPY):
            continue
        one, two = baseline / file, candidate / file
        if not (os.path.lexists(one) and os.path.lexists(two)):
            only[file] = "baseline" if os.path.lexists(one) else "candidate"
            around = (str(folder) for folder in Path(file).parents)
            folders |= {one for one in around if (baseline / one).is_dir() != (candidate / one).is_dir()}
        elif not is_same(one, two):
            if file.endswith(_SOURCE) and not (one.is_symlink() or two.is_symlink()):
                changed[file], moved[file] = _code(one, two)
            else:
                other.add(file)
    return Changes(changed=changed, moved=moved, other=frozenset(other), only=only, folders=frozenset(folders))


def is_same(one: Path, other: Path) -> bool:
    """Whether both are the same link, or files of the same content; what cannot be read is not the same."""
    try:
        if one.is_symlink() or other.is_symlink():
            return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
        if not (one.is_file() and other.is_file()) or one.stat().st_size != other.stat().st_size:
            return False
        with one.open("rb") as first, other.open("rb") as second:
            while part := first.read(_PART):
                if part != second.read(_PART):
                    return False
    except OSError:
        return False
    return True


def _code(one: Path, other: Path) -> tuple[Mapping[Side, tuple[str, ...]], Mapping[Side, tuple[str, ...]]]:
    """Return the keys of changed and of moved code of each side; of a file that cannot be read, all has changed."""
    try:
        changed, moved = compared_code(read_file(one, _LARGEST_SOURCE), read_file(other, _LARGEST_SOURCE))
    except OSError:
        return {"baseline": (MODULE,), "candidate": (MODULE,)}, {"baseline": (), "candidate": ()}
    return _by_side(changed), _by_side(moved)


def _by_side(keys: Keys) -> Mapping[Side, tuple[str, ...]]:
    then, now = keys
    return {"baseline": tuple(sorted(then)), "candidate": tuple(sorted(now))}
