"""What a scenario knows of a fitted model and of rows, and that of a scikit-learn estimator, found by trying it."""

import hashlib
import os
import warnings
from _pickle import PicklingError  # the name of what joblib raises; nothing is unpickled here
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pytest_hwperf.records.contracts import CallStage, Predictor
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem

Output = Literal["probabilities", "scores", "labels", "values"]

LITERT_IDENTIFIER = b"TFL3"
# Raised by third-party code (estimators, converters, quantisers) for a model that it cannot handle. Everything else,
# such as a full disk or an interrupt, does not concern the model and passes on.
ESTIMATOR_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError),
)
_SHOWN = 3  # names of columns: enough to recognise them
_SUM_TOLERANCE = 1e-3  # by which a row of probabilities may miss 1, in float32


def matrix(X: Any) -> Any:
    """Turn `X` into a C-contiguous float32 array of shape (rows, columns), as scenarios take it; NaN stays NaN."""
    import numpy as np

    if hasattr(X, "toarray"):
        raise MeasurementError(f"X is sparse ({type(X).__name__}): give a dense matrix of numbers, X.toarray()")
    given = np.asarray(X)
    if given.ndim != 2:  # noqa: PLR2004 - rows and columns
        raise MeasurementError(f"X has the shape {given.shape}: give a matrix with one row per sample")
    if given.shape[0] == 0:
        raise MeasurementError("X has no rows: nothing can be measured on empty data")
    try:
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused with its own message
            numbers = np.ascontiguousarray(given, dtype=np.float32) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        numbers = None  # a column of objects that are not all numbers
    if numbers is None:
        raise MeasurementError(
            f"X holds values that are not numbers (dtype {given.dtype}): scenarios are fed a float32 matrix, so encode "
            "text and dates first, or measure model.predict as a plain callable"
        )
    if np.isinf(numbers).any():
        raise MeasurementError("X holds infinite values, or values beyond the range of float32: clip or scale them")
    return numbers


def as_array(outputs: Any) -> Any:
    import numpy as np

    return np.asarray(outputs)


