"""The rival: it has no INT8 form, which is said instead of measured."""

import pytest
from digits_models import Digits, train_forest
from sklearn.ensemble import RandomForestClassifier


@pytest.fixture(scope="module")
def hwperf_model(digits: Digits) -> RandomForestClassifier:
    """The forest that the scenarios of this file run."""
    return train_forest(digits)


@pytest.mark.hwbudget(latency_p95_ms=100)
@pytest.mark.hwscenarios("sklearn_fp32", "onnx_fp32", "onnx_int8")
def test_one_image(hwperf, scenario) -> None:
    """One image a call."""
    hwperf(scenario)
