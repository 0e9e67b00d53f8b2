"""ONNX Runtime on the processor: the FP32 form of an estimator, and what the INT8 forms share with it."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.core.operators import ProfiledCalls
from pytest_hwperf.scenarios.cache import CachedModel
from pytest_hwperf.scenarios.conversion import convert_estimator
from pytest_hwperf.scenarios.estimators import FittedEstimator, inspect_estimator
from pytest_hwperf.scenarios.graph import count_file
from pytest_hwperf.scenarios.ort import open_session, session_conditions
from pytest_hwperf.scenarios.prepared import EstimatorPredictor, OnnxScenario
from pytest_hwperf.scenarios.profiles import OpenProfiled, profile_arena, profile_calls
from pytest_hwperf.scenarios.threads import check_threads


def onnx_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> OnnxScenario:
    """Convert a fitted estimator to FP32 ONNX, verified on rows of `X`; `X_calibration` is not used.

    Raises:
        UsageProblem: not an estimator, not fitted, or no whole number of threads.
        MeasurementError: `X` is no numeric matrix that the estimator takes.
        ScenarioUnavailable: it does not convert; says why.
    """
    del X_calibration
    check_threads(threads)
    fitted = inspect_estimator(model, X)
    stored = convert_estimator(fitted, fitted.rows(X))
    return scenario_of("onnx_fp32", fitted, stored, threads, {"precision": "float32"})


def scenario_of(
    name: str, fitted: FittedEstimator, model: CachedModel, threads: int, own_conditions: Mapping[str, str]
) -> OnnxScenario:
    """Return a cached ONNX model as a scenario; its notes become context, except for the form, a condition."""
    notes = dict(model.notes)
    form = notes.pop("form")
    return OnnxScenario(
        name=name,
        imports=("onnxruntime",),
        conditions={**session_conditions(threads), "form": form, "output": fitted.output, **own_conditions},
        context={"model": model.sha256[:16], **notes},
        model_bytes=model.bytes,
        size_source="onnx file",
        classifies=fitted.classes is not None,
        load=lambda: _predictor(open_session(model.path, threads), fitted),
        arena=partial(_arena, model.path, fitted, threads),
        operators=partial(_operators, model.path, fitted, threads),
        work=partial(count_file, model.path),
    )


def _predictor(session: Any, fitted: FittedEstimator) -> EstimatorPredictor:
    run, name, outputs = session.run, session.get_inputs()[0].name, [session.get_outputs()[0].name]

    def predict(batch: Any) -> Any:
        return run(outputs, {name: batch})[0]

    return EstimatorPredictor(predict, fitted)  # the session's own pool was sized when it was opened


def _arena(path: Path, fitted: FittedEstimator, threads: int, X: Any, batch_size: int) -> Mapping[str, float]:
    """Return the peaks of the runtime's allocator in B, for the first `batch_size` rows of `X`."""
    return profile_arena(_profiled(path, fitted, threads, X, batch_size))


def _operators(path: Path, fitted: FittedEstimator, threads: int, X: Any, batch_size: int) -> ProfiledCalls:
    """Return where the time of a call goes, for the first `batch_size` rows of `X`."""
    return profile_calls(_profiled(path, fitted, threads, X, batch_size), batch_size)


def _profiled(path: Path, fitted: FittedEstimator, threads: int, X: Any, batch_size: int) -> OpenProfiled:
    """Return what opens a session that writes its profile."""

    def open_profiled(profile: Path) -> tuple[Any, Callable[[], object]]:
        session = open_session(path, threads, profile=profile)
        predictor = _predictor(session, fitted)
        return session, partial(predictor.predict, predictor.batches(X, batch_size)[0])

    return open_profiled
