"""OpenVINO on the processor, with everything fixed that decides its speed, and what it reports of what it does."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_hwperf.core.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.scenarios.estimators import one_line
from pytest_hwperf.scenarios.profiles import OperatorTime

PRECISIONS: Mapping[str, str] = {"f32": "float32", "bf16": "bfloat16"}  # as OpenVINO calls them
_DEVICE = "CPU"
_NO_RULE = "No conversion rule found for operations: "
_RUNS = 20
_WEIGHTS = frozenset({"Convolution", "Deconvolution", "FullyConnected", "GroupConvolution", "MatMul"})
_INTEGER = ("i8", "u8")
_LEAST_SHARE = 0.5  # of the time of the operators that hold weights


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPort:
    """An input of a model, as ONNX Runtime describes one."""

    name: str
    type: str
    shape: list[int | None]


_TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "float16",
    "boolean": "bool",
    "string": "string",
    **{f"{sign}{bits}": f"{'u' * (sign == 'u')}int{bits}" for sign in "iu" for bits in (8, 16, 32, 64)},
}


def require_openvino() -> None:
    """Refuse where OpenVINO is missing."""
    if find_spec("openvino") is None:
        raise ScenarioUnavailable("OpenVINO is not installed: pip install 'pytest-hwperf[openvino]'")


def compile_model(model: Path | bytes, hint: str, threads: int, *, profiled: bool = False) -> Any:
    """Compile an ONNX model for the processor: one stream, so many threads that are not pinned, one precision."""
    import openvino

    core = _core()
    whole = core.read_model(model if isinstance(model, bytes) else str(model))
    # Outputs that nobody asks for, such as labels beside probabilities, would be computed all the same.
    cut = openvino.Model([whole.outputs[0]], whole.get_parameters())
    settings = {
        "INFERENCE_PRECISION_HINT": hint,
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,  # the sides of a pair are pinned together, and it would pin each elsewhere
        "PERF_COUNT": profiled,
    }
    compiled = core.compile_model(cut, _DEVICE, settings)
    effective = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if effective != hint:
        kind = MeasurementError if hint == "f32" else ScenarioUnavailable
        raise kind(f"OpenVINO computes in {effective} on this processor, where {hint} was asked for")
    return compiled


@cache
def _core() -> Any:
    """Return OpenVINO's core, the one of this process, which stays.

    A core may install a stack of its own for the signals of the thread, and takes the memory of it along when it goes
    (OpenVINO 2026.4): the next signal, such as that of Ctrl-C, would then end the process by a segmentation fault.
    """
    import openvino

    return openvino.Core()


def conditions(hint: str, threads: int) -> dict[str, str]:
    """Return what `compile_model` fixes, as conditions of a run."""
    return {"threads": str(threads), "streams": "1", "pinning": "off", "inference_precision": hint}


def predict_with(compiled: Any) -> Callable[[Any], Any]:
    """Return a function that computes the output of inputs; each thread has a request of its own."""
    own = threading.local()

    def predict(batch: Any) -> Any:
        try:
            request = own.request
        except AttributeError:
            request = own.request = compiled.create_infer_request()
        return request.infer(batch, share_inputs=True)[0]

    return predict


def ports_of(compiled: Any) -> list[InputPort]:
    """Describe the inputs of a model."""
    return [
        InputPort(
            name=port.any_name,
            type=f"tensor({_TYPES.get(port.element_type.to_string(), port.element_type.to_string())})",
            shape=[size.get_length() if size.is_static else None for size in port.partial_shape],
        )
        for port in compiled.inputs
    ]


def refusal(kind: str, problem: Exception) -> ScenarioUnavailable:
    """Return the error for a model that OpenVINO does not take, with its own reason."""
    text = str(problem)
    found = text.partition(_NO_RULE)[2].partition("\n")[0]
    why = f"{_NO_RULE[0].lower()}{_NO_RULE[1:]}{found}" if found else one_line(problem)
    return ScenarioUnavailable(
        state("does not convert", model=kind, form="OpenVINO", converter=f"openvino {version('openvino')}", why=why)
    )


def profile_operators(compiled: Any, batch: Any) -> tuple[OperatorTime, ...]:
    """Return the operators that a profiled model executes on a batch, with the precision of each, slowest first."""
    calls: dict[str, int] = {}
    times: dict[str, float] = {}
    request = compiled.create_infer_request()
    for _ in range(_RUNS):
        request.infer(batch, share_inputs=True)
        for node in request.profiling_info:
            if "EXECUTED" in str(node.status):
                name = f"{node.node_type} {node.exec_type.rpartition('_')[2].lower()}"
                calls[name] = calls.get(name, 0) + 1
                times[name] = times.get(name, 0.0) + node.real_time.total_seconds() + 0.5e-6  # cut to whole µs
    found = [OperatorTime(operator=name, calls=calls[name], time=times[name]) for name in calls]
    return tuple(sorted(found, key=lambda one: -one.time))


def why_not_int8(operators: tuple[OperatorTime, ...], executed: str) -> Statement | None:
    """Return why what is executed must not be called INT8; None where it may."""
    times = {True: 0.0, False: 0.0}
    for one in operators:
        name, _, precision = one.operator.partition(" ")
        if name in _WEIGHTS:
            times[precision in _INTEGER] += one.time
    total = sum(times.values())
    share = times[True] / total if total else 0.0
    return None if share >= _LEAST_SHARE else state("not int8", share=share, least=_LEAST_SHARE, executed=executed)
