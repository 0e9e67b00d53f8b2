"""What a scenario knows of a fitted model and of rows, and that of a scikit-learn estimator, found by trying it."""

import hashlib
import os
import warnings
from _pickle import PicklingError  # the name of what joblib raises; nothing is unpickled here
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal

from pytest_hwperf.records.contracts import Predictions, Predictor
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.runtimes.cache import key_of, notes_of
from pytest_hwperf.runtimes.own_call import (
    CALL,
    ESTIMATOR_ERRORS,
    answers_of,
    choose_checked,
    count_given,
    cut_given,
    digest_given,
    numbers_of,
    one_per_row,
    take_given,
)

Output = Literal["probabilities", "scores", "labels", "values"]

LITERT_IDENTIFIER = b"TFL3"
_SHOWN = 3  # names of columns: enough to recognise them
_MOST_CHECKED = 10_000  # rows on which a form of an estimator is compared with its own call
_SUM_TOLERANCE = 1e-3  # by which a row of probabilities may miss 1, in float32


def matrix(X: Any) -> Any:
    """Turn `X` into a C-contiguous float32 array of shape (rows, columns), as forms take it; NaN stays NaN.

    Rows that have no such form are a skip: the model itself may take them.
    """
    import numpy as np

    count_given(X)
    given = np.asarray(X)
    if given.ndim == 2 and given.dtype == object and _has_numbers_only(X):  # noqa: PLR2004 - rows and columns
        given = X.to_numpy(dtype=np.float64, na_value=np.nan)
    if given.ndim != 2:  # noqa: PLR2004 - rows and columns
        raise ScenarioUnavailable(
            f"X has the shape {given.shape}: this scenario is fed a matrix with one row per sample, and sklearn_fp32 "
            "measures the model on rows as they are"
        )
    try:
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused with its own message
            numbers = np.ascontiguousarray(given, dtype=np.float32) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        numbers = None  # a column of objects that are not all numbers
    if numbers is None:
        raise ScenarioUnavailable(
            f"X holds values that are not numbers (dtype {given.dtype}): this scenario is fed a float32 matrix, and "
            "sklearn_fp32 measures the model on rows as they are"
        )
    if np.isinf(numbers).any():
        raise ScenarioUnavailable(
            "X holds infinite values, or values beyond the range of float32, which this scenario is fed: clip or scale "
            "them"
        )
    return numbers


def _has_numbers_only(X: Any) -> bool:
    """Whether `X` is a table of pandas whose columns all hold numbers, which may be missing."""
    return hasattr(X, "to_numpy") and all(getattr(one, "kind", "") in {*"biuf"} for one in X.dtypes)


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


