"""Files that the sides have opened: those that lead from one side to the other, and those that only one side reads."""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath

from pytest_hwperf.checkout.overlay import INI_COPY
from pytest_hwperf.checkout.trees import PREFIXES, Tree, Trees, is_same, sharing
from pytest_hwperf.host.files import is_file, is_folder
from pytest_hwperf.host.opened_files import (
    ABSENT,
    APPENDED,
    ASKED,
    FOLDER,
    LISTED,
    MADE,
    NAMED,
    PUT,
    READ,
    Opened,
    is_new,
    system_places,
)
from pytest_hwperf.host.source_files import is_compiled
from pytest_hwperf.host.workdirs import PREFIX, private_folder
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.text import named
from pytest_hwperf.stats.pairs.hypotheses import SIDES

_BY_PYTHON = frozenset({MADE, APPENDED, PUT})
_NONE = frozenset[str]()
_CACHE = "__pycache__"
_LOCK = re.compile("(?<![bc])lock")  # and no block or clock
_SHOWN = 3  # files
_ANSWERS, _MADE = frozenset({ASKED, ABSENT}), frozenset({MADE, APPENDED, FOLDER, PUT})
_SOURCE = ".py"
_METADATA = (".egg-info", ".dist-info")  # read by whoever asks for installed packages, wherever they come from


def check_shared(uses: Mapping[Side, Mapping[str, str]], since: float) -> None:
    """Refuse a file that both sides use and that was made or changed since they began, unless it only receives.

    Byte code and what belongs to an environment are left out. So is what only one side uses: its name differs from
    that of the other side.
    """
    made = {path for letters in uses.values() for path in letters if FOLDER in letters[path]}
    one, other = (_by_file(uses[side], made, since) for side in ("baseline", "candidate"))
    one, other = one | dict(_moved(other, one)), other | dict(_moved(one, other))
    apart = (*system_places(PREFIXES), _own_folders())
    shared = [
        file
        for file in sorted(one.keys() & other.keys())
        if not file.startswith(apart) and _CACHE not in file and _is_shared(file, one[file], other[file], since)
    ]
    if shared:
        raise UsageProblem(
            f"not comparable: both sides use {named(shared)}, which was made or changed while they ran, so that one "
            "side may measure what the other has made. Let the tests keep it in tempfile.gettempdir(), in a folder of "
            "tmp_path_factory or in $XDG_CACHE_HOME: each side has its own. If it is a download, fetch it before you "
            "start pytest"
        )


def _own_folders() -> str:
    """Return how the paths of this plugin's folders begin, which come and go."""
    return f"{private_folder()}{os.sep}{PREFIX}"


def _by_file(uses: Mapping[str, str], made: Collection[str], since: float) -> dict[str, frozenset[str]]:
    """Return the uses of each file, links resolved; what is made within a folder counts as used with it.

    So it does for who asks about a folder that a side has made, and puts nothing in it: it may take what is there.
    """
    found = dict[str, frozenset[str]]()
    filled = {os.path.dirname(path) for path, letters in uses.items() if _BY_PYTHON & {*letters}}  # noqa: PTH120 - texts
    for path, letters in uses.items():
        real = os.path.realpath(path)
        found[real] = found.get(real, _NONE) | {*letters}
        within = {*letters} & {LISTED, FOLDER}
        if ASKED in letters and path in made:
            within |= {FOLDER} if path in filled else {LISTED, FOLDER}
        if within and is_new(real, since) and is_folder(real):  # the folder itself has changed with its files
            with suppress(PermissionError), os.scandir(real) as entries:
                new = [entry.path for entry in entries if entry.is_file(follow_symlinks=False)]
                found |= {file: found.get(file, _NONE) | within for file in new}
    for file, known in found.items():  # what Python has named and not opened, native code may have read
        is_native = NAMED in known and known.isdisjoint({READ, MADE, APPENDED})
        found[file] = known - {NAMED} | ({READ} if is_native else _NONE)
    return found


