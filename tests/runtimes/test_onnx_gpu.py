"""ONNX Runtime on a GPU: there, or a skip where no GPU is, or an error; never a figure of the processor."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.fitted_models import data_of, fitted
from fakes.gpu_runtime import CPU, FakeRuntime
from fakes.onnx_models import save_onnx

from pytest_hwperf.host.nvidia import NvidiaGpus
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable, UsageProblem
from pytest_hwperf.runtimes import cache, onnx_gpu
from pytest_hwperf.runtimes.onnx_gpu import OnnxGpuAccess, gpu_scenario, onnx_cuda, onnx_tensorrt, onnx_tensorrt_fp16
from pytest_hwperf.runtimes.threads import uncalibrated
from pytest_hwperf.scenario_contract import ScenarioContract

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
ALL = (TENSORRT, CUDA, CPU)
BOARD = NvidiaGpus(models=("NVIDIA H100",), driver="560.35.03")
NONE = NvidiaGpus(models=(), driver="", why_none="there is none in /proc/driver/nvidia/gpus")


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Share conversions among the tests of this file; what the stand-in finds is kept as that of the runtime is."""
    with pytest.MonkeyPatch.context() as patch:
        here = __name__.partition(".")[0]
        patch.setattr(cache, "_LIBRARIES", cache._LIBRARIES | {"fakes", here})
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("models")))
        yield cache.folder()


@pytest.fixture(scope="module")
def softmax(place: Path) -> str:
    """A file of one operator."""
    place.mkdir(parents=True, exist_ok=True)
    return save_onnx(place.with_name("softmax.onnx"), [("Softmax", ["x"], "y")], {"x": 3}, {"y": 3})


def access(gpus: NvidiaGpus = BOARD, available: tuple[str, ...] = ALL, **runtime: Any) -> OnnxGpuAccess:
    return OnnxGpuAccess(runtime=FakeRuntime(available=available, **runtime), gpus=lambda: gpus)


def prepare(name: str, looked_at: OnnxGpuAccess, model: Any = None) -> Any:
    return gpu_scenario(name, model or fitted("logistic"), data_of("logistic")[1], 1, looked_at)


class TestCuda(ScenarioContract):
    test_a_fresh_process_needs_its_imports_alone: Any = None  # the runtime is a stand-in

    model = property(lambda _: fitted("logistic"))
    X = property(lambda _: data_of("logistic")[1])
    labels = property(lambda self: self.model.predict(self.X))

    factory = staticmethod(
        uncalibrated(lambda model, X, threads: gpu_scenario("onnx_cuda", model, X, threads, access()))
    )


@pytest.mark.parametrize(
    ("name", "provider", "precision"),
    [
        ("onnx_cuda", CUDA, "float32"),
        ("onnx_tensorrt", TENSORRT, "float32"),
        ("onnx_tensorrt_fp16", TENSORRT, "float16"),
    ],
)
def test_provider_board_and_driver_are_conditions(name: str, provider: str, precision: str) -> None:
    scenario = prepare(name, access())
    expected = {"provider": provider, "gpu": "NVIDIA H100", "driver": "560.35.03", "precision": precision}
    assert expected == {key: scenario.conditions[key] for key in expected}
    assert scenario.context["parity"].endswith("0 of 169 labels differ from model.predict(X)")


def test_calls_run_on_the_session_that_was_checked() -> None:
    looked_at = access()
    predictor = prepare("onnx_cuda", looked_at).load()
    X = data_of("logistic")[1]
    outputs = predictor.predict(predictor.batches(X, len(X))[0])
    assert 1 == looked_at.runtime.opened[-1].runs
    assert np.allclose(fitted("logistic").predict_proba(X), outputs, atol=1e-5)


@pytest.mark.parametrize("factory", [onnx_cuda, onnx_tensorrt, onnx_tensorrt_fp16])
def test_without_a_gpu_it_is_skipped(factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor could run it, and its figures would be those of something else."""
    monkeypatch.setattr(onnx_gpu, "OnnxGpuAccess", partial(access, NONE))
    with pytest.raises(ScenarioUnavailable, match="no NVIDIA GPU: there is none in /proc/driver/nvidia/gpus"):
        factory(fitted("logistic"), X=data_of("logistic")[1])


def test_a_mistake_is_one_without_a_gpu_too() -> None:
    with pytest.raises(UsageProblem, match="no scikit-learn estimator"):
        gpu_scenario("onnx_cuda", len, data_of("logistic")[1], 1, access(NONE))


@pytest.mark.parametrize(
    ("name", "available", "missing"),
    [("onnx_cuda", (CPU,), CUDA), ("onnx_tensorrt", (CUDA, CPU), TENSORRT)],
)
def test_a_runtime_without_the_provider_is_an_error(name: str, available: tuple[str, ...], missing: str) -> None:
    with pytest.raises(
        MeasurementError, match=rf"has a GPU \(NVIDIA H100\), and .* no {missing} \(only .*onnxruntime-gpu"
    ):
        prepare(name, access(available=available))


@pytest.mark.parametrize("effective", [[CPU], [], [CUDA, TENSORRT, CPU], [TENSORRT, CPU]])
def test_a_session_on_another_provider_is_an_error(effective: list[str], softmax: str) -> None:
    """What happens where a library of CUDA is missing: the runtime warns, and runs on the processor."""
    shown = ", ".join(effective) or "no provider"
    with pytest.raises(MeasurementError, match=f"runs on {shown} where {CUDA} was asked for"):
        gpu_scenario("onnx_cuda", softmax, np.eye(3, dtype=np.float32), 1, access(effective=effective))


def test_a_provider_that_is_lost_later_is_an_error() -> None:
    """Checked at each load: a fresh process may find another library."""
    looked_at = access()
    scenario = prepare("onnx_cuda", looked_at)
    looked_at.runtime.effective = ["OtherExecutionProvider", CPU]
    with pytest.raises(MeasurementError, match="runs on OtherExecutionProvider"):
        scenario.load()


def test_half_precision_that_was_not_taken_is_an_error(softmax: str) -> None:
    found = access(options={"trt_fp16_enable": "0"})
    with pytest.raises(MeasurementError, match=r"runs with \{'trt_fp16_enable': '0'\} where .*'trt_fp16_enable': '1'"):
        gpu_scenario("onnx_tensorrt_fp16", softmax, np.eye(3, dtype=np.float32), 1, found)


def test_a_model_of_which_a_part_runs_on_the_processor_is_skipped() -> None:
    """Such as trees, which have no kernel for the GPU."""
    with pytest.raises(ScenarioUnavailable, match=r"does not run on the GPU as a whole: .*assigned to the default CPU"):
        prepare("onnx_cuda", access(partial=True), fitted("forest"))


def test_files_run_there_too(softmax: str) -> None:
    X = np.eye(3, dtype=np.float32)
    scenario = gpu_scenario("onnx_tensorrt", softmax, X, 1, access())
    predictor = scenario.load()
    assert "probabilities" == scenario.conditions["output"]
    assert [0, 1, 2] == predictor.labels(predictor.predict(predictor.batches(X, 3)[0])).tolist()
