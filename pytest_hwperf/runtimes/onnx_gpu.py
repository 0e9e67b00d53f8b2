"""ONNX Runtime on an NVIDIA GPU, by its CUDA or its TensorRT provider: there, or not at all."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.host.nvidia import NvidiaGpus, find_nvidia_gpus
from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.runtimes.estimators import is_onnx, one_line
from pytest_hwperf.runtimes.onnx import convert_model
from pytest_hwperf.runtimes.onnx_file import converted_form, fp32_file
from pytest_hwperf.runtimes.ort import PROVIDER, rejection_errors, run_all, runtime_version, session_options
from pytest_hwperf.runtimes.threads import uncalibrated
from pytest_hwperf.runtimes.torch_modules import inspect_model

_INSTALL = "pip uninstall onnxruntime, then pip install onnxruntime-gpu"

Opener = Callable[..., Any]  # a model, and whether it must run there as a whole → a session


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxGpuAccess:
    """How this machine and its runtime are looked at; a test replaces any part."""

    runtime: Any = None  # the module `onnxruntime`; None imports it
    gpus: Callable[[], NvidiaGpus] = field(default=lambda: find_nvidia_gpus(os.environ))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """What a scenario is asked for."""

    provider: str
    options: Mapping[str, str]  # of the provider
    precision: str = "float32"
    tf32: str


_TENSORRT_FP32 = GpuRequest(
    provider="TensorrtExecutionProvider",
    options={"device_id": "0", "trt_fp16_enable": "0"},
    tf32="TensorRT's choice",  # ONNX Runtime has no option for it
)
_ASKED = {
    "onnx_cuda": GpuRequest(
        provider="CUDAExecutionProvider",
        options={"device_id": "0", "use_tf32": "0"},  # by itself it rounds the factors of products to 10 bits
        tf32="off",
    ),
    "onnx_tensorrt": _TENSORRT_FP32,
    "onnx_tensorrt_fp16": replace(
        _TENSORRT_FP32, options={"device_id": "0", "trt_fp16_enable": "1"}, precision="float16"
    ),
}


def gpu_scenario(name: str, model: Any, X: Any, threads: int, access: OnnxGpuAccess | None = None) -> Scenario:
    """Prepare a model on the GPU; a call has its inputs and outputs in the memory of the processor.

    Whatever the runtime lacks on a machine that has a GPU is an error of the scenario itself, and no skip.
    """
    access = access or OnnxGpuAccess()
    asked = _ASKED[name]
    fitted = None if is_onnx(model) else inspect_model(model, X, name)  # a mistake is one on every machine
    gpus = access.gpus()
    if not gpus.models:
        raise ScenarioUnavailable(f"no NVIDIA GPU: {gpus.why_none}")
    available = _runtime(access).get_available_providers()
    if asked.provider not in available:  # it would run on the processor, with a warning
        raise MeasurementError(
            f"this machine has a GPU ({gpus.name}), and the installed ONNX Runtime has no {asked.provider} "
            f"(only {', '.join(available)}): {_INSTALL}, or drop the scenario {name}"
        )
    form = converted_form(fitted, convert_model(fitted, X)) if fitted else fp32_file(model, X)
    opened = partial(_open, access, asked, threads)
    conditions = {"tf32": asked.tf32, "provider": asked.provider, "gpu": gpus.name, "driver": gpus.driver}
    conditions |= {"threads": str(threads), "precision": asked.precision}

    def run(rows: Any | None) -> tuple[Any, Mapping[str, str]]:
        session = _started(form.kind, opened, form.model)
        return None if rows is None else run_all(session, rows), {}

    key = ("gpu", name, *sorted(asked.options.items()), *sorted(conditions.items()), runtime_version())
    exact = asked.precision == "float32"  # half of it differs by nature: flips and budgets tell
    context = {"providers": asked.provider, **form.tried(X, key, run, "form on the GPU", exact=exact)}
    return form.scenario(name, "onnxruntime", conditions, context, lambda: form.predictor(opened(form.model)))


onnx_cuda, onnx_tensorrt, onnx_tensorrt_fp16 = (uncalibrated(gpu_scenario, name) for name in _ASKED)


def _started(kind: str, opened: Opener, model: Path | bytes) -> Any:
    """Open a session, and find out whether the model runs on the GPU as a whole."""
    opened(model, whole=False)
    try:
        return opened(model, whole=True)
    except rejection_errors() as problem:
        raise ScenarioUnavailable(f"{kind} does not run on the GPU as a whole: {one_line(problem)}") from problem


def _open(access: OnnxGpuAccess, asked: GpuRequest, threads: int, model: Path | bytes, *, whole: bool = True) -> Any:
    options = session_options(threads)
    if whole:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    source = model if isinstance(model, bytes) else str(model)
    providers = [(asked.provider, dict(asked.options))]
    session = _runtime(access).InferenceSession(source, options, providers=providers, enable_fallback=0)
    effective = session.get_providers()
    if effective not in ([asked.provider], [asked.provider, PROVIDER]):  # the processor's own is always listed
        raise MeasurementError(
            f"ONNX Runtime runs on {', '.join(effective) or 'no provider'} where {asked.provider} was asked for: "
            f"libraries that it needs are missing or of another version; {_INSTALL}, with the CUDA that it names"
        )
    found = session.get_provider_options().get(asked.provider, {})
    others = {name: found.get(name) for name, value in asked.options.items() if _truth(found.get(name)) != value}
    if others:
        raise MeasurementError(f"{asked.provider} runs with {others} where {dict(asked.options)} were asked for")
    return session


def _truth(value: object) -> str:
    """Write an option as it is given: providers answer True for 1."""
    return {"True": "1", "False": "0"}.get(str(value), str(value))


def _runtime(access: OnnxGpuAccess) -> Any:
    if access.runtime is not None:
        return access.runtime
    import onnxruntime

    return onnxruntime
