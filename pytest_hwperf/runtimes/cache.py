"""Converted models on disk: ONNX files named by their content, with a JSON note for each conversion.

A model whose conversion ran code of the project itself depends on whatever that code reads: such a model is kept for
the fresh processes of this session, and for nobody else.
"""

import csv
import gc
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import TypeVar

from pytest_hwperf.host.files import cache_folder, digest_of, replace_file
from pytest_hwperf.host.workdirs import folder_of_process, goes_with_a_run
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.messages import Statement

R = TypeVar("R")

# Libraries that converters, estimators and ONNX Runtime consist of: the key of a conversion holds the versions that
# decide, and their modules need not be loaded to look a model up.
_LIBRARIES = frozenset(
    {
        *("skl2onnx", "onnx", "onnxruntime", "sklearn", "numpy", "scipy", "joblib", "threadpoolctl"),
        *("google", "ml_dtypes", "flatbuffers", "sympy", "packaging", "pandas", "pytest_hwperf"),
        *("xgboost", "lightgbm", "onnxmltools", "onnxconverter_common"),
        *("torch", "torchgen", "functorch", "onnxscript", "onnx_ir", "mpmath"),
        *("_pytest", "pluggy"),  # which take part in each import
    }
)
_GENERATED = "namedtuple_"  # how the standard library calls the module of a generated class


def recorded(build: Callable[[], R]) -> tuple[R, Mapping[str, str] | None]:
    """Call `build`; return its result and which further installed libraries ran."""
    ran: dict[CodeType, str] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        del event, argument
        if frame.f_code not in ran:
            ran[frame.f_code] = frame.f_globals.get("__name__") or ""

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # finalizers of other code would seem to be part of the conversion
    sys.setprofile(note)
    try:
        result = build()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    finders = {getattr(finder, "__module__", "") for finder in sys.meta_path}  # they ran where something was imported
    found = _distributions(name for name in {*ran.values()} - finders if not is_library(name))
    return result, None if found is None else {name: _digest(name) for name in found}


def unchanged(libraries: Mapping[str, str]) -> bool:
    """Whether every library is installed as it was when it was recorded."""
    return all(_digest(name) == digest for name, digest in libraries.items())


def is_library(module: str) -> bool:
    """Whether a module is part of Python or of a library whose version is known."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in _LIBRARIES or module.startswith(_GENERATED)


def own_frame(error: BaseException) -> str:
    """Return where an error passed through code of no library, as `work.py:12`, the innermost; "" where it did not."""
    places = [
        f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
        for frame in _frames(error.__traceback__)
        if not is_library(frame.tb_frame.f_globals.get("__name__") or "")
    ]
    return places[-1] if places else ""


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _distributions(modules: Iterable[str]) -> set[str] | None:
    """Return which distributions have installed the files of modules; None where one is of no distribution.

    A project that is installed as editable has installed none of its files. A distribution is known by its name, so
    that another one of this name must not be found before it.
    """
    files = [str(getattr(sys.modules.get(module), "__file__", None) or "") for module in modules]
    if not all(files):
        return None
    folders = dict.fromkeys(map(os.path.abspath, sys.path))
    above = (folder for folder in folders if any(file.startswith(f"{folder}{os.sep}") for file in files))
    listed = {path: one for folder in above for path, one in _listed(folder).items()}
    owners = {listed.get(file) for file in files}
    names = {one.name for one in owners if one and _digest(one.name) == _digest_of(one)}
    return names if len(names) == len(owners) else None


def _listed(folder: str) -> dict[str, metadata.Distribution]:
    """Return the files that distributions have installed in a folder of `sys.path`, each with its distribution."""
    return {
        f"{folder}/{path}".replace("/", os.sep): one
        for one in metadata.distributions(path=[folder])
        for path, *_ in filter(None, csv.reader((one.read_text("RECORD") or "").splitlines()))
    }


def _digest(distribution: str) -> str:
    """Return the SHA-256 of the list of a distribution's files, which has the hash of each; "" where it is gone."""
    try:
        return _digest_of(metadata.distribution(distribution))
    except metadata.PackageNotFoundError:
        return ""


def _digest_of(distribution: metadata.Distribution) -> str:
    return hashlib.sha256((distribution.read_text("RECORD") or "").encode()).hexdigest()


_SESSION_VARIABLE = "HWPERF_SESSION_MODELS"  # to a fresh process, the folder of the session that has started it
_REFUSED = "refused"  # note: why there is no such form, as JSON
_UNUSED_DAYS = 30  # a model trained without a random state differs in each session: its files must not pile up

