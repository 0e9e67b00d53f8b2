"""The notes of a team beside its baseline files: one line of JSON each, so that version control merges them."""

import os
from collections.abc import Sequence
from pathlib import Path

from pytest_hwperf.core.errors import SerialisationError, StoreError
from pytest_hwperf.core.history import Annotation
from pytest_hwperf.core.serialisation import from_json, to_json
from pytest_hwperf.host.files import read_file

NAME = ".annotations.jsonl"  # no baseline can be called so

_LARGEST = 10_000_000  # bytes


def read_notes(path: Path) -> tuple[Annotation, ...]:
    """Return all notes, oldest first; () where there is no file."""
    if not os.path.lexists(path):
        return ()
    try:
        lines = read_file(path, _LARGEST).splitlines()
        notes = [from_json(Annotation, line) for line in lines if line.strip()]
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): fix that, or delete it") from error
    except SerialisationError as error:
        raise StoreError(f"{path} holds a line that is no note ({error}): remove that line") from error
    return tuple(sorted(notes, key=lambda note: note.noted_at))


def with_note(notes: Sequence[Annotation], note: Annotation) -> tuple[Annotation, ...]:
    """Add a note; the same text at the same revision changes nothing."""
    if any((one.revision, one.text) == (note.revision, note.text) for one in notes):
        return tuple(notes)
    return (*notes, note)


def render(notes: Sequence[Annotation]) -> bytes:
    """Write the file."""
    return b"".join(to_json(note) + b"\n" for note in notes)
