"""Every scenario of a PyTorch module holds the contract of scenarios."""

import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_hwperf.host.nvidia import NvidiaGpus
from pytest_hwperf.host.worker_protocol import SHARES_COMPILED
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes import torch_cuda as scenarios_on_cuda
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.quantise import onnx_int8_dynamic
from pytest_hwperf.runtimes.torch_compiled import (
    torch_compile,
    torch_compile_channels_last,
    torch_compile_max_autotune,
    torch_compile_reduce_overhead,
)
from pytest_hwperf.runtimes.torch_cuda import torch_cuda, torch_cuda_fp16
from pytest_hwperf.runtimes.torch_eager import torch_fp32, torch_fp32_channels_last, torch_fp32_no_mkldnn
from pytest_hwperf.runtimes.torch_int8 import torch_int8
from pytest_hwperf.scenario_contract import ScenarioContract

torch = pytest.importorskip("torch", reason="scenarios of PyTorch need it: pip install 'pytest-hwperf[torch]'")
pytestmark = [pytest.mark.runtime, pytest.mark.live]
nn = torch.nn
_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Convert and compile once for all tests of this file, apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("models")))
        patch.setenv(SHARES_COMPILED, "1")
        patch.setattr(cache, "recorded", lambda build: (build(), {}))  # as if libraries alone had run
        yield cache.folder()


class OfModule(ScenarioContract):
    """The contract with a small perceptron of ten classes."""

    X = np.random.default_rng(0).normal(size=(28, 1, 8, 8)).astype("float32")
    model_without_form = cached_property(lambda self: self.model.half())

    @cached_property
    def model(self) -> Any:
        torch.manual_seed(0)
        layers = (nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10), nn.Softmax(1))
        return nn.Sequential(*layers).eval()

    @cached_property
    def labels(self) -> Any:
        with torch.no_grad():
            return self.model(torch.from_numpy(self.X)).argmax(1).numpy()


class TestTorch(OfModule):
    factory = staticmethod(torch_fp32)


class TestTorchWithoutMkldnn(OfModule):
    factory = staticmethod(torch_fp32_no_mkldnn)


class OfImages(OfModule):
    """A convolution, of which the layout can be another one."""

    @cached_property
    def model(self) -> Any:
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10), nn.Softmax(1)).eval()


class TestTorchChannelsLast(OfImages):
    factory = staticmethod(torch_fp32_channels_last)


@_COMPILER
class TestTorchCompile(OfModule):
    factory = staticmethod(torch_compile)
    batch_sizes = (7,)
    test_a_fresh_process_needs_its_imports_alone: Any = None  # compiled code are modules of their own


@_COMPILER
class TestTorchCompileChannelsLast(OfImages):
    factory = staticmethod(torch_compile_channels_last)
    batch_sizes = (7,)
    test_a_fresh_process_needs_its_imports_alone: Any = None  # as of torch_compile


@_COMPILER
class TestTorchCompileReduceOverhead(TestTorchCompile):
    factory = staticmethod(torch_compile_reduce_overhead)


@_COMPILER
class TestTorchCompileMaxAutotune(TestTorchCompile):
    factory = staticmethod(torch_compile_max_autotune)


class TestTorchCuda(OfModule):
    """With a GPU that is the processor: what is asked of CUDA answers, and computes nothing by itself."""

    factory = staticmethod(torch_cuda)
    test_a_fresh_process_needs_its_imports_alone: Any = None  # whose CUDA is no stand-in

    @pytest.fixture(autouse=True)
    def _stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scenarios_on_cuda, "_DEVICE", "cpu")
        found = NvidiaGpus(models=("NVIDIA H100",), driver="580.65")
        monkeypatch.setattr(scenarios_on_cuda, "find_nvidia_gpus", lambda _environ: found)
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        answers = {"is_available": True, "synchronize": None, "get_device_name": "NVIDIA H100"}
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, lambda *_, answer=answer: answer)


class TestTorchCudaFp16(TestTorchCuda):
    factory = staticmethod(torch_cuda_fp16)


class TestTorchInt8(OfModule):
    factory = staticmethod(torch_int8)
    model_without_form = nn.Flatten()
    least_agreement = 0.9


class TestOnnxOfModule(OfModule):
    factory = staticmethod(onnx_fp32)


class TestOnnxInt8OfModule(OfModule):
    factory = staticmethod(onnx_int8_dynamic)
    model_without_form = nn.Flatten()
    least_agreement = 0.9
