"""The model that is shipped: what it may cost, and how right it has to be."""

import pytest
from digits_models import Digits, train_mlp
from sklearn.pipeline import Pipeline


@pytest.fixture(scope="module")
def hwperf_model(digits: Digits) -> Pipeline:
    """The network that the scenarios of this file run."""
    return train_mlp(digits)


@pytest.mark.hwbudget(latency_p95_ms=100, accuracy_min=0.95, throughput_min_qps=100, memory_max_mb=100)
@pytest.mark.hwscenarios("sklearn_fp32", "onnx_fp32", "onnx_int8")
def test_one_image(hwperf, scenario) -> None:
    """One image a call, as the service asks."""
    hwperf(scenario)


@pytest.mark.hwbudget(throughput_min_sps=2000)
@pytest.mark.hwscenarios("onnx_fp32", "onnx_int8")
def test_batch(hwperf, scenario) -> None:
    """Batches of 64 images, as the nightly job asks."""
    hwperf(scenario, batch_size=64)
