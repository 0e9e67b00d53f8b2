"""Files that the candidate uses, git does not have and the baseline lacks: which of them the baseline may be given."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from pytest_hwperf.checkout.both import PREFIXES, Trees
from pytest_hwperf.checkout.ignored import (
    changed_source,
    ignored_files,
    is_code,
    is_compiled,
    is_constants,
    tracked_files,
)
from pytest_hwperf.checkout.isolation import Tree
from pytest_hwperf.checkout.opened import own_data
from pytest_hwperf.checkout.overlay import give
from pytest_hwperf.host.files import is_file, is_folder
from pytest_hwperf.host.opened_files import Opened

_SOURCE = ".py"
_MOST = 1000  # files: git is asked about them on a command line, which has an end


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What the candidate was seen to use."""

    loaded: Sequence[str] = ()  # files of modules, links resolved
    opened: Opened = field(default_factory=Opened)
    named: Collection[str] = ()  # files and folders that a message of the baseline misses, relative to the root
    fails: bool = False  # whether the baseline cannot run something that the candidate can


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What of that the baseline lacks and git does not have, relative to the root."""

    given: list[str] = field(default_factory=list)  # what both sides may have
    kept: Mapping[str, str] = field(default_factory=dict)  # what may be the candidate's alone → why


def shareable(trees: Trees, used: Used, prefixes: Sequence[str] = PREFIXES) -> Found:
    """Sort what the candidate has used and the baseline lacks since git does not have it.

    A file that git ignores is given, and one that it neither has nor ignores if the baseline fails: as it will be part
    of the next commit, it belongs to the candidate otherwise. Code never is, but for modules that only give names to
    texts and numbers; nor is a file that may have been made from one that differs between both trees.
    """
    data = {*own_data(used.opened, Tree(trees.candidate, prefixes, other=trees.baseline)), *_expanded(trees, used)}
    files = [file for file in sorted({*data, *_modules(trees, used, prefixes)}) if _is_lacking(trees, file)][:_MOST]
    revision = tracked_files(trees.candidate, ["."]) if files else ()
    if not revision:  # without git, nobody knows what belongs to a revision
        return Found()
    tracked = frozenset(revision)
    others = {file: name for file in files if (name := _known_as(trees.candidate, file)) not in tracked}
    ignored = {*ignored_files(trees.candidate, [*dict.fromkeys(others.values())])}
    given, kept = list[str](), dict[str, str]()
    for file, name in others.items():
        if name not in ignored and (not used.fails or file.endswith(_SOURCE)):
            continue
        if why := _why_kept(trees, file, tracked):
            kept[file] = why
        else:
            given.append(file)
    return Found(given=given, kept=kept)


def with_shared(trees: Trees, files: Sequence[str]) -> Trees:
    """Give files to the baseline: its own, if it is the copy of a folder that has them, else the candidate's."""
    shared = dict(trees.shared)
    for file in files:
        own = trees.origin / file if trees.origin else None
        source = own if own is not None and is_file(own) else trees.candidate / file
        shared[file] = give(source, trees.baseline, PurePath(file))
    return replace(trees, shared=shared)


def _modules(trees: Trees, used: Used, prefixes: Sequence[str]) -> Iterator[str]:
    """Yield the Python modules of its own tree that the candidate has loaded."""
    tree = Tree(trees.candidate, prefixes, other=trees.baseline)
    for file in used.loaded:
        if file.endswith(_SOURCE) and tree.holds(PurePath(file)):
            yield os.path.relpath(file, tree.root)


def _expanded(trees: Trees, used: Used) -> Iterator[str]:
    """Yield the files that are missed, and those of folders that are."""
    for name in used.named:
        path = trees.candidate / name
        for file in path.rglob("*") if is_folder(path) else [path]:
            if is_file(file):
                yield file.relative_to(trees.candidate).as_posix()


def _is_lacking(trees: Trees, file: str) -> bool:
    """Whether the candidate alone has it, and not as part of a submodule, whose revision may differ too.

    Compiled code is looked for where it is loaded: it is built, and never given.
    """
    is_there = is_file(trees.candidate / file) and not os.path.lexists(trees.baseline / file)
    return is_there and not is_compiled(file) and not _is_in_another_repository(trees.candidate, file)


def _known_as(root: Path, file: str) -> str:
    """Return by what git knows a file: by the link that leads to its folder, where there is one."""
    folders = [*PurePath(file).parents][-2::-1]
    return next((folder.as_posix() for folder in folders if (root / folder).is_symlink()), file)


def _is_in_another_repository(root: Path, file: str) -> bool:
    return any(os.path.lexists(root / folder / ".git") for folder in [*PurePath(file).parents][:-1])


def _why_kept(trees: Trees, file: str, tracked: Collection[str]) -> str:
    """Return why the baseline is not given a file, "" where it is."""
    path = trees.candidate / file
    if file.endswith(_SOURCE):
        if not is_constants(path):
            return "it is code, and may be made from what differs"
    elif is_code(path):
        return "it is code"
    if source := changed_source(file, trees.candidate, trees.baseline, tracked):
        return f"{source} differs between both trees, and it may be made from that"
    return ""
