"""ONNX Runtime on an NVIDIA GPU, by its CUDA or its TensorRT provider: there, or not at all."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pytest_hwperf.host.nvidia import NvidiaGpus, find_nvidia_gpus
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.scenarios.cache import CachedModel, key_of, load_or_build
from pytest_hwperf.scenarios.conversion import agreement, checked_rows, convert_estimator
from pytest_hwperf.scenarios.estimators import FittedEstimator, one_line
from pytest_hwperf.scenarios.onnx import inspect_model, session_predict
from pytest_hwperf.scenarios.onnx_file import output_of, require_fp32, session_predictor
from pytest_hwperf.scenarios.onnx_source import OnnxSource, is_onnx, read_source
from pytest_hwperf.scenarios.ort import PROVIDER, rejection_errors, run_all, runtime_version, session_options
from pytest_hwperf.scenarios.prepared import EstimatorPredictor, PreparedScenario, require_gpu
from pytest_hwperf.scenarios.rows import digest_rows
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_modules import FittedModule

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


def onnx_cuda(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare an estimator, a module or an FP32 ONNX file on the GPU, in FP32, by ONNX Runtime's CUDA provider.

    A call has its inputs and outputs in the memory of the processor, and returns when they are there.

    Raises:
        UsageProblem: no model, not fitted, or no whole number of threads.
        MeasurementError: there is a GPU, and ONNX Runtime does not run on it.
        ScenarioUnavailable: no GPU, or the model has no form that runs on it as a whole.
    """
    del X_calibration
    return gpu_scenario("onnx_cuda", model, X, threads)


def onnx_tensorrt(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare the same model in FP32 by ONNX Runtime's TensorRT provider; raises as `onnx_cuda`."""
    del X_calibration
    return gpu_scenario("onnx_tensorrt", model, X, threads)


def onnx_tensorrt_fp16(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> PreparedScenario:
    """Prepare the same model in FP16 by ONNX Runtime's TensorRT provider; raises as `onnx_cuda`."""
    del X_calibration
    return gpu_scenario("onnx_tensorrt_fp16", model, X, threads)


def gpu_scenario(name: str, model: Any, X: Any, threads: int, access: OnnxGpuAccess | None = None) -> PreparedScenario:
    """Prepare one of these scenarios; raises as `onnx_cuda`."""
    check_threads(threads)
    access = access or OnnxGpuAccess()
    asked, is_file = _ASKED[name], is_onnx(model)
    fitted = None if is_file else inspect_model(model, X, name)  # a mistake is one on every machine
    gpus = access.gpus()
    require_gpu(gpus)
    _require_provider(access, asked, gpus)
    opened = partial(_open, access, asked, threads)
    common = {**asked.conditions, "provider": asked.provider, "gpu": gpus.name, "driver": gpus.driver}
    common |= {"threads": str(threads), "precision": asked.precision}
    if fitted is None:
        return _of_file(asked, read_source(model), X, opened, common)
    stored = convert_estimator(fitted, fitted.rows(X))
    return _of_model(asked, fitted, stored, X, opened, common)


def _of_model(
    asked: GpuRequest,
    fitted: FittedEstimator | FittedModule,
    stored: CachedModel,
    X: Any,
    opened: Opener,
    conditions: Mapping[str, str],
) -> PreparedScenario:
    rows = checked_rows(fitted, fitted.rows(X))
    exact = asked.precision == "float32"  # half of it differs by nature: flips and budgets tell

    def check() -> Mapping[str, str]:
        outputs = run_all(_started(fitted.kind, opened, stored.path), rows)
        parity = agreement(fitted, outputs, fitted.predict(rows))
        gross = f"the form on the GPU disagrees with {fitted.library}: {parity}"
        return {"parity": f"{parity} from {fitted.library}", **({"warning": gross} if exact and parity.gross else {})}

    key = (stored.sha256, fitted.digest, digest_rows(rows))
    return PreparedScenario(
        name=asked.name,
        imports=("onnxruntime",),
        conditions={**conditions, "form": stored.notes["form"], "output": fitted.output},
        context={"model": stored.sha256[:16], "providers": asked.provider, **_kept(asked, key, conditions, check)},
        model_bytes=stored.bytes,
        size_source="onnx file",
        classifies=fitted.classes is not None,
        load=lambda: EstimatorPredictor(session_predict(opened(stored.path)), fitted),
        reference=fitted.reference,
    )


def _of_file(
    asked: GpuRequest,
    source: OnnxSource,
    X: Any,
    opened: Opener,
    conditions: Mapping[str, str],
) -> PreparedScenario:
    require_fp32(source)
    output = output_of(source, X)

    def check() -> Mapping[str, str]:
        _started(source.name, opened, source.model)
        return {}

    _kept(asked, (source.sha256,), conditions, check)
    return PreparedScenario(
        name=asked.name,
        imports=("onnxruntime",),
        conditions={**conditions, "output": output},
        context={"model": source.sha256[:16], "providers": asked.provider},
        model_bytes=source.bytes,
        size_source="onnx file",
        classifies=output != "values",
        load=lambda: session_predictor(source.name, opened(source.model), output),
    )


def _kept(
    asked: GpuRequest, key: tuple[object, ...], conditions: Mapping[str, str], check: Callable[[], Mapping[str, str]]
) -> Mapping[str, str]:
    """Return what running a model tells, from the cache where it was run before on this GPU.

    A fresh process must not have used the runtime before its memory and its cold start are measured.
    """
    parts = ("gpu", asked.name, *key, *sorted(asked.options.items()), *sorted(conditions.items()), runtime_version())
    return load_or_build(key_of(*parts), lambda: (b"", check())).notes


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
