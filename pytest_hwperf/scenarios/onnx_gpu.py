"""ONNX Runtime on an NVIDIA GPU, by its CUDA or its TensorRT provider: there, or not at all."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.host.nvidia import NvidiaGpus, find_nvidia_gpus
from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.scenarios.cache import key_of, notes_of
from pytest_hwperf.scenarios.conversion import convert_estimator
from pytest_hwperf.scenarios.estimators import one_line
from pytest_hwperf.scenarios.onnx import inspect_model
from pytest_hwperf.scenarios.onnx_file import OnnxForm, converted_form, fp32_file
from pytest_hwperf.scenarios.onnx_source import is_onnx
from pytest_hwperf.scenarios.ort import PROVIDER, rejection_errors, run_all, runtime_version, session_options
from pytest_hwperf.scenarios.prepared import require_gpu
from pytest_hwperf.scenarios.threads import check_threads

_CUDA, _TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"
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

    name: str
    provider: str
    options: Mapping[str, str]  # of the provider
    precision: str
    conditions: Mapping[str, str]


_ASKED = {
    one.name: one
    for one in (
        GpuRequest(
            name="onnx_cuda",
            provider=_CUDA,
            options={"device_id": "0", "use_tf32": "0"},  # by itself it rounds the factors of products to 10 bits
            precision="float32",
            conditions={"tf32": "off"},
        ),
        GpuRequest(
            name="onnx_tensorrt",
            provider=_TENSORRT,
            options={"device_id": "0", "trt_fp16_enable": "0"},
            precision="float32",
            conditions={"tf32": "TensorRT's choice"},  # ONNX Runtime has no option for it
        ),
        GpuRequest(
            name="onnx_tensorrt_fp16",
            provider=_TENSORRT,
            options={"device_id": "0", "trt_fp16_enable": "1"},
            precision="float16",
            conditions={"tf32": "TensorRT's choice"},
        ),
    )
}


def onnx_cuda(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare an estimator, a module or an FP32 ONNX file on the GPU, in FP32, by ONNX Runtime's CUDA provider.

    A call has its inputs and outputs in the memory of the processor, and returns when they are there.

    Raises:
        UsageProblem: no model, not fitted, or no whole number of threads.
        MeasurementError: there is a GPU, and ONNX Runtime does not run on it.
        ScenarioUnavailable: no GPU, or the model has no form that runs on it as a whole.
    """
    del X_calibration
    return gpu_scenario("onnx_cuda", model, X, threads)


def onnx_tensorrt(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the same model in FP32 by ONNX Runtime's TensorRT provider; raises as `onnx_cuda`."""
    del X_calibration
    return gpu_scenario("onnx_tensorrt", model, X, threads)


def onnx_tensorrt_fp16(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the same model in FP16 by ONNX Runtime's TensorRT provider; raises as `onnx_cuda`."""
    del X_calibration
    return gpu_scenario("onnx_tensorrt_fp16", model, X, threads)


def gpu_scenario(name: str, model: Any, X: Any, threads: int, access: OnnxGpuAccess | None = None) -> Scenario:
    """Prepare one of these scenarios; raises as `onnx_cuda`."""
    check_threads(threads)
    access = access or OnnxGpuAccess()
    asked = _ASKED[name]
    fitted = None if is_onnx(model) else inspect_model(model, X, name)  # a mistake is one on every machine
    gpus = access.gpus()
    require_gpu(gpus)
    _require_provider(access, asked, gpus)
    form = converted_form(fitted, convert_estimator(fitted, fitted.rows(X))) if fitted else fp32_file(model, X)
    opened = partial(_open, access, asked, threads)
    conditions = {**asked.conditions, "provider": asked.provider, "gpu": gpus.name, "driver": gpus.driver}
    conditions |= {"threads": str(threads), "precision": asked.precision}
    context = {"providers": asked.provider, **_tried(asked, form, X, opened, conditions)}
    return form.scenario(name, "onnxruntime", conditions, context, lambda: form.predictor(opened(form.model)))


def _tried(
    asked: GpuRequest, form: OnnxForm, X: Any, opened: Opener, conditions: Mapping[str, str]
) -> Mapping[str, str]:
    """Return what running a form on this GPU tells."""
    rows = form.checked(X)
    exact = asked.precision == "float32"  # half of it differs by nature: flips and budgets tell

    def check() -> Mapping[str, str]:
        session = _started(form.kind, opened, form.model)
        return {} if rows is None else form.parity(run_all(session, rows), rows, "form on the GPU", exact=exact)

    options = (*sorted(asked.options.items()), *sorted(conditions.items()), runtime_version())
    return notes_of(key_of("gpu", asked.name, *form.key(rows), *options), check)


def _started(kind: str, opened: Opener, model: Path | bytes) -> Any:
    """Open a session, and find out whether the model runs on the GPU as a whole."""
    opened(model, whole=False)
    try:
        return opened(model, whole=True)
    except rejection_errors() as problem:
        raise ScenarioUnavailable(f"{kind} does not run on the GPU as a whole: {one_line(problem)}") from problem


def _require_provider(access: OnnxGpuAccess, asked: GpuRequest, gpus: NvidiaGpus) -> None:
    """Refuse a runtime without the provider: it would run on the processor without a word."""
    available = _runtime(access).get_available_providers()
    if asked.provider not in available:
        raise MeasurementError(
            f"this machine has a GPU ({gpus.name}), and the installed ONNX Runtime has no {asked.provider} "
            f"(only {', '.join(available)}): {_INSTALL}, or drop the scenario {asked.name}"
        )


def _open(access: OnnxGpuAccess, asked: GpuRequest, threads: int, model: Path | bytes, *, whole: bool = True) -> Any:
    """Open a session on the asked provider."""
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
