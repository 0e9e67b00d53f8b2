"""ONNX Runtime on the processor: the FP32 form of an estimator, and what the INT8 forms share with it."""

from collections.abc import Mapping
from typing import Any

from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.scenarios.cache import CachedModel
from pytest_hwperf.scenarios.conversion import convert_estimator
from pytest_hwperf.scenarios.estimators import FittedEstimator, inspect_estimator, is_module
from pytest_hwperf.scenarios.onnx_file import AS_GIVEN, converted_form, fp32_file, session_scenario
from pytest_hwperf.scenarios.onnx_source import is_onnx
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_modules import FittedModule, inspect_module


def onnx_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Convert a fitted estimator to FP32 ONNX, verified on rows of `X`, or take an FP32 ONNX file as it is.

    `X_calibration` is not used.

    Raises:
        UsageProblem: not an estimator, not fitted, or no whole number of threads.
        MeasurementError: `X` is no numeric matrix that the estimator takes.
        ScenarioUnavailable: it does not convert, or the file is not FP32; says why.
    """
    del X_calibration
    check_threads(threads)
    own_conditions = {"precision": "float32"}
    if is_onnx(model):
        return session_scenario("onnx_fp32", fp32_file(model, X), threads, own_conditions, AS_GIVEN)
    fitted = inspect_model(model, X, "onnx_fp32")
    return scenario_of("onnx_fp32", fitted, convert_estimator(fitted, fitted.rows(X)), threads, own_conditions)


def inspect_model(model: Any, X: Any, scenario: str) -> FittedEstimator | FittedModule:
    """Return the interface of an estimator or a module, and raise as `inspect_estimator` and `inspect_module` do."""
    return inspect_module(model, X, scenario) if is_module(model) else inspect_estimator(model, X)


def scenario_of(
    name: str,
    fitted: FittedEstimator | FittedModule,
    stored: CachedModel,
    threads: int,
    own_conditions: Mapping[str, str],
) -> Scenario:
    """Return a cached ONNX model as a scenario; its notes become context, except for the form, a condition."""
    notes = {name: text for name, text in stored.notes.items() if name != "form"}
    return session_scenario(name, converted_form(fitted, stored), threads, own_conditions, notes)