def _moved(
    by: Mapping[str, frozenset[str]], used: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield what one side has used, with what it was for the other: in a folder that this one has put there."""
    folders = {path for path, letters in used.items() if PUT in letters and is_folder(path)}
    for file in by if folders else ():
        if not folders.isdisjoint(map(str, Path(file).parents)):
            yield file, used.get(file, _NONE) | {PUT}


def _is_shared(path: str, one: frozenset[str], other: frozenset[str], since: float) -> bool:
    """Whether one side may know what the other has made of a path, which was made, changed or taken away.

    A folder that Python made is no difference by itself. Nor is a file that only keeps others waiting, about which
    libraries ask before they open it.
    """
    made = (one | other) & _BY_PYTHON
    # Names that Python code made are known to whoever lists them; of others both must have made the folder.
    one, other = (letters - ({FOLDER} if made else {LISTED}) for letters in (one, other))
    both, is_there = one | other, os.path.lexists(path)
    is_empty = is_file(path) and not os.path.getsize(path)  # noqa: PTH202 - thousands of texts
    is_log = made == {APPENDED} and READ not in both
    is_lock = bool(_LOCK.search(PurePath(path).name)) and (is_empty or not is_there)
    if not (one and other) or is_log or is_lock:
        return False
    was_absent = ABSENT in both and not (FOLDER in both and is_folder(path))
    is_gone = not is_there and not both.isdisjoint({MADE, ASKED})
    if PUT not in both and not is_gone and not (is_new(path, since) and (was_absent or is_file(path))):
        return False
    return not both.isdisjoint({ASKED, ABSENT, LISTED, FOLDER} | (set() if is_empty else {READ}))


def check_opened(trees: Trees, opened: Mapping[Side, Opened]) -> list[str]:
    """Return warnings about data files that make the sides alike, or different."""
    if len(opened) < len(SIDES):
        return []
    both: Mapping[Side, Tree] = {side: trees.tree(side) for side in SIDES}
    crossed = [file for file in opened["baseline"].read if _counts(both["candidate"], file)]
    if code := [file for file in crossed if file.endswith(_SOURCE) or is_compiled(file)]:
        raise WorkerError(
            f"the baseline has read {named(code)} of the present tree, which is not its own code: let the tests find "
            "it by a path from their own file, as `Path(__file__).parent`"
        )
    here, there = both["candidate"].root, both["baseline"].root
    own = {file: there / PurePath(file).relative_to(here) for file in crossed}
    if changed := [file for file in crossed if own[file].is_file() and not is_same(Path(file), own[file])]:
        raise UsageProblem(
            f"not comparable: the baseline has read {named(changed)} of the present tree, which differs from its own: "
            "give it by a path relative to the tests, or in an environment variable"
        )
    check_shared({side: one.uses for side, one in opened.items()}, trees.since)
    said = (
        f"both sides have read {named(crossed)} of the present tree, so that a change of it is not seen: "
        "give it by a path relative to the tests, or in an environment variable"
    )
    return [*([said] if crossed else []), *_kept(opened), *_uneven(opened, both)]


def _kept(opened: Mapping[Side, Opened]) -> Iterator[str]:
    """Yield a warning about files that packages have kept for themselves, where both sides have read the same."""
    one, other = ({*opened[side].kept} for side in SIDES)
    if files := sorted(file for file in one & other if not file.startswith(_own_folders()) and _CACHE not in file):
        yield (
            f"both sides have read {named(files)}, which was made or changed since this session began, and which a "
            "package keeps for itself: if it follows from your code, the baseline was given what follows from the "
            "present one. Remove it, and let the package keep it in $XDG_CACHE_HOME, of which each side has its own"
        )


def _uneven(opened: Mapping[Side, Opened], trees: Mapping[Side, Tree]) -> Iterator[str]:
    """Yield what only one side has read of its own tree, and has not made itself."""
    read = {side: set(own_data(opened[side], trees[side])) for side in SIDES}
    for side, other in (SIDES, SIDES[::-1]):
        files = sorted(read[side] - read[other])
        absent = [file for file in files if not (trees[other].root / file).exists()]
        if absent and side == "candidate":
            remedy = f"if git does not keep it, give it with {sharing(absent[:_SHOWN])}"
            yield f"read by the present code only, and not there in the baseline: {named(absent)}; {remedy}"
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
