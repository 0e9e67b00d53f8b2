"""One stored run as a row of the database: packed, signed, and found again by what it holds."""

import hashlib
import json
import zlib
from typing import NamedTuple

from pytest_hwperf.core.errors import SerialisationError, StoreError
from pytest_hwperf.core.records import StoredRun
from pytest_hwperf.core.serialisation import from_json, to_json, to_short_json

LARGEST = 50_000_000  # bytes of a run, as of a file of baselines: a larger one is not loaded into memory

_DAMAGED = "restore a backup, or remove the test's runs with hwperf baseline remove"


class Entry(NamedTuple):
    """A stored run with its row."""

    stored: StoredRun
    digest: (
        bytes  # SHA-256 of its short JSON, the same in versions with more fields: a run that is there changes nothing
    )
    record: bytes  # this JSON, compressed


def entry_of(stored: StoredRun) -> Entry:
    """Write a stored run."""
    known = from_json(StoredRun, to_json(stored))
    text = to_short_json(known)
    return Entry(stored=known, digest=hashlib.sha256(text).digest(), record=zlib.compress(text))


def why_too_large(stored: StoredRun) -> StoreError | None:
    """Return why a run is not stored, None where it can be."""
    if (size := len(to_json(stored, check=False))) <= LARGEST:
        return None
    return StoreError(
        f"a run of {stored.run.test} takes {size / 1e6:.1f} MB, and {LARGEST / 1e6:g} MB are stored at most: give "
        "fewer examples with y_true="
    )


def stored_of(place: str, digest: bytes, record: bytes) -> StoredRun:
    """Read what `entry_of` wrote."""
    try:
        text = _unpacked(record)
        if hashlib.sha256(text).digest() != bytes(digest):
            raise StoreError(f"{place} was changed (its digest does not fit): {_DAMAGED}")
        return from_json(StoredRun, text)
    except (zlib.error, SerialisationError) as error:
        raise StoreError(f"{place} holds no valid run ({error}): {_DAMAGED}") from error


def _unpacked(record: bytes) -> bytes:
    """Decompress at most as much as is ever written: few bytes can stand for gigabytes."""
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(record, LARGEST)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise zlib.error("cut off, or larger than any run")
    return text


def key_of(*parts: object) -> str:
    """Return 32 hexadecimal digits that stand for texts of any length and content."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def test_key(test: str, label: str) -> str:
    """Return the key of a test with its label."""
    return key_of(test, label)


def baseline_key(name: str, fingerprint: str, test: str, label: str) -> str:
    """Return the key of the runs of one test on one machine."""
    return key_of(name, fingerprint, test, label)
