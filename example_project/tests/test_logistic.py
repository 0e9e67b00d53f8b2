"""The small model, for devices."""

import pytest
from digits_models import Digits, train_logistic
from sklearn.pipeline import Pipeline


@pytest.fixture(scope="module")
def hwperf_model(digits: Digits) -> Pipeline:
    """The regression that the scenarios of this file run."""
    return train_logistic(digits)


@pytest.mark.hwbudget(latency_p95_ms=100, accuracy_min=0.93, model_size_max_mb=0.1)
@pytest.mark.hwscenarios("sklearn_fp32", "onnx_fp32", "onnx_int8")
def test_one_image(hwperf, scenario) -> None:
    """One image a call."""
    hwperf(scenario)
