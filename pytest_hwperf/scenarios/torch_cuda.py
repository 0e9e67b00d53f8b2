"""PyTorch on an NVIDIA GPU: the module in FP32 or FP16, each call waited for, its transfers included."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pytest_hwperf.core.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.scenarios.prepared import ArenaScenario, PreparedScenario
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_eager import (
    ModuleForm,
    ModulePredictor,
    scenario_of_module,
    torch_threads,
)
from pytest_hwperf.scenarios.torch_modules import TORCH_REFERENCE, FittedModule, copy_of, inspect_module

_PROC = Path("/proc/driver/nvidia")
_DRIVER = re.compile(r"Kernel Module\s+(?:for \S+\s+)?([0-9.]+)")
_ARENA_CALLS = 3
Precision = Literal["float32", "float16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """What is there to compute on."""

    driver: str  # version of NVIDIA's kernel module; "" without one
    hidden: bool  # whether CUDA_VISIBLE_DEVICES shows this process none
    built: str  # CUDA of this PyTorch; "" where it is built without
    available: bool  # whether PyTorch finds a GPU that it can use


def torch_cuda(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare a module in FP32 on the first GPU, TF32 off; `X` shows its input, `X_calibration` is not used.

    Raises as `torch_fp32`.

    Raises:
        ScenarioUnavailable: this machine has no NVIDIA GPU.
        MeasurementError: it has one, and this PyTorch cannot use it.
    """
    del X_calibration
    return _scenario("torch_cuda", "float32", model, X, threads)


def torch_cuda_fp16(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare a copy of a module in FP16 on the first GPU; `X` shows its input, `X_calibration` is not used.

    Raises as `torch_cuda`.
    """
    del X_calibration
    return _scenario("torch_cuda_fp16", "float16", model, X, threads)


def check_gpu(name: str, found: GpuState) -> None:
    """Refuse a scenario that would not run on a GPU: nothing falls back to the processor.

    Raises:
        ScenarioUnavailable: there is no GPU for this process.
        MeasurementError: there is one, and this PyTorch cannot use it.
    """
    if not found.available and not found.driver:
        raise ScenarioUnavailable(f"{name} needs an NVIDIA GPU, and this machine has none (no NVIDIA driver is loaded)")
    if not found.available and found.hidden:
        raise ScenarioUnavailable(f"{name} needs a GPU, and CUDA_VISIBLE_DEVICES shows this process none")
    if not found.built:
        raise MeasurementError(
            f"{name}: this machine has a GPU (driver {found.driver}), and this PyTorch is built without CUDA: install "
            "a build with it, see https://pytorch.org/get-started/locally"
        )
    if not found.available:
        raise MeasurementError(
            f"{name}: this machine has a GPU (driver {found.driver}), and PyTorch for CUDA {found.built} cannot use "
            "it: run nvidia-smi, and install a build for this driver, or a newer driver"
        )


def gpu_state(torch: Any, environment: Mapping[str, str], proc: Path = _PROC) -> GpuState:
    """Return what PyTorch and the system say of GPUs."""
    text = ""
    with suppress(OSError):
        text = (proc / "version").read_text(encoding="utf-8", errors="replace")
    version = _DRIVER.search(text)
    return GpuState(
        driver=version[1] if version else text.partition("\n")[0],
        hidden=environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in {"", "-1"},
        built=str(torch.version.cuda or ""),
        available=bool(torch.cuda.is_available()),
    )


def on_gpu(torch: Any, module: Any, dtype: Any) -> Callable[[Any], Any]:
    """Return the timed call: rows go to the GPU, outputs come back, and all its work is waited for.

    Args:
        torch: the library.
        module: on the GPU.
        dtype: of its weights; rows with a fraction are converted to it.
    """
    inference_mode, synchronise = torch.inference_mode, torch.cuda.synchronize

    def predict(batch: Any) -> Any:
        with inference_mode():
            rows = batch.to("cuda", dtype) if batch.is_floating_point() else batch.to("cuda")
            outputs = module(rows).cpu()
        synchronise()
        return outputs

    return predict


@contextmanager
def without_tf32(backends: Any) -> Iterator[None]:
    """Compute float32 products and convolutions in float32, and give back what the program had chosen."""
    parts = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    before = [part.fp32_precision for part in parts]
    for part in parts:
        part.fp32_precision = "ieee"
    try:
        yield
    finally:
        for part, chosen in zip(parts, before, strict=True):
            part.fp32_precision = chosen


def _scenario(name: str, precision: Precision, model: Any, X: Any, threads: int) -> PreparedScenario:
    check_threads(threads)
    fitted = inspect_module(model, X, name)
    import torch

    found = gpu_state(torch, os.environ)
    check_gpu(name, found)
    form = ModuleForm(
        name=name,
        form="eager",
        precision=precision,
        conditions={
            "device": str(torch.cuda.get_device_name(0)),
            "cuda": found.built,
            "driver": found.driver,
            "tf32": "off",
            "transfers": "in the call",
        },
        context={},
        load=partial(_load, fitted, threads, precision),
    )
    return _with_arena(scenario_of_module(fitted, threads, form), partial(_arena, form.load))


def _load(fitted: FittedModule, threads: int, precision: Precision) -> ModulePredictor:
    """Copy the module to the GPU: in FP16 the user's own would be changed in place."""
    import torch

    dtype = getattr(torch, precision)
    module = copy_of(fitted).to("cuda", dtype)
    return ModulePredictor(on_gpu(torch, module, dtype), fitted, partial(_computing, threads))


@contextmanager
def _computing(threads: int) -> Iterator[None]:
    import torch

    with torch_threads(threads), without_tf32(torch.backends):
        yield


def _arena(load: Callable[[], ModulePredictor], X: Any, batch_size: int) -> Mapping[str, float]:
    """Return the peaks of PyTorch's allocator on the GPU in B, weights included, for the first rows of `X`."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    predictor = load()
    with predictor.scope():
        batch = predictor.batches(X, batch_size)[0]
        for _ in range(_ARENA_CALLS):
            predictor.predict(batch)
    return {
        "arena_in_use": float(torch.cuda.max_memory_allocated() - before),
        "arena_held": float(torch.cuda.max_memory_reserved()),
    }


def _with_arena(scenario: PreparedScenario, arena: Callable[[Any, int], Mapping[str, float]]) -> ArenaScenario:
    return ArenaScenario(
        name=scenario.name,
        imports=scenario.imports,
        conditions=scenario.conditions,
        context=scenario.context,
        model_bytes=scenario.model_bytes,
        size_source=scenario.size_source,
        classifies=scenario.classifies,
        load=scenario.load,
        reference=TORCH_REFERENCE,
        arena=arena,
        arena_source="torch.cuda allocator",
    )