_OWN = 0o600  # a model is its owner's


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedModel:
    """A converted model on disk, whose content was checked."""

    path: Path
    sha256: str  # of the file's content
    bytes: int
    notes: Mapping[str, str]  # results of the conversion


def key_of(*parts: object) -> str:
    """Return the name of a conversion that depends on exactly these parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()


def load_or_build(key: str, build: Callable[[], tuple[bytes, Mapping[str, str] | Statement]]) -> CachedModel:
    """Return the model of the conversion `key`; where there is none, or a damaged one, build and store it.

    In place of notes `build` may return why there is no such form. That is kept too: near a bound, noise in a profile
    must not make a scenario come and go.
    """
    places = [place for place in (folder(), _of_session()) if place is not None]
    found = next((one for place in places if (one := _find(place, key)) is not None), None)
    stored = found or _built(key, build)
    if refused := stored.notes.get(_REFUSED):
        raise ScenarioUnavailable(from_json(Statement, refused))
    return stored


def notes_of(key: str, tell: Callable[[], Mapping[str, str] | Statement]) -> Mapping[str, str]:
    """Return what running a model tells, from the cache where it was run before; raise as `load_or_build` does.

    A fresh process must not have used the runtime before its memory and its cold start are measured.
    """
    return load_or_build(key, lambda: (b"", tell())).notes


def _built(key: str, build: Callable[[], tuple[bytes, Mapping[str, str] | Statement]]) -> CachedModel:
    (model, said), libraries = recorded(build)
    notes = {_REFUSED: to_json(said).decode()} if isinstance(said, Statement) else said
    lasts = libraries is not None
    ran = {"libraries": dict(libraries or {}), "process": None if lasts else os.getpid()}
    if lasts or goes_with_a_run(folder()):
        with suppress(OSError):  # not writable or full: a conversion that is not kept is better than none
            stored = _store(folder(), key, model, notes, ran)
            _drop_unused(stored.path.parent)
            return stored
    return _store(_of_session() or _temporary(), key, model, notes, ran)


def session_variables() -> Mapping[str, str]:
    """Return what a fresh process has to find in its environment, so that it need not convert again."""
    place = _of_session()
    return {} if place is None else {_SESSION_VARIABLE: str(place)}


def folder() -> Path:
    return cache_folder() / "models"


def _of_session() -> Path | None:
    """Return the folder of models that are not kept after this session; None where there are none yet."""
    return _given() or (_temporary() if _temporary.cache_info().currsize else None)


@cache
def _given() -> Path | None:
    """Return the folder of the session that has started this process, and keep it from what this process starts."""
    given = os.environ.pop(_SESSION_VARIABLE, "")
    return Path(given) if given else None


@cache
def _temporary() -> Path:
    """Return a folder that lasts as long as this process."""
    return folder_of_process()


def _find(place: Path, key: str) -> CachedModel | None:
    """Read a note, and accept it only if the model has the digest in it.

    What code of the project has converted in this process is not accepted: a test may have changed what it reads.
    """
    try:
        note = json.loads((place / f"{key}.json").read_text(encoding="utf-8"))
        sha256, notes = str(note["sha256"]), {str(name): str(text) for name, text in note["notes"].items()}
        libraries = {str(name): str(digest) for name, digest in note["libraries"].items()}
        path = place / f"{sha256}.onnx"
        usable = note["process"] != os.getpid() and digest_of(path) == sha256 and unchanged(libraries)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # missing or damaged: it is built again
    if not usable:
        return None
    for used in (path, place / f"{key}.json"):
        with suppress(OSError):  # a read-only cache keeps no record of its use
            os.utime(used)
    return CachedModel(path=path, sha256=sha256, bytes=path.stat().st_size, notes=notes)


def _store(place: Path, key: str, model: bytes, notes: Mapping[str, str], ran: Mapping[str, object]) -> CachedModel:
    """Write the model, then the note: a note never names a model that is not there."""
    sha256 = hashlib.sha256(model).hexdigest()
    path = place / f"{sha256}.onnx"
    replace_file(path, model, mode=_OWN)
    note = {"sha256": sha256, "notes": dict(notes), **ran}
    replace_file(place / f"{key}.json", json.dumps(note, indent=1).encode(), mode=_OWN)
    return CachedModel(path=path, sha256=sha256, bytes=len(model), notes=dict(notes))


def _drop_unused(place: Path) -> None:
    oldest = time.time() - _UNUSED_DAYS * 86400
    for kind in ("*.onnx", "*.json", "*.tmp"):
        for path in place.glob(kind):
            with suppress(OSError):  # another process may have dropped it first
                if path.stat().st_mtime < oldest:
                    path.unlink()
