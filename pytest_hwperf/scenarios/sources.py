"""The code that a conversion ran: by its content a converted model is found again."""

import gc
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

R = TypeVar("R")

# Libraries that converters, estimators and ONNX Runtime consist of: the key of a conversion holds the versions that
# decide, and their modules need not be loaded to look a model up.
_LIBRARIES = frozenset(
    {
        *("skl2onnx", "onnx", "onnxruntime", "sklearn", "numpy", "scipy", "joblib", "threadpoolctl"),
        *("google", "ml_dtypes", "flatbuffers", "sympy", "packaging", "pandas"),
    }
)
_GENERATED = "namedtuple_"  # how the standard library calls the module of a generated class


def recorded(build: Callable[[], R]) -> tuple[R, Mapping[str, str] | None]:
    """Call `build`; return its result and the digest of each module that ran, but for those of libraries.

    Returns:
        The result, and module → SHA-256 of its file; None where code ran that lies in no file.
    """
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
    found = {name: _digest(name) for name in {*ran.values()} if not is_library(name)}
    known = {name: digest for name, digest in found.items() if digest}
    return result, known if len(known) == len(found) else None


def unchanged(sources: Mapping[str, str]) -> bool:
    """Whether every module still has the content that it had when it was recorded."""
    return all(_digest(name) == digest for name, digest in sources.items())


def is_library(module: str) -> bool:
    """Whether a module is part of Python or of a library whose version is known."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in _LIBRARIES or module.startswith(_GENERATED)


def own_frame(error: BaseException, but_for: str = "pytest_hwperf") -> str:
    """Return where an error passed through code of no library, as `work.py:12`, the innermost; "" where it did not."""
    places = [
        f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
        for frame in _frames(error.__traceback__)
        if not is_library(name := frame.tb_frame.f_globals.get("__name__") or "") and name.partition(".")[0] != but_for
    ]
    return places[-1] if places else ""


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _digest(module: str) -> str:
    """Return the SHA-256 of a module's file, loaded or not; "" where it has none."""
    file: Any = getattr(sys.modules.get(module), "__file__", None)
    try:
        if file is None and module not in sys.modules:
            spec = find_spec(module)
            file = spec.origin if spec is not None else None
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""
    except (ImportError, ValueError, OSError):
        return ""
