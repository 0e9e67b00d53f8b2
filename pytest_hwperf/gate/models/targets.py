"""What a model is that is named in one word: an address, module:function, a file of scikit-learn's or of ONNX."""

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from pytest_hwperf.host.files import is_file, neighbours
from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.measure.subjects import LoadedSubject, Subject, subject_of_callable
from pytest_hwperf.records.errors import HwperfError, UsageProblem
from pytest_hwperf.records.markers import ADDRESSES, is_address, nearest, shown_address
from pytest_hwperf.records.text import visible
from pytest_hwperf.runtimes.sklearn_native import load_estimator
from pytest_hwperf.runtimes.threads import limit_threads

TargetKind = Literal["address", "function", "estimator", "pickle", "ONNX file"]

MODEL = "pytest_hwperf.gate.models.targets:score"
ROWS, COLUMNS = 64, 64  # of a call
_PICKLES = (".joblib", ".pkl", ".pickle")


def kind_of(target: str) -> TargetKind:
    """Tell what a target is by its name; whether it is there is another question."""
    if is_address(target):
        return "address"
    if is_function(target):
        return "function"
    suffix = Path(target).suffix.lower()
    return "estimator" if suffix == ".skops" else "pickle" if suffix in _PICKLES else "ONNX file"


def is_function(model: str) -> bool:
    """Whether a model is named as module:function."""
    module, colon, name = model.rpartition(":")
    return bool(colon) and all(part.isidentifier() for part in [*module.split("."), name])


def check_target(target: str, allowed: Sequence[TargetKind]) -> None:
    """Refuse what names no target of these kinds."""
    kind = kind_of(target)
    if kind == "pickle":
        new = Path(target).with_suffix(".skops")
        raise UsageProblem(
            f"{target} is a pickle, and loading one runs whatever code is in it: it is never loaded here. If you trust "
            'it, convert it in the environment that made it: python -c "import joblib, skops.io; skops.io.dump('
            f'joblib.load({str(target)!r}), {str(new)!r})", and give {new}'
        )
    if kind not in allowed:
        raise UsageProblem(f"{shown(target)} is of the kind '{kind}'. Allowed: {', '.join(allowed)}")
    if kind in ("estimator", "ONNX file") and not is_file(Path(target)):
        forms = f", nor an address such as {ADDRESSES}" if "address" in allowed else ""
        hint = nearest(Path(target).name, neighbours(target))
        raise UsageProblem(
            f"{shown(target)} is neither a file nor of the form module:function{forms}{hint and f'.{hint}'}"
        )


def shown(target: str) -> str:
    """Return a target as it may be shown and kept: of an address neither a password nor a query, which may hold one."""
    return shown_address(target) if "://" in target else visible(target)


def function_of(model: str) -> Any:
    """Import the function that a model names."""
    module, _, name = model.rpartition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageProblem(f"{model} cannot be imported: {error}") from error


def find_module(model: str, trusted: Sequence[str] = ()) -> None:
    """Let the module of a function, or of trusted types, be found in the current folder; nothing else is."""
    if trusted or (is_function(model) and model != MODEL):
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - sys.path holds text


@contextmanager
def failures_explained(what: str) -> Iterator[None]:
    """Turn whatever a third-party model raises into the reason why it cannot be called."""
    try:
        yield
    except HwperfError:
        raise
    except Exception as error:
        raise UsageProblem(f"{what} cannot be called: {type(error).__name__}: {error}") from error


def subject_of_estimator(spec: ModelSpec, X: Any, y: Any | None) -> Subject:
    """Return an estimator as something to measure; nothing of it is loaded yet."""
    path, of_rows = Path(spec.model), partial(subject_of_callable, kwargs={}, y_true=y, batch_size=spec.batch_size)

    def loaded(*, single: bool) -> LoadedSubject:
        subject = of_rows(load_estimator(path, spec.trust).predict, (X,))
        ready = subject.load_one() if single else subject.load()
        return replace(ready, scope=partial(limit_threads, spec.threads))

    return replace(
        of_rows(loaded, (X,)),  # what is called is known when it is loaded
        load=partial(loaded, single=False),
        load_one=partial(loaded, single=True),
        model_bytes=path.stat().st_size,
        size_source="skops file",
    )


def rows() -> Any:
    """Return rows for `score`, shape (64, 64), the same in every process."""
    import numpy as np

    return np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)


def score(X: Any) -> Any:
    """Send rows of shape (n, 64) through two dense layers; about 0.1 ms for 64 rows, always in one thread.

    The products are numpy's own loops, not those of a BLAS: what threads it would use is another question.
    """
    import numpy as np

    weights = _weights()
    hidden = np.tanh(np.einsum("ij,jk->ik", X, weights))
    return np.einsum("ij,jk->ik", hidden, weights)


@lru_cache(maxsize=1)
def _weights() -> Any:
    import numpy as np

    return np.random.default_rng(1).normal(size=(COLUMNS, COLUMNS)).astype(np.float32) / COLUMNS**0.5
