"""Files that lead from one side to the other: made by one while the pairs run, and used by the other."""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.evidence import Side
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
    system_places,
)
from pytest_hwperf.host.workdirs import PREFIX, private_folder
from pytest_hwperf.trees.ignored import named

_BY_PYTHON = frozenset({MADE, APPENDED, PUT})
_NONE = frozenset[str]()
_CACHE = "__pycache__"
_LOCK = re.compile("(?<![bc])lock")  # and no block or clock


def check_shared(uses: Mapping[Side, Mapping[str, str]], prefixes: Sequence[str], since: float) -> None:
    """Refuse a file that both sides use and that was made or changed since they began, unless it only receives.

    Byte code and what belongs to an environment are left out. So is what only one side uses: its name differs from
    that of the other side.
    """
    made = {path for letters in uses.values() for path in letters if FOLDER in letters[path]}
    one, other = (_by_file(uses[side], made, since) for side in ("baseline", "candidate"))
    one, other = one | dict(_moved(other, one)), other | dict(_moved(one, other))
    apart = (*system_places(prefixes), f"{private_folder()}{os.sep}{PREFIX}")  # folders of this plugin come and go
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
        for file in _new_in(real, since) if within else ():
            found[file] = found.get(file, _NONE) | within
    return {file: _with_native(letters) for file, letters in found.items()}


def _with_native(letters: frozenset[str]) -> frozenset[str]:
    """Count what Python has named and not opened as read, since native code may have."""
    is_native = NAMED in letters and letters.isdisjoint({READ, MADE, APPENDED})
    return letters - {NAMED} | ({READ} if is_native else _NONE)


def _new_in(folder: str, since: float) -> Iterator[str]:
    """Yield the files of a folder that were put there since: the folder itself has changed with them."""
    if _is_new(folder, since) and os.path.isdir(folder):  # noqa: PTH112 - thousands of texts
        with suppress(PermissionError), os.scandir(folder) as entries:
            yield from (entry.path for entry in entries if entry.is_file(follow_symlinks=False))


def _moved(
    by: Mapping[str, frozenset[str]], used: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield what one side has used, with what it was for the other: in a folder that this one has put there."""
    folders = {path for path, letters in used.items() if PUT in letters and os.path.isdir(path)}  # noqa: PTH112 - as above
    for file in by if folders else ():
        if not folders.isdisjoint(map(str, Path(file).parents)):
            yield file, used.get(file, _NONE) | {PUT}


def _is_shared(path: str, one: frozenset[str], other: frozenset[str], since: float) -> bool:
    """Whether one side may know what the other has made of a path."""
    made = (one | other) & _BY_PYTHON
    # Names that Python code made are known to whoever lists them; of others both must have made the folder.
    one, other = (letters - ({FOLDER} if made else {LISTED}) for letters in (one, other))
    both = one | other
    is_log = made == {APPENDED} and READ not in both
    if not (one and other) or is_log or _is_lock(path) or not _has_changed(path, both, since):
        return False
    return not both.isdisjoint({ASKED, ABSENT, LISTED, FOLDER} | (set() if _is_empty(path) else {READ}))


def _has_changed(path: str, letters: frozenset[str], since: float) -> bool:
    """Whether something was made, changed or taken away; a folder that Python made is no difference by itself."""
    if PUT in letters or (not letters.isdisjoint({MADE, ASKED}) and not os.path.lexists(path)):
        return True
    was_absent = ABSENT in letters and not (FOLDER in letters and os.path.isdir(path))  # noqa: PTH112 - as above
    return _is_new(path, since) and (was_absent or os.path.isfile(path))  # noqa: PTH113 - as above


def _is_new(path: str, since: float) -> bool:
    """Whether it was made, changed, moved or linked since: a process can set the other times of a file as it likes."""
    try:
        return os.stat(path).st_ctime >= since  # noqa: PTH116 - as above
    except OSError:
        return False


def _is_lock(path: str) -> bool:
    """Whether a file only keeps others waiting: libraries ask about it before they open it."""
    return bool(_LOCK.search(os.path.basename(path))) and (_is_empty(path) or not os.path.lexists(path))  # noqa: PTH119 - as above


def _is_empty(path: str) -> bool:
    return os.path.isfile(path) and not os.path.getsize(path)  # noqa: PTH113, PTH202 - as above
