"""What differs between both trees, byte by byte, before the candidate's tests are laid over the baseline."""

import os
from collections.abc import Mapping
from pathlib import Path

from pytest_hwperf.checkout.overlay import INI_COPY
from pytest_hwperf.checkout.worktree import files_of, walk
from pytest_hwperf.host.files import read_file
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.stats.affected import Changes
from pytest_hwperf.stats.changed_code import MODULE, changed_code

_LARGEST_SOURCE = 10_000_000  # bytes of a Python file whose code is compared
_PART = 1 << 20  # bytes that are compared at once
_NOT_OF_A_REVISION = frozenset({".git", ".hwperf", ".pytest_cache"})  # the repository's own, and what pytest keeps
_SOURCE = ".py"


def changes_between(candidate: Path, baseline: Path) -> Changes:
    """Compare all files that either revision has, and what was built, shared or not yet added besides."""
    then, now = (
        {os.path.relpath(path, root) for path in files}
        for root, files in ((baseline, walk(baseline)), (candidate, files_of(candidate)))
    )
    changed, other, only = dict[str, Mapping[Side, tuple[str, ...]]](), set[str](), dict[str, Side]()
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
                changed[file] = _code(one, two)
            else:
                other.add(file)
    return Changes(changed=changed, other=frozenset(other), only=only, folders=frozenset(folders))


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


def _code(one: Path, other: Path) -> Mapping[Side, tuple[str, ...]]:
    """Return the keys of changed code of each side; of a file that cannot be read, all of it."""
    try:
        then, now = changed_code(read_file(one, _LARGEST_SOURCE), read_file(other, _LARGEST_SOURCE))
    except OSError:
        return {"baseline": (MODULE,), "candidate": (MODULE,)}
    return {"baseline": tuple(sorted(then)), "candidate": tuple(sorted(now))}
