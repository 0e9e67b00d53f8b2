"""One baseline file: the stored runs of one test on one machine, as signed lines of JSON.

The first line says what the file is and signs the others; each of those is one stored run, the oldest first.
"""

import hashlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_hwperf.records.codec import from_file, from_json, to_json
from pytest_hwperf.records.errors import SerialisationError, StoreError
from pytest_hwperf.records.run import SCHEMA, Run, StoredRun, replace
from pytest_hwperf.records.structs import Record

SUFFIX, EARLIER_SUFFIX = ".jsonl", ".json"  # the second of versions that read schema 1
_OLDER = "delete it, and save a new baseline with pytest --hwperf-save"
LARGEST = 50_000_000  # bytes of a file: far above what twenty runs need; a larger one is not loaded into memory
_ROOM_OF_HEADING = 256  # bytes
_LONGEST_SLUG = 80  # characters: with the digits and the ending far below the 255 bytes of a file name


class Heading(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf baseline"):
    """The first line of a file."""

    schema: int = SCHEMA
    digest: str  # SHA-256 of the other lines: finds edits by hand and half merges, and is no protection against intent


class Entry(NamedTuple):
    """A stored run with its line, so that saving the next one need not write it again."""

    stored: StoredRun
    line: bytes


def file_name(test: str, label: str) -> str:
    """Return the file name of a test: a slug to read, and digits of its whole id since slugs collide."""
    slug = re.sub(r"\W+", "-", f"{test} {label}", flags=re.ASCII).strip("-")[-_LONGEST_SLUG:]
    digits = hashlib.sha256(f"{test}\0{label}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug}-{digits}{SUFFIX}"


def place(run: Run) -> str:
    """Return where the file of a run lies below its baseline."""
    return f"{run.machine.fingerprint}/{file_name(run.test, run.label)}"


def entries_of(runs: Sequence[StoredRun]) -> tuple[Entry, ...]:
    """Write stored runs as lines."""
    return tuple(Entry(stored=run, line=to_json(run)) for run in runs)


def unknown_in(known: Sequence[Entry], entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries that are not there yet, each once.

    A line of a version whose runs had fewer fields is another text of the same run.
    """
    there = {entry.line for entry in known}
    new = [entry for line, entry in {entry.line: entry for entry in entries}.items() if line not in there]
    return tuple(entry for entry in new if all(entry.stored != one.stored for one in known))


def bounded(entries: Sequence[Entry], largest: int = LARGEST) -> tuple[Entry, ...]:
    """Keep a file readable: as far back as they fit the newest runs are whole, then without values, then left out."""
    kept, room = list[Entry](), largest - _ROOM_OF_HEADING
    for entry in reversed(entries):
        fitting = entry if len(entry.line) < room or not kept else _without_values(entry)
        if len(fitting.line) >= room:
            break
        kept.append(fitting)
        room -= len(fitting.line) + 1
    if not kept:
        raise StoreError(
            f"a run of {entries[-1].stored.run.test} takes {len(entries[-1].line) / 1e6:.1f} MB, a baseline at most "
            f"{largest / 1e6:g} MB: give fewer examples with y_true="
        )
    return tuple(reversed(kept))


def _without_values(entry: Entry) -> Entry:
    stored = replace(entry.stored, run=replace(entry.stored.run, samples=()))
    return Entry(stored=stored, line=to_json(stored))


def render(entries: Sequence[Entry]) -> bytes:
    """Write a file: one stored run a line, so that version control shows what changed."""
    lines = [entry.line for entry in entries]
    return b"".join(line + b"\n" for line in (to_json(Heading(digest=_digest(lines)), check=False), *lines))


def parse(path: Path, content: bytes) -> tuple[Entry, ...]:
    """Read what `render` wrote to `path`; at least one entry."""
    restore = f"restore it with `git checkout -- {shlex.quote(str(path))}`, or delete it to start over"
    heading, *lines = [line for line in content.splitlines() if line] or [b""]
    if path.suffix == EARLIER_SUFFIX:
        heading = content  # then the whole file was one object
    digest = _digest(lines)
    if heading != to_json(Heading(digest=digest), check=False):  # what is wrong with it takes longer to say
        try:
            signed = from_file(Heading, heading, other=restore, older=_OLDER).digest
        except SerialisationError as error:
            raise StoreError(f"{path} {error}") from error
        if signed != digest:
            raise StoreError(f"{path} was cut off, edited by hand or half merged (its digest does not fit): {restore}")
    try:
        entries = tuple(Entry(stored=from_json(StoredRun, line), line=line) for line in lines)
    except SerialisationError as error:
        raise StoreError(f"{path} holds no valid run ({error}): {restore}") from error
    if not entries:
        raise StoreError(f"{path} holds no run: {restore}")
    _check_place(path, [entry.stored.run for entry in entries])
    return entries


def _check_place(path: Path, runs: Sequence[Run]) -> None:
    """Refuse runs of other tests and machines: their file was moved, or holds a line of another one."""
    first, here = runs[0], f"{path.parent.name}/{path.name}"
    mine = (first.test, first.label, first.machine)
    strange = [run for run in runs[1:] if (run.test, run.label, run.machine) != mine]
    for run in (first, *strange):
        if place(run) != here:
            raise StoreError(f"{path} holds what belongs at {place(run)} of its baseline: move it back, or delete it")


def _digest(lines: Sequence[bytes]) -> str:
    """Return the SHA-256 of lines, whatever their ends."""
    return hashlib.sha256(b"\n".join(lines)).hexdigest()
