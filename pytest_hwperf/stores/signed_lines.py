"""The lines of a baseline file: a heading signs each of the others, and git merges the files of two branches.

Where both branches have saved, git's union keeps the lines of both: two headings, and every run that one of them signs.
The same lines stand between conflict marks where a merge did without the union.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_hwperf.records.codec import from_file, to_json
from pytest_hwperf.records.errors import SerialisationError, StoreError
from pytest_hwperf.records.run import SCHEMA
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import shell_word, visible

# What git's union needs to know, in a file of hwperf's own folder.
MERGED = b"""\
# Two branches that have saved runs of one test: hwperf reads the lines of both.
*.jsonl merge=union
"""
ROOM_OF_HEADING = 256  # bytes
_DIGITS = 16
ROOM_OF_DIGEST = _DIGITS + 1  # bytes
_OLDER = "delete it, and save a new baseline with pytest --hwperf-save"
_MARK = re.compile(rb"(<{7}|>{7}|\|{7}|={7})(?: (.*))?\Z")


class Heading(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf baseline"):
    """The first line of a file, and of each side of a merge."""

    schema: int = SCHEMA
    # Of each line the first digits of its SHA-256, in order. They find edits by hand and half merges, and are no
    # protection against intent. Earlier files have one SHA-256 of all lines.
    digest: str


class SignedLines(NamedTuple):
    """What a file holds below its headings."""

    lines: Sequence[bytes]  # each a stored run
    is_merged: bool  # from several sides, so that the order says nothing
    sides: Sequence[Sequence[bytes]] = ()  # groups of headings' lines that have no run in common; () for one group


def sign(lines: Sequence[bytes]) -> bytes:
    """Return the heading of these lines."""
    return to_json(Heading(digest=" ".join(map(_digest, lines))), check=False)


def read_lines(path: Path, content: bytes) -> SignedLines:
    """Return the lines of a file if its headings sign every one of them, and nothing else."""
    rows = [row for row in content.splitlines() if row]
    unmarked = [row for row in rows if not _MARK.match(row)] or [b""]
    headings = dict.fromkeys([unmarked[0], *filter(_is_heading, unmarked)])
    lines = [row for row in unmarked[1:] if not _is_heading(row)]
    if [sign(lines)] == [*headings]:  # nearly always; what is wrong with it takes longer to say
        return SignedLines(lines, is_merged=False)
    otherwise = remedy_of(path, rows)
    try:
        signed = [from_file(Heading, one, other=otherwise, older=_OLDER).digest.split() for one in headings]
    except SerialisationError as error:
        raise StoreError(f"{path} {error}") from error
    if signed in ([[hashlib.sha256(b"\n".join(lines)).hexdigest()]], [[*map(_digest, lines)]]):
        return SignedLines(lines, is_merged=False)
    known = {_digest(line): line for line in lines}
    is_merged = len(headings) > 1
    if {*known} != {digest for digests in signed for digest in digests} or not is_merged:
        raise StoreError(f"{path} was cut off, edited by hand or half merged (its digest does not fit): {otherwise}")
    groups = [[known[digest] for digest in group] for group in _connected(signed)]
    return SignedLines([*known.values()], is_merged=True, sides=groups if len(groups) > 1 else ())


def remedy_of(path: Path, rows: Sequence[bytes]) -> str:
    """Return how to get a file back that cannot be read, where git has it and where a merge has not ended."""
    git, name = f"git -C {shell_word(str(path.parent))}", shell_word(path.name)
    ours, theirs = _name_after(rows, b"<<<<<<<"), _name_after(rows, b">>>>>>>")
    if not ours or not theirs:
        return f"restore it with `{git} checkout HEAD -- {name}`, or delete it to start over"
    return (
        f"two branches have saved runs, {ours} and {theirs}. Keep those of {ours} with "
        f"`{git} checkout --ours -- {name}`, or those of {theirs} with `{git} checkout --theirs -- {name}`, then type "
        f"`{git} add -- {name}`. Where the conflict marks are committed, delete the file to start over"
    )


def refuse_sides(path: Path, content: bytes, names: Sequence[str]) -> StoreError:
    """Return why runs of several sides without a common one are no baseline, with what to type."""
    rows = content.splitlines()
    marked = remedy_of(path, rows) if any(map(_MARK.match, rows)) else ""
    anew = f"`rm -- {shell_word(str(path))}`, then save the merged code with pytest --hwperf-save"
    return StoreError(
        f"{path} holds the runs of two branches, saved at {' and at '.join(names)}, which have no run in common: a new "
        f"normal was accepted in one of them, or both saved a first run. {marked or f'Start over with {anew}'}"
    )


def _name_after(rows: Sequence[bytes], mark: bytes) -> str:
    """Return what git calls the side of a merge; "" where that mark is missing."""
    found = (match for match in map(_MARK.match, rows) if match and match[1] == mark)
    return next((visible((match[2] or b"").decode(errors="replace")) for match in found), "")


def _is_heading(row: bytes) -> bool:
    return row.lstrip(b'{ "').startswith(b"what")


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:_DIGITS]


def _connected(sides: Sequence[Sequence[str]]) -> list[list[str]]:
    """Put sides together that have a line in common, directly or by others; return each group's lines."""
    groups = list[dict[str, None]]()
    for side in sides:
        mine = dict.fromkeys(side)
        apart = list[dict[str, None]]()
        for group in groups:
            if group.keys() & mine.keys():
                mine = group | mine
            else:
                apart.append(group)
        groups = [*apart, mine]
    return [[*group] for group in groups]