def check_batch_size(batch_size: object) -> None:
    """Refuse an invalid batch size: callers may not check types."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise MeasurementError(f"batch_size={batch_size!r}: a batch size is a whole number of rows from 1 on")


def split_batches(rows: Any, batch_size: int) -> Sequence[Any]:
    """Split a matrix into views of `batch_size` rows; the last may be shorter."""
    check_batch_size(batch_size)
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]


def evenly_spaced(rows: Any, most: int) -> Any:
    """Take at most `most` rows, spread over the whole: the first ones of a sorted table would be of one kind."""
    import numpy as np

    count = min(most, len(rows))
    return np.ascontiguousarray(rows[np.arange(count) * len(rows) // count])


def digest_rows(rows: Any) -> str:
    """Return sixteen hexadecimal digits over shape, type and content of an array."""
    import numpy as np

    total = hashlib.sha256(f"{rows.dtype}{rows.shape}".encode())
    total.update(np.ascontiguousarray(rows).tobytes())
    return total.hexdigest()[:16]


def score_kind(outputs: Any) -> Output:
    """Return what float outputs are: scores of two or more columns, probabilities if each row sums to 1, or values."""
    import numpy as np

    if outputs.ndim != 2 or outputs.shape[1] == 1:  # noqa: PLR2004 - rows and classes
        return "values"
    sums = np.abs(outputs.sum(axis=1, dtype=np.float64) - 1)
    return "probabilities" if (outputs >= 0).all() and (sums <= _SUM_TOLERANCE).all() else "scores"


def is_onnx(model: object) -> bool:
    """Whether a model is an ONNX file or an ONNX model in memory, as far as its name or type tells."""
    if isinstance(model, str | os.PathLike):
        return Path(model).suffix == ".onnx"
    return type(model).__name__ == "ModelProto" and type(model).__module__.partition(".")[0] == "onnx"


def is_litert(model: object) -> bool:
    """Whether a model is a LiteRT file or the content of one, as far as its name or its beginning tells."""
    if isinstance(model, bytes):
        return model[4:8] == LITERT_IDENTIFIER
    return isinstance(model, str | os.PathLike) and Path(model).suffix == ".tflite"


def is_module(model: Any) -> bool:
    """Whether it is a PyTorch module; PyTorch is not imported for that."""
    return any(kind.__module__ == "torch.nn.modules.module" and kind.__name__ == "Module" for kind in type(model).mro())


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel(ABC):
    """A fitted model and its interface."""

    library: ClassVar[str]  # that its forms are compared with, for sentences
    reference: ClassVar[str | None] = None  # scenario that all others are compared with; None for the usual one
    checked: ClassVar[int]  # rows on which its other forms are compared with it

    model: Any
    output: Output  # the same in every scenario, so that both sides do the same work
    classes: Any | None  # shape (k,); None for what does not classify
    digest: str  # over its content

    @property
    def kind(self) -> str:
        """Name of the model's class, for sentences."""
        return type(self.model).__name__

    @abstractmethod
    def rows(self, X: Any) -> Any:
        """Turn `X` into the array that the model is fed."""

    @abstractmethod
    def predict(self, rows: Any) -> Any:
        """Return what every scenario returns for these rows, by the model itself."""

    @abstractmethod
    def labels(self, outputs: Any) -> Any:
        """Turn outputs of any runtime into labels, or into values for what does not classify."""

    def checked_rows(self, rows: Any) -> Any:
        """Return the rows, evenly spaced, on which another form is compared with the model."""
        return evenly_spaced(rows, self.checked)

    def predictor(
        self,
        predict: Callable[[Any], Any],
        scope: Callable[[], AbstractContextManager[object]] = nullcontext,
        stages: Sequence[CallStage] = (),
    ) -> Predictor:
        """Return a form that takes C-contiguous arrays of rows; what makes labels is the last of its stages."""
        return Predictor(
            batches=lambda X, batch_size: split_batches(self.rows(X), batch_size),
            predict=predict,
            labels=self.labels,
            probabilities=as_array if self.output == "probabilities" else None,
            scope=scope,
            stages=[*stages, CallStage(name="postprocess", call=self.labels, is_after=True)] if stages else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedEstimator(FittedModel):
    """A fitted estimator of scikit-learn."""

    library = "scikit-learn"
    checked = 512

    width: int  # columns of the input
    columns: tuple[str, ...]  # their names, () where it was fitted on a bare array
    flat: bool  # one value per row comes as shape (n,), as scikit-learn gives it
    takes_nan: bool

    def rows(self, X: Any) -> Any:
        import numpy as np

        names = tuple(map(str, getattr(X, "columns", ())))
        if names and self.columns and names != self.columns:
            given, own = (", ".join([*one[:_SHOWN], "…"][: len(one)]) for one in (names, self.columns))
            raise MeasurementError(
                f"the columns of X ({given}) are not those that {self.kind} was fitted on ({own}): give the same "
                "columns in the same order"
            )
        rows = matrix(X)
        if rows.shape[1] != self.width:
            raise MeasurementError(f"X has {rows.shape[1]} columns, and {self.kind} was prepared for {self.width}")
        if not self.takes_nan and (bad := int(np.isnan(rows).any(axis=1).sum())):
            raise MeasurementError(
                f"{bad} of {len(rows)} rows of X hold NaN, which {self.kind} refuses: drop or impute them"
            )
        return rows

    def predict(self, rows: Any) -> Any:
        with warnings.catch_warnings(action="ignore"):  # of bare arrays; the columns were checked in `rows`
            return self.model.predict_proba(rows) if self.output == "probabilities" else self.model.predict(rows)

    def labels(self, outputs: Any) -> Any:
        values = as_array(outputs)
        if self.classes is None:
            return values.reshape(len(values)) if self.flat else values
        if self.output == "probabilities":
            return self.classes[values.argmax(axis=1)]
        return values.astype(self.classes.dtype)


def inspect_estimator(model: Any, X: Any) -> FittedEstimator:
    """Try a fitted estimator on `X` and return its interface."""
    import numpy as np

    _require_estimator(model)
    rows = matrix(X)
    trial = _try(model, np.nan_to_num(rows[:1]))
    classes = getattr(model, "classes_", None)
    if classes is not None and (isinstance(classes, list) or trial.ndim > 1):
        raise ScenarioUnavailable(
            f"{type(model).__name__} gives several labels per row; scenarios know one: measure it as a plain callable"
        )
    try:  # NaN, which tags of estimators tell differently in each version of scikit-learn
        with warnings.catch_warnings(action="ignore"):
            model.predict(np.full((1, rows.shape[1]), np.nan, dtype=np.float32))
        takes_nan = True
    except ESTIMATOR_ERRORS:
        takes_nan = False
    probabilities = classes is not None and hasattr(model, "predict_proba")
    fitted = FittedEstimator(
        model=model,
        output="values" if classes is None else "probabilities" if probabilities else "labels",
        classes=None if classes is None else np.asarray(classes),
        width=rows.shape[1],
        columns=tuple(map(str, getattr(model, "feature_names_in_", ()))),
        flat=trial.ndim == 1,
        takes_nan=takes_nan,
        digest=_digest(model),
    )
    fitted.rows(X)
    return fitted


def nested_estimators(model: Any) -> Iterator[Any]:
    """Yield an estimator and every fitted estimator inside it, in whichever attribute."""
    pending, seen = [model], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list | tuple):
            pending.extend(part)
        elif isinstance(part, dict):
            pending.extend(part.values())
        elif hasattr(part, "get_params") and not isinstance(part, type):
            yield part
            pending.extend(vars(part).values())


