"""ONNX Runtime sessions with everything fixed that decides their speed."""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.scenarios.estimators import ESTIMATOR_ERRORS

PROVIDER = "CPUExecutionProvider"
_DISTRIBUTIONS = ("onnxruntime-gpu", "onnxruntime")  # the former is often installed over the latter
_ERRORS_ONLY = 3  # ONNX Runtime's log severity; its warnings go to the file descriptor of standard error


def open_session(model: Path | bytes, threads: int, profile: Path | None = None) -> Any:
    """Load a model with `threads` intra-op threads that do not spin, one inter-op thread and all optimisations."""
    import onnxruntime

    options = session_options(threads)
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    source = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=[PROVIDER])
    check_providers(session.get_providers())
    return session


def session_options(threads: int) -> Any:
    """Return options with `threads` intra-op threads that do not spin, one inter-op thread and all optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A spinning pool burns twenty times the processor time of the calls themselves.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = _ERRORS_ONLY
    return options


def runtime_version() -> str:
    """Return the version of ONNX Runtime, whichever distribution has installed it; nothing is imported for it."""
    for name in _DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            return f"{name} {version(name)}"
    return "unknown"


def check_providers(effective: list[str]) -> None:
    """Refuse a session on another provider: a missing one falls back silently."""
    if effective != [PROVIDER]:
        raise MeasurementError(
            f"ONNX Runtime runs on {', '.join(effective) or 'no provider'} where {PROVIDER} was asked for: "
            "install the plain onnxruntime package"
        )


def session_conditions(threads: int) -> dict[str, str]:
    """Return what `open_session` fixes, as conditions of a run."""
    return {"threads": str(threads), "inter_op_threads": "1", "spinning": "off", "graph_optimisation": "all"}


def run_all(session: Any, rows: Any, batch_size: int = 256) -> Any:
    """Return the first output of `session` for all rows, `batch_size` at a time."""
    import numpy as np

    name, output = session.get_inputs()[0].name, session.get_outputs()[0].name
    starts = range(0, len(rows), batch_size)
    return np.concatenate([session.run([output], {name: rows[s : s + batch_size]})[0] for s in starts])


def rejection_errors() -> tuple[type[Exception], ...]:
    """Return the errors by which converters, onnx and ONNX Runtime reject a model; they have no common root."""
    import onnx
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented", "RuntimeException")
    return (
        *ESTIMATOR_ERRORS,
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        *(getattr(state, name) for name in names),
    )