def choose_rows_of(rows: Any, most: int) -> Any:
    """Take at most `most` rows, with every kind of row among them, by a seed."""
    import numpy as np

    return np.ascontiguousarray(rows[choose_checked(rows, np.zeros(len(rows)), most)])


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
class CheckedRows:
    """The rows on which a form is compared with its model; nothing is computed before it is asked for."""

    digest: str  # of everything that they follow from
    positions: Callable[[], Any]  # in the user's data
    rows: Callable[[], Any]  # the array that a form is fed
    own: Callable[[], Predictions]  # what the model itself says of them
    rounded: Callable[[], str]  # what rounding them to float32 changes of that, "" where that is nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel(ABC):
    """A fitted model and its interface."""

    call: ClassVar[str]  # that its forms are compared with, for sentences
    reference: ClassVar[str | None] = None  # scenario that all others are compared with; None for the model's own call

    model: Any
    output: Output  # of every form that another runtime computes
    classes: Any | None  # shape (k,); None for what does not classify
    digest: str  # over its content

    @property
    def kind(self) -> str:
        """Name of the model's class, for sentences."""
        return type(self.model).__name__

    @property
    def answers(self) -> Callable[[Any], Predictions] | None:
        """What the user's own call says of all rows; None where another scenario is the reference."""
        return None

    @abstractmethod
    def rows(self, X: Any) -> Any:
        """Turn `X` into the array that a form of the model is fed."""

    @abstractmethod
    def labels(self, outputs: Any) -> Any:
        """Turn outputs of any runtime into labels, or into values for what does not classify."""

    @abstractmethod
    def checked(self, X: Any) -> CheckedRows:
        """Return the rows on which a form of the model is compared with the model."""

    def predictor(
        self, predict: Callable[[Any], Any], scope: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> Predictor:
        """Return a form that takes C-contiguous arrays of rows."""
        return Predictor(
            batches=lambda X, batch_size: split_batches(self.rows(X), batch_size),
            predict=predict,
            labels=self.labels,
            probabilities=as_array if self.output == "probabilities" else None,
            scope=scope,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedEstimator(FittedModel):
    """A fitted estimator of scikit-learn."""

    call = CALL

    width: int  # columns of the input
    columns: tuple[str, ...]  # their names, () where it was fitted on a bare array
    flat: bool  # one value per row comes as shape (n,), as scikit-learn gives it

    @property
    def answers(self) -> Callable[[Any], Predictions] | None:
        return partial(answers_of, self.model, self.digest)

    def rows(self, X: Any) -> Any:
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
        return rows

    def given(self, X: Any, batch_size: int) -> Sequence[Any]:
        """Cut rows into batches in the container and the type that they are given in."""
        check_batch_size(batch_size)
        return [cut_given(X, start, start + batch_size) for start in range(0, count_given(X), batch_size)]

    def labels(self, outputs: Any) -> Any:
        values = as_array(outputs)
        if self.classes is None:
            return values.reshape(len(values)) if self.flat else values
        if self.output == "probabilities":
            return self.classes[values.argmax(axis=1)]
        return one_per_row(values).astype(self.classes.dtype)

    def checked(self, X: Any) -> CheckedRows:
        import numpy as np

        @cache
        def positions() -> Any:
            if len(X) <= _MOST_CHECKED:
                return np.arange(len(X))
            return choose_checked(numbers_of(X), answers_of(self.model, self.digest, X).labels, _MOST_CHECKED)

        def own() -> Predictions:
            answers, chosen = answers_of(self.model, self.digest, X), positions()
            return Predictions(
                labels=answers.labels[chosen],
                probabilities=None if answers.probabilities is None else answers.probabilities[chosen],
            )

        return CheckedRows(
            digest=digest_given(X),
            positions=positions,
            rows=lambda: np.ascontiguousarray(self.rows(X)[positions()]),
            own=own,
            rounded=lambda: self._rounded(take_given(X, positions()), own().labels),
        )

    def _rounded(self, X: Any, expected: Any) -> str:
        """Say how many answers of the model itself are others where its rows are rounded to float32."""
        import numpy as np

        try:
            rows = X.astype(np.float32) if hasattr(X, "columns") else matrix(X)
            with warnings.catch_warnings(action="ignore"):
                found = one_per_row(self.model.predict(rows))
        except ESTIMATOR_ERRORS:
            return ""  # a model that takes no other type
        changed = int((found != expected).reshape(len(expected), -1).any(axis=1).sum())
        if not changed or self.classes is None:
            return ""
        return f"; rows change in float32: {changed} of {len(expected)} predictions of the model itself differ"


def inspect_estimator(model: Any, X: Any) -> FittedEstimator:
    """Try a fitted estimator on a row of `X` as it is given, and return its interface."""
    import numpy as np

    require_estimator(model)
    count_given(X)
    trial = _try(model, X)
    classes = getattr(model, "classes_", None)
    if classes is not None and len(classes) == 0:
        classes = None  # of a regressor of CatBoost
    if isinstance(classes, list) and len(classes) == 1:
        classes = classes[0]
    if classes is not None and (isinstance(classes, list) or trial.ndim > 1):
        raise ScenarioUnavailable(
            f"{type(model).__name__} gives several labels per row; scenarios know one: measure it as a plain callable"
        )
    answer = one_per_row(trial)
    if classes is not None and answer.dtype.kind == "f" and not np.isin(answer, classes).all():
        raise ScenarioUnavailable(
            f"predict of {type(model).__name__} gives values that are none of its classes, such as {answer[0]:.4g}, as "
            "with an objective of one's own: measure it as a plain callable"
        )
    if classes is None and _gives_labels(model, trial):
        classes = trial if trial.dtype.kind not in "US" else trial.astype(object)
    shape = np.shape(X)
    return FittedEstimator(
        model=model,
        output="values" if classes is None else "labels",
        classes=None if classes is None else np.asarray(classes),
        width=shape[1] if len(shape) > 1 else 1,
        columns=tuple(map(str, getattr(model, "feature_names_in_", ()))),
        flat=trial.ndim == 1,
        digest=_digest(model),
    )


def inspect_form(model: Any, X: Any) -> FittedEstimator:
    """Return the interface of a fitted estimator whose forms answer probabilities where these are what it decides by.

    A form of one that decides by something else, such as a threshold of its own, answers labels.
    """
    fitted = inspect_estimator(model, X)
    fitted.rows(X)
    return with_probabilities(fitted, X)


def with_probabilities(fitted: FittedEstimator, X: Any) -> FittedEstimator:
    """Let forms of an estimator answer probabilities, if the largest of each row is what it decides by."""
    if fitted.classes is None or not hasattr(fitted.model, "predict_proba"):
        return fitted

    def tell() -> dict[str, str]:
        decides = answers_of(fitted.model, fitted.digest, X).probabilities is not None
        return {"output": "probabilities" if decides else "labels"}

    key = key_of("decides", fitted.digest, digest_given(X), version("scikit-learn"), version("pytest-hwperf"))
    return replace(fitted, output="probabilities") if notes_of(key, tell)["output"] == "probabilities" else fitted


def _gives_labels(model: Any, trial: Any) -> bool:
    """Whether a model without classes answers labels, as detectors of outliers do."""
    from sklearn.base import is_regressor

    return trial.ndim == 1 and trial.dtype.kind in "biuUSO" and not is_regressor(model)


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


def require_estimator(model: Any) -> None:
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


def _try(model: Any, X: Any) -> Any:
    """Call the model on its first row, and on the first one with a missing number."""
    import numpy as np
    from sklearn.exceptions import NotFittedError

    name = type(model).__name__
    try:
        with warnings.catch_warnings(action="ignore"):
            trial = one_per_row(model.predict(cut_given(X, 0, 1)))
    except NotFittedError:
        raise UsageProblem(f"{name} is not fitted: call its fit(X, y) before it is measured") from None
    except ESTIMATOR_ERRORS as problem:
        _refuse_missing(name, X, problem)
        raise UsageProblem(
            f"{name}.predict does not take a row of X as it is ({one_line(problem)}): give rows that it takes"
        ) from problem
    absent = np.flatnonzero(_with_missing(X))
    if len(absent):
        try:
            with warnings.catch_warnings(action="ignore"):
                model.predict(cut_given(X, int(absent[0]), int(absent[0]) + 1))
        except ESTIMATOR_ERRORS as problem:
            _refuse_missing(name, X, problem)
    return trial


def _refuse_missing(name: str, X: Any, problem: BaseException) -> None:
    """Refuse rows with missing numbers, of which the model has refused one."""
    absent = _with_missing(X)
    if bad := int(absent.sum()):
        raise MeasurementError(
            f"{bad} of {len(absent)} rows of X hold NaN, which {name} refuses: drop or impute them "
            f"({one_line(problem)})"
        ) from problem


def _with_missing(X: Any) -> Any:
    """Return which rows hold a missing number."""
    import numpy as np

    if hasattr(X, "isna"):
        return X.isna().to_numpy().reshape(len(X), -1).any(axis=1)
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    return np.isnan(X).reshape(len(X), -1).any(axis=1) if kind == "f" else np.zeros(len(X), dtype=bool)


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
