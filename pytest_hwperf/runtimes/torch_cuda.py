"""PyTorch on an NVIDIA GPU: the module in FP32 or FP16, each call waited for, its transfers included."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_hwperf.host.nvidia import NvidiaGpus, find_nvidia_gpus
from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.runtimes.threads import uncalibrated
from pytest_hwperf.runtimes.torch_eager import module_predictor, module_scenario, torch_threads
from pytest_hwperf.runtimes.torch_modules import FittedModule, copy_of, inspect_module

_DEVICE = "cuda:0"  # by number: "cuda" alone is the one that the program has chosen last
_ARENA_CALLS = 3


def check_gpu(name: str, torch: Any, gpus: NvidiaGpus) -> None:
    """Refuse a scenario that would not run on a GPU: nothing falls back to the processor."""
    if not gpus.models:
        raise ScenarioUnavailable(f"no NVIDIA GPU: {gpus.why_none}")
    there, built = f"{name}: this machine has a GPU ({gpus})", torch.version.cuda
    if not built:
        raise MeasurementError(
            f"{there}, and this PyTorch is built without CUDA: install a build with it, see "
            "https://pytorch.org/get-started/locally"
        )
    if not torch.cuda.is_available():
        raise MeasurementError(
            f"{there}, and PyTorch for CUDA {built} cannot use it: run nvidia-smi, and install a build for this "
            "driver, or a newer driver; start a container with --gpus all"
        )


def on_gpu(torch: Any, module: Any, dtype: Any) -> Callable[[Any], Any]:
    """Return the timed call: rows go to the GPU, outputs come back, and all its work is waited for."""
    inference_mode, synchronise = torch.inference_mode, torch.cuda.synchronize

    def predict(batch: Any) -> Any:
        with inference_mode():
            rows = batch.to(_DEVICE, dtype) if batch.is_floating_point() else batch.to(_DEVICE)
            outputs = module(rows).cpu()
        synchronise(_DEVICE)
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


def _scenario(name: str, precision: str, model: Any, X: Any, threads: int) -> Scenario:
    fitted = inspect_module(model, X, name)
    import torch

    gpus = find_nvidia_gpus(os.environ)
    check_gpu(name, torch, gpus)
    conditions = {
        "form": "eager",
        "precision": precision,
        "gpu": str(torch.cuda.get_device_name(_DEVICE)),
        "cuda": str(torch.version.cuda),
        "driver": gpus.driver,
        "tf32": "off",
        "transfers": "in the call",
    }
    load = partial(_load, fitted, threads, precision)
    scenario = module_scenario(name, fitted, threads, load, conditions)
    return replace(scenario, arena=partial(_arena, load), arena_source="torch.cuda allocator", operators=None)


torch_cuda = uncalibrated(_scenario, "torch_cuda", "float32")
torch_cuda_fp16 = uncalibrated(_scenario, "torch_cuda_fp16", "float16")


def _load(fitted: FittedModule, threads: int, precision: str) -> Predictor:
    """Copy the module to the GPU: in FP16 the user's own would be changed in place."""
    import torch

    dtype = getattr(torch, precision)
    module = copy_of(fitted).to(_DEVICE, dtype)
    return module_predictor(fitted, on_gpu(torch, module, dtype), partial(_computing, threads))


@contextmanager
def _computing(threads: int) -> Iterator[None]:
    import torch

    with torch_threads(threads), without_tf32(torch.backends):
        yield


def _arena(load: Callable[[], Predictor], X: Any, batch_size: int) -> Mapping[str, float]:
    """Return the peaks of PyTorch's allocator on the GPU in B, weights included, for the first rows of `X`."""
    import torch

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(_DEVICE)
    in_use, held = torch.cuda.memory_allocated(_DEVICE), torch.cuda.memory_reserved(_DEVICE)  # by others, before
    predictor = load()
    with predictor.scope():
        batch = predictor.batches(X, batch_size)[0]
        for _ in range(_ARENA_CALLS):
            predictor.predict(batch)
    return {
        "arena_in_use": float(torch.cuda.max_memory_allocated(_DEVICE) - in_use),
        "arena_held": float(torch.cuda.max_memory_reserved(_DEVICE) - held),
    }
