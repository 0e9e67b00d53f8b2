"""What a scenario knows of a fitted model, and that of a scikit-learn estimator, found by trying it on rows."""

import hashlib
import warnings
from _pickle import PicklingError  # the name of what joblib raises; nothing is unpickled here
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pytest_hwperf.records.contracts import CallStage, Predictor
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.scenarios.onnx_source import is_litert, is_onnx
from pytest_hwperf.scenarios.rows import as_array, evenly_spaced, matrix, split_batches

Output = Literal["probabilities", "scores", "labels", "values"]

# Raised by third-party code (estimators, converters, quantisers) for a model that it cannot handle. Everything else,
# such as a full disk or an interrupt, does not concern the model and passes on.
ESTIMATOR_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError),
)


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
            raise MeasurementError(
                f"the columns of X ({_few(names)}) are not those that {self.kind} was fitted on "
                f"({_few(self.columns)}): give the same columns in the same order"
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
        import numpy as np

        if self.classes is None:
            values = np.asarray(outputs)
            return values.reshape(len(values)) if self.flat else values
        if self.output == "probabilities":
            return self.classes[np.asarray(outputs).argmax(axis=1)]
        return np.asarray(outputs).astype(self.classes.dtype)


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
    probabilities = classes is not None and hasattr(model, "predict_proba")
    fitted = FittedEstimator(
        model=model,
        output="values" if classes is None else "probabilities" if probabilities else "labels",
        classes=None if classes is None else np.asarray(classes),
        width=rows.shape[1],
        columns=tuple(map(str, getattr(model, "feature_names_in_", ()))),
        flat=trial.ndim == 1,
        takes_nan=_takes_nan(model, rows.shape[1]),
        digest=_digest(model),
    )
    fitted.rows(X)
    return fitted


def is_module(model: Any) -> bool:
    """Whether it is a PyTorch module; PyTorch is not imported for that."""
    return any(kind.__module__ == "torch.nn.modules.module" and kind.__name__ == "Module" for kind in type(model).mro())


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
    first = problem
    while first.__cause__ is not None:
        first = first.__cause__
    if first is problem:
        return _cut(problem, most)
    text = _cut(problem, most // 2)
    return f"{text} from {_cut(first, most - len(text) - len(' from '))}"


def _cut(problem: BaseException, most: int) -> str:
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    return text if len(text) <= most else text[: most - 1] + "…"


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


def _takes_nan(model: Any, width: int) -> bool:
    """Whether it takes NaN, found by trying: estimator tags differ between versions of scikit-learn."""
    import numpy as np

    try:
        with warnings.catch_warnings(action="ignore"):
            model.predict(np.full((1, width), np.nan, dtype=np.float32))
    except ESTIMATOR_ERRORS:
        return False
    return True


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


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")  # noqa: PLR2004 - enough to recognise them
