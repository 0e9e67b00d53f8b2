"""The code that a conversion ran: the project's own, or that of installed libraries."""

import gc
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import TypeVar

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

    A project that is installed as editable has installed none of its files.
    """
    found, installed = set[str](), dict[str, frozenset[str]]()
    packages: Mapping[str, Sequence[str]] | None = None
    for module in modules:
        file = getattr(sys.modules.get(module), "__file__", None)
        if not file:
            return None
        if packages is None:  # for hundreds of modules it is looked up once: it reads the lists of all distributions
            packages = metadata.packages_distributions()
        names = packages.get(module.partition(".")[0], ())
        installed.update((name, _files(name)) for name in names if name not in installed)
        name = next((name for name in names if os.path.realpath(str(file)) in installed[name]), "")
        if not name:
            return None
        found.add(name)
    return found


def _files(distribution: str) -> frozenset[str]:
    """Return the files that a distribution has installed."""
    found = metadata.distribution(distribution)
    if not found.read_text("RECORD"):
        return frozenset()
    return frozenset(os.path.realpath(str(found.locate_file(path))) for path in found.files or ())


def _digest(distribution: str) -> str:
    """Return the SHA-256 of the list of a distribution's files, which has the hash of each; "" where it is gone."""
    try:
        record = metadata.distribution(distribution).read_text("RECORD") or ""
    except metadata.PackageNotFoundError:
        return ""
    return hashlib.sha256(record.encode()).hexdigest()
