"""ONNX Runtime on the processor: the FP32 form of an estimator, and the predictor that INT8 forms share."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_hwperf.scenarios.arena import SOURCE, arena_of
from pytest_hwperf.scenarios.cache import StoredModel
from pytest_hwperf.scenarios.conversion import converted
from pytest_hwperf.scenarios.estimators import Fitted, examine
from pytest_hwperf.scenarios.ort import conditions, open_session
from pytest_hwperf.scenarios.rows import cut
from pytest_hwperf.scenarios.threads import check_threads


@dataclass(slots=True, kw_only=True)
class OnnxScenario:
    """An ONNX file that was checked, to be run by ONNX Runtime."""

    name: str
    imports: tuple[str, ...]
    conditions: Mapping[str, str]
    context: Mapping[str, str]
    model_bytes: int
    size_source: str
    classifies: bool
    fitted: Fitted
    model: StoredModel
    threads: int

    def load(self) -> "OnnxPredictor":
        """Open a session on the file."""
        return OnnxPredictor(open_session(self.model.path, self.threads), self.fitted)

    @property
    def arena_source(self) -> str:
        """What tells of the runtime's allocator."""
        return SOURCE

    def arena(self, X: Any, batch_size: int) -> Mapping[str, float]:
        """Return the peaks of the runtime's allocator in B, for the first `batch_size` rows of `X`.

        Raises:
            MeasurementError: its profile does not tell them.
        """

        def open_profiled(profile: Path) -> tuple[Any, Callable[[], object]]:
            session = open_session(self.model.path, self.threads, profile=profile)
            predictor = OnnxPredictor(session, self.fitted)
            batch = predictor.batches(X, batch_size)[0]
            return session, lambda: predictor.predict(batch)

        return arena_of(open_profiled)


class OnnxPredictor:
    """A session, ready to be called."""

    def __init__(self, session: Any, fitted: Fitted) -> None:
        self._run = session.run
        self._input = session.get_inputs()[0].name
        self._outputs = [session.get_outputs()[0].name]
        self._fitted = fitted

    def batches(self, X: Any, batch_size: int) -> Sequence[Any]:
        """Cut `X` into C-contiguous float32 matrices of `batch_size` rows (the last may be shorter).

        Raises:
            MeasurementError: no rows, not numeric, NaN that the model refuses, or a batch size below 1.
        """
        return cut(self._fitted.rows(X), batch_size)

    def predict(self, batch: Any) -> Any:
        """Return probabilities of shape (n, k), labels of shape (n,), or values of shape (n, 1)."""
        return self._run(self._outputs, {self._input: batch})[0]

    def labels(self, outputs: Any) -> Any:
        """Return labels or values of shape (n,)."""
        return self._fitted.labels(outputs)

    def scope(self) -> AbstractContextManager[object]:
        """Do nothing: the session's own pool was sized when it was opened."""
        return nullcontext()


def onnx_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> OnnxScenario:
    """Convert a fitted estimator to FP32 ONNX, verified on rows of `X`; `X_calibration` is not used.

    Raises:
        UsageProblem: not an estimator, not fitted, or no whole number of threads.
        MeasurementError: `X` is no numeric matrix that the estimator takes.
        ScenarioUnavailable: it does not convert; the text says why.
    """
    del X_calibration
    check_threads(threads)
    fitted = examine(model, X)
    return scenario_of("onnx_fp32", fitted, converted(fitted, fitted.rows(X)), threads, {"precision": "float32"})


def scenario_of(
    name: str, fitted: Fitted, model: StoredModel, threads: int, own_conditions: Mapping[str, str]
) -> OnnxScenario:
    """Describe a stored ONNX model as a scenario; its notes become context, but for the form, a condition."""
    notes = dict(model.notes)
    form = notes.pop("form")
    return OnnxScenario(
        name=name,
        imports=("onnxruntime",),
        conditions={**conditions(threads), "form": form, "output": fitted.output, **own_conditions},
        context={"model": model.sha256[:16], **notes},
        model_bytes=model.bytes,
        size_source="onnx file",
        classifies=fitted.classes is not None,
        fitted=fitted,
        model=model,
        threads=threads,
    )