def last_step(model: Any) -> Any:
    """Return the estimator that computes the output: the end of a pipeline, the best of a search."""
    while True:
        if hasattr(model, "steps"):
            model = model.steps[-1][1]
        elif hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        else:
            return model


class HashingFile:
    """A file that keeps size and digest only: its content would count as memory in later measurements."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.written = 0

    @property
    def digest(self) -> str:
        """Thirty-two hexadecimal digits over the content."""
        return self._hash.hexdigest()[:32]

    def write(self, block: Any) -> int:
        self._hash.update(block)
        size = memoryview(block).nbytes
        self.written += size
        return size

    def flush(self) -> None:
        """Do nothing; PyTorch asks for it."""

    def tell(self) -> int:
        """Return the position; joblib aligns arrays by it."""
        return self.written


def serialise(model: Any) -> HashingFile:
    import joblib

    file = HashingFile()
    joblib.dump(model, file)
    return file


def one_line(problem: BaseException, most: int = 200) -> str:
    """Write a third-party error, and the first one that it came from, as one line of at most `most` characters.

    The first one has the reason: an error above it may quote a thousand numbers of the model.
    """

    def cut(one: BaseException, room: int) -> str:
        text = " ".join(f"{type(one).__name__}: {one}".split())
        return text if len(text) <= room else text[: room - 1] + "…"

    first = problem
    while first.__cause__ is not None:
        first = first.__cause__
    if first is problem:
        return cut(problem, most)
    text = cut(problem, most // 2)
    return f"{text} from {cut(first, most - len(text) - len(' from '))}"


def _require_estimator(model: Any) -> None:
    if is_onnx(model):
        raise ScenarioUnavailable("an ONNX model is no estimator: onnx_file measures it, or onnx_fp32 if it is FP32")
    if is_litert(model):
        raise ScenarioUnavailable("a LiteRT model is no estimator: litert_fp32 and litert_int8 measure it")
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if isinstance(model, type):
        raise UsageProblem(f"the model is the class {name}, not a fitted estimator: give {name}(…).fit(X, y)")
    if is_module(model):
        raise UsageProblem(
            f"the model is a {name}, a PyTorch module, and this is a scenario of scikit-learn: name those of "
            'modules, as hwscenarios("torch_fp32", "onnx_fp32", "openvino_fp32")'
        )
    if not (hasattr(model, "predict") and hasattr(model, "get_params")):
        raise UsageProblem(
            f"the model is a {name}, which is no scikit-learn estimator with predict: give a fitted estimator, or "
            "measure a callable by hwperf(function, X)"
        )


def _try(model: Any, row: Any) -> Any:
    import numpy as np
    from sklearn.exceptions import NotFittedError

    try:
        with warnings.catch_warnings(action="ignore"):
            return np.asarray(model.predict(row))
    except NotFittedError:
        raise UsageProblem(f"{type(model).__name__} is not fitted: call its fit(X, y) before it is measured") from None
    except ESTIMATOR_ERRORS as problem:
        raise ScenarioUnavailable(
            f"{type(model).__name__} does not take a row of X as float32 matrix ({one_line(problem)}): measure "
            "model.predict as a plain callable"
        ) from problem


def _digest(model: Any) -> str:
    """Hash the predicting part: the rest of a search is a log with clock times, different after each fit."""
    import joblib

    predicting = getattr(model, "best_estimator_", model)
    try:
        return str(joblib.hash(predicting))
    except (AttributeError, PicklingError, TypeError) as problem:
        raise ScenarioUnavailable(
            f"{type(model).__name__} cannot be serialised ({one_line(problem)}): use named functions of a module in it"
        ) from problem
    except ValueError:  # a masked array somewhere inside, which joblib cannot hash with numpy 2.4
        return serialise(predicting).digest
