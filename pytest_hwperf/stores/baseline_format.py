"""One baseline file: the stored runs of one test on one machine, as signed lines of JSON.

The first line says what the file is and signs the others. Each of those is one stored run, the oldest first, so that
version control shows what changed.
"""

import hashlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from pytest_hwperf.records.codec import from_file, from_json, to_json
from pytest_hwperf.records.errors import SerialisationError, StoreError
from pytest_hwperf.records.run import SCHEMA, Run, StoredRun, replace
from pytest_hwperf.records.structs import Record

SUFFIX = ".jsonl"
LARGEST = 50_000_000  # bytes of a file: far above what twenty runs need; a larger one is not loaded into memory
_OLDER = "delete it, and save a new baseline with pytest --hwperf-save"
_ROOM_OF_HEADING = 256  # bytes
_LONGEST_SLUG = 80  # characters: with the digits and the ending far below the 255 bytes of a file name
Runs = tuple[StoredRun, ...]  # of one file: the oldest first; () where there is no file


class Heading(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf baseline"):
    """The first line of a file."""

    schema: int = SCHEMA
    digest: str  # SHA-256 of the other lines: finds edits by hand and half merges, and is no protection against intent


def file_name(test: str, label: str) -> str:
    """Return the file name of a test: a slug to read, and digits of its whole id since slugs collide."""
    slug = re.sub(r"\W+", "-", f"{test} {label}", flags=re.ASCII).strip("-")[-_LONGEST_SLUG:]
    digits = hashlib.sha256(f"{test}\0{label}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug}-{digits}{SUFFIX}"


def place(run: Run) -> str:
    """Return where the file of a run lies below its baseline."""
    return f"{run.machine.fingerprint}/{file_name(run.test, run.label)}"


def render(runs: Sequence[StoredRun]) -> bytes:
    """Write a file that can be read again.

    As far back as they fit the newest runs are whole, then without values, then left out.
    """
    lines, room = list[bytes](), LARGEST - _ROOM_OF_HEADING
    for stored in reversed(runs):
        line = to_json(stored, check=False)
        if len(line) >= room and lines:
            line = to_json(replace(stored, run=replace(stored.run, samples=())))
        if len(line) >= room:
            break
        lines.insert(0, line)
        room -= len(line) + 1
    if not lines:
        raise StoreError(
            f"a run of {runs[-1].run.test} takes {len(line) / 1e6:.1f} MB, a baseline at most {LARGEST / 1e6:g} MB: "
            "give fewer examples with y_true="
        )
    return b"".join(line + b"\n" for line in (_heading(_digest(lines)), *lines))


def parse(path: Path, content: bytes) -> Runs:
    """Read what `render` wrote to `path`; at least one run."""
    restore = f"restore it with `git checkout -- {shlex.quote(str(path))}`, or delete it to start over"
    heading, *lines = [line for line in content.splitlines() if line] or [b""]
    digest = _digest(lines)
    if heading != _heading(digest):  # what is wrong with it takes longer to say
        try:
            signed = from_file(Heading, heading, other=restore, older=_OLDER).digest
        except SerialisationError as error:
            raise StoreError(f"{path} {error}") from error
        if signed != digest:
            raise StoreError(f"{path} was cut off, edited by hand or half merged (its digest does not fit): {restore}")
    try:
        runs = tuple(from_json(StoredRun, line) for line in lines)
    except SerialisationError as error:
        raise StoreError(f"{path} holds no valid run ({error}): {restore}") from error
    if not runs:
        raise StoreError(f"{path} holds no run: {restore}")
    first = runs[0].run
    mine = (first.test, first.label, first.machine)
    strange = [one.run for one in runs if (one.run.test, one.run.label, one.run.machine) != mine]
    for run in (first, *strange):
        if place(run) != f"{path.parent.name}/{path.name}":  # it was moved, or holds a line of another file
            raise StoreError(f"{path} holds what belongs at {place(run)} of its baseline: move it back, or delete it")
    return runs


def _digest(lines: Sequence[bytes]) -> str:
    """Return the SHA-256 of lines, whatever their ends."""
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _heading(digest: str) -> bytes:
    return to_json(Heading(digest=digest), check=False)
