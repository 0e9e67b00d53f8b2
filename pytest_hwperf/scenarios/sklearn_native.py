"""The fitted scikit-learn estimator as it is, with its thread pools held."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pytest_hwperf.scenarios.estimators import Fitted, examine, last_step, parts, serialise
from pytest_hwperf.scenarios.rows import cut
from pytest_hwperf.scenarios.threads import check_threads, hold, pools


@dataclass(slots=True, kw_only=True)
class SklearnScenario:
    """A fitted estimator behind `predict_proba`, or `predict` where it has no probabilities."""

    name: str
    imports: tuple[str, ...]
    conditions: Mapping[str, str]
    context: Mapping[str, str]
    model_bytes: int
    size_source: str
    classifies: bool
    fitted: Fitted
    threads: int

    def load(self) -> "SklearnPredictor":
        """Copy the estimator: a fresh process would hold its own memory for it."""
        model = deepcopy(self.fitted.model)
        for part in parts(model):
            if hasattr(part, "n_jobs"):
                part.n_jobs = self.threads
            # It is fed arrays. With the names it would check and warn about them in every single call.
            vars(part).pop("feature_names_in_", None)
        return SklearnPredictor(model, self.fitted, self.threads)


class SklearnPredictor:
    """A copied estimator, ready to be called."""

    def __init__(self, model: Any, fitted: Fitted, threads: int) -> None:
        self._call = model.predict_proba if fitted.output == "probabilities" else model.predict
        self._fitted = fitted
        self._threads = threads

    def batches(self, X: Any, batch_size: int) -> Sequence[Any]:
        """Cut `X` into C-contiguous float32 matrices of `batch_size` rows (the last may be shorter).

        Raises:
            MeasurementError: no rows, not numeric, NaN that the model refuses, or a batch size below 1.
        """
        return cut(self._fitted.rows(X), batch_size)

    def predict(self, batch: Any) -> Any:
        """Return probabilities of shape (n, k), or labels or values of shape (n,)."""
        return self._call(batch)

    def labels(self, outputs: Any) -> Any:
        """Return labels or values of shape (n,)."""
        return self._fitted.labels(outputs)

    def scope(self) -> AbstractContextManager[object]:
        """Limit every BLAS and OpenMP pool of the process while calls are made."""
        return hold(self._threads)


def sklearn_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> SklearnScenario:
    """Prepare a fitted estimator as it is; `X` shows its input, `X_calibration` is not used.

    Raises:
        UsageProblem: not an estimator, not fitted, or no whole number of threads.
        MeasurementError: `X` is no numeric matrix that the estimator takes.
        ScenarioUnavailable: it takes no float32 matrix, or gives several labels per row.
    """
    del X_calibration
    check_threads(threads)
    fitted = examine(model, X)
    return SklearnScenario(
        name="sklearn_fp32",
        imports=tuple(sorted({type(part).__module__ for part in parts(model)})),
        conditions={"threads": str(threads), "precision": _precision(fitted, X), "output": fitted.output},
        context={"model": fitted.digest, "thread pools": pools()},
        model_bytes=serialise(model).written,
        size_source="joblib",
        classifies=fitted.classes is not None,
        fitted=fitted,
        threads=threads,
    )


def _precision(fitted: Fitted, X: Any) -> str:
    """Name the type it computes in: that of the weights, whatever the rows are; without weights, of the outputs."""
    import numpy as np

    last = last_step(fitted.model)
    for name in ("coefs_", "coef_", "dual_coef_"):
        weights = getattr(last, name, None)
        first = weights[0] if isinstance(weights, list) else weights
        if isinstance(first, np.ndarray):
            return str(first.dtype)
    outputs = np.asarray(fitted.predict(fitted.rows(X)[:1]))
    return str(outputs.dtype) if outputs.dtype.kind == "f" else "unknown"
