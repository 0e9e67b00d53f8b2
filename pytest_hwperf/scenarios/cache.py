"""Converted models on disk: plain ONNX files named by their content, each with a JSON note that says whose they are."""

import atexit
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ENVIRONMENT = "HWPERF_CACHE_DIR"
_UNUSED_DAYS = 30  # a model trained without a random state is another one in each session: its files must not pile up


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A converted model that lies on disk, checked."""

    path: Path
    sha256: str  # of the file's content
    bytes: int
    notes: Mapping[str, str]  # what was found out when it was converted


def key_of(*parts: object) -> str:
    """Return the name under which a conversion with exactly these ingredients is noted."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()


def recall(key: str, build: Callable[[], tuple[bytes, Mapping[str, str]]]) -> StoredModel:
    """Return the model noted under `key`; where there is none, or a damaged one, build and note it."""
    found = _find(folder(), key) or _find(_temporary(), key)
    if found is not None:
        return found
    model, notes = build()
    try:
        stored = _store(folder(), key, model, notes)
    except OSError:  # no place there: a conversion that is not kept is better than none
        return _store(_temporary(), key, model, notes)
    _drop_unused(stored.path.parent)
    return stored


def folder() -> Path:
    """Return where converted models are kept: `HWPERF_CACHE_DIR`, else the user's cache folder."""
    import platformdirs

    chosen = os.environ.get(ENVIRONMENT) or platformdirs.user_cache_dir("pytest-hwperf")
    return Path(chosen) / "models"


@cache
def _temporary() -> Path:
    """Return a folder that lasts as long as this process."""
    place = tempfile.mkdtemp(prefix="hwperf-models-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def _find(place: Path, key: str) -> StoredModel | None:
    """Read a note and trust it only if the model is, byte for byte, the one it speaks of."""
    try:
        note = json.loads((place / f"{key}.json").read_text(encoding="utf-8"))
        sha256, notes = str(note["sha256"]), {str(name): str(text) for name, text in note["notes"].items()}
        path = place / f"{sha256}.onnx"
        with path.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # missing or damaged: both mean that it is built again
    if actual != sha256:
        return None
    for used in (path, place / f"{key}.json"):
        with suppress(OSError):  # a read-only cache cannot note that it was used, and need not
            os.utime(used)
    return StoredModel(path=path, sha256=sha256, bytes=path.stat().st_size, notes=notes)


def _store(place: Path, key: str, model: bytes, notes: Mapping[str, str]) -> StoredModel:
    """Write the model, then the note: a note never speaks of a model that is not there."""
    place.mkdir(parents=True, exist_ok=True)
    sha256 = hashlib.sha256(model).hexdigest()
    path = place / f"{sha256}.onnx"
    _write(path, model)
    _write(place / f"{key}.json", json.dumps({"sha256": sha256, "notes": dict(notes)}, indent=1).encode())
    return StoredModel(path=path, sha256=sha256, bytes=len(model), notes=dict(notes))


def _write(path: Path, content: bytes) -> None:
    """Let the file appear whole: several processes may convert one model at once."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as draft:
        draft.write(content)
    Path(draft.name).replace(path)


def _drop_unused(place: Path) -> None:
    oldest = time.time() - _UNUSED_DAYS * 86400
    for kind in ("*.onnx", "*.json", "*.part"):
        for path in place.glob(kind):
            with suppress(OSError):  # another process may have dropped it first
                if path.stat().st_mtime < oldest:
                    path.unlink()
