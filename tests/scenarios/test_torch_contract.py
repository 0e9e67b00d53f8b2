"""Every scenario of a PyTorch module holds the contract of scenarios."""

import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_hwperf.host.worker_protocol import SHARES_COMPILED
from pytest_hwperf.scenario_contract import ScenarioContract
from pytest_hwperf.scenarios import cache
from pytest_hwperf.scenarios.onnx import onnx_fp32
from pytest_hwperf.scenarios.quantise import onnx_int8_dynamic
from pytest_hwperf.scenarios.torch_compiled import torch_compile
from pytest_hwperf.scenarios.torch_eager import torch_fp32
from pytest_hwperf.scenarios.torch_int8 import torch_int8

torch = pytest.importorskip("torch", reason="scenarios of PyTorch need it: pip install 'pytest-hwperf[torch]'")
pytestmark = [pytest.mark.runtime, pytest.mark.live]
nn = torch.nn
_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Convert and compile once for all tests of this file, apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(cache.CACHE_VARIABLE, str(tmp_path_factory.mktemp("models")))
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


@_COMPILER
class TestTorchCompile(OfModule):
    factory = staticmethod(torch_compile)
    batch_sizes = (7,)
    test_a_fresh_process_needs_its_imports_alone: Any = None  # compiled code are modules of their own


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
