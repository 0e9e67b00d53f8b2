"""ONNX Runtime on the processor: the FP32 form of an estimator, and what the INT8 forms share with it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pytest_hwperf.scenarios.cache import CachedModel
from pytest_hwperf.scenarios.conversion import convert_estimator
from pytest_hwperf.scenarios.estimators import FittedEstimator, inspect_estimator, is_module
from pytest_hwperf.scenarios.onnx_file import fp32_file
from pytest_hwperf.scenarios.onnx_source import is_onnx
from pytest_hwperf.scenarios.ort import count_work_of, open_session, session_conditions
from pytest_hwperf.scenarios.prepared import EstimatorPredictor, OnnxScenario
from pytest_hwperf.scenarios.profiles import arena_of, operators_of
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_modules import FittedModule, inspect_module


def onnx_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> OnnxScenario:
    """Convert a fitted estimator to FP32 ONNX, verified on rows of `X`, or take an FP32 ONNX file as it is.

    `X_calibration` is not used.

    Raises:
        UsageProblem: not an estimator, not fitted, or no whole number of threads.
        MeasurementError: `X` is no numeric matrix that the estimator takes.
        ScenarioUnavailable: it does not convert, or the file is not FP32; says why.
    """
    del X_calibration
    check_threads(threads)
    if is_onnx(model):
        return fp32_file(model, X, threads)
    fitted = inspect_model(model, X, "onnx_fp32")
    stored = convert_estimator(fitted, fitted.rows(X))
    return scenario_of("onnx_fp32", fitted, stored, threads, {"precision": "float32"})


def inspect_model(model: Any, X: Any, scenario: str) -> FittedEstimator | FittedModule:
    """Return the interface of an estimator or a module, and raise as `inspect_estimator` and `inspect_module` do."""
    return inspect_module(model, X, scenario) if is_module(model) else inspect_estimator(model, X)


def scenario_of(
    name: str,
    fitted: FittedEstimator | FittedModule,
    model: CachedModel,
    threads: int,
    own_conditions: Mapping[str, str],
) -> OnnxScenario:
    """Return a cached ONNX model as a scenario; its notes become context, except for the form, a condition."""
    notes = dict(model.notes)
    form = notes.pop("form")
    predictor_of = partial(_predictor, fitted=fitted)
    return OnnxScenario(
        name=name,
        imports=("onnxruntime",),
        conditions={**session_conditions(threads), "form": form, "output": fitted.output, **own_conditions},
        context={"model": model.sha256[:16], **notes},
        model_bytes=model.bytes,
        size_source="onnx file",
        classifies=fitted.classes is not None,
        load=lambda: predictor_of(open_session(model.path, threads)),
        arena=partial(arena_of, model.path, threads, predictor_of),
        operators=partial(operators_of, model.path, threads, predictor_of),
        work=partial(count_work_of, model.path),
        reference=fitted.reference,
    )


def session_predict(session: Any) -> Callable[[Any], Any]:
    """Return the timed call of a session with one input."""
    run, name, outputs = session.run, session.get_inputs()[0].name, [session.get_outputs()[0].name]

    def predict(batch: Any) -> Any:
        return run(outputs, {name: batch})[0]

    return predict


def _predictor(session: Any, fitted: FittedEstimator | FittedModule) -> EstimatorPredictor:
    return EstimatorPredictor(session_predict(session), fitted)  # the session's own pool was sized when it was opened
