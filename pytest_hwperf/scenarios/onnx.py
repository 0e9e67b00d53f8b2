"""ONNX Runtime on the processor: the FP32 form of a model, and what the INT8 forms share with it."""

from collections.abc import Mapping
from typing import Any

from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.scenarios.cache import CachedModel
from pytest_hwperf.scenarios.conversion import convert_model
from pytest_hwperf.scenarios.estimators import FittedModel
from pytest_hwperf.scenarios.onnx_file import AS_GIVEN, converted_form, fp32_file, session_scenario
from pytest_hwperf.scenarios.onnx_source import is_onnx
from pytest_hwperf.scenarios.threads import uncalibrated
from pytest_hwperf.scenarios.torch_modules import inspect_model


def _scenario(model: Any, X: Any, threads: int) -> Scenario:
    own_conditions = {"precision": "float32"}
    if is_onnx(model):
        return session_scenario("onnx_fp32", fp32_file(model, X), threads, own_conditions, AS_GIVEN)
    fitted = inspect_model(model, X, "onnx_fp32")
    return scenario_of("onnx_fp32", fitted, convert_model(fitted, fitted.rows(X)), threads, own_conditions)


onnx_fp32 = uncalibrated(_scenario)


def scenario_of(
    name: str, fitted: FittedModel, stored: CachedModel, threads: int, own_conditions: Mapping[str, str]
) -> Scenario:
    """Return a cached ONNX model as a scenario; its notes become context, except for the form, a condition."""
    notes = {name: text for name, text in stored.notes.items() if name != "form"}
    return session_scenario(name, converted_form(fitted, stored), threads, own_conditions, notes)
