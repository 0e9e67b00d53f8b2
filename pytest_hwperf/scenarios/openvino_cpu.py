"""OpenVINO on the processor: ONNX forms of estimators and modules, and ONNX files, at a set and checked precision."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.host.machine import name_processor, read_processor
from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.scenarios.cache import key_of, notes_of
from pytest_hwperf.scenarios.conversion import CHECKED_ROWS, convert_estimator
from pytest_hwperf.scenarios.estimators import ESTIMATOR_ERRORS, one_line
from pytest_hwperf.scenarios.onnx import inspect_model
from pytest_hwperf.scenarios.onnx_file import OnnxForm, converted_form, file_predictor, fp32_file
from pytest_hwperf.scenarios.onnx_source import ModelInputs, is_onnx
from pytest_hwperf.scenarios.prepared import predictor_of
from pytest_hwperf.scenarios.profiles import OperatorTime, describe_operators
from pytest_hwperf.scenarios.quantise import QuantiseRequest, choose_rows, int8_conditions, quantise_estimator
from pytest_hwperf.scenarios.threads import check_threads
from pytest_hwperf.scenarios.torch_modules import FittedModule

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
    require("openvino", "OpenVINO is not installed", "openvino", error=ScenarioUnavailable)


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


_INT8 = "int8"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenvinoRequest:
    """What a scenario is asked for."""

    name: str
    hint: str  # precision of what is no integer, as OpenVINO calls it
    threads: int
    verified: str = ""  # "int8" where the executed operators must be integer ones


def openvino_fp32(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the FP32 ONNX form of an estimator or module, or an FP32 ONNX file, in OpenVINO; no `X_calibration`.

    Raises:
        UsageProblem: no model, not fitted, or no whole number of threads.
        MeasurementError: `X` is no numeric matrix that it takes.
        ScenarioUnavailable: OpenVINO is missing, or has no form of the model; says why.
    """
    del X_calibration
    return _float(OpenvinoRequest(name="openvino_fp32", hint="f32", threads=threads), model, X)


def openvino_bf16(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the same model, computed in bfloat16; raises as `openvino_fp32`.

    Raises:
        ScenarioUnavailable: this processor cannot.
    """
    del X_calibration
    return _float(OpenvinoRequest(name="openvino_bf16", hint="bf16", threads=threads), model, X)


def openvino_int8(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the quantised ONNX form of an estimator or module, as `onnx_int8` does, in OpenVINO; raises as both.

    Raises:
        ScenarioUnavailable: OpenVINO does not compute it in integers.
    """
    check_threads(threads)
    require_openvino()
    fitted = inspect_model(model, X, "openvino_int8")
    chosen = None if X_calibration is None else choose_rows(fitted, X, X_calibration)
    others = isinstance(fitted, FittedModule)  # an estimator's form holds no Gemm
    stored = quantise_estimator(
        QuantiseRequest(fitted=fitted, rows=fitted.rows(X), calibration=chosen, for_others=others)
    )
    asked = OpenvinoRequest(name="openvino_int8", hint="f32", threads=threads, verified=_INT8)
    return _scenario(asked, converted_form(fitted, stored), X, int8_conditions(chosen))


def _float(asked: OpenvinoRequest, model: Any, X: Any) -> Scenario:
    check_threads(asked.threads)
    require_openvino()
    precision = {"precision": PRECISIONS[asked.hint]}
    if is_onnx(model):
        return _scenario(asked, fp32_file(model, X), X, precision)
    fitted = inspect_model(model, X, asked.name)
    return _scenario(asked, converted_form(fitted, convert_estimator(fitted, fitted.rows(X))), X, precision)


def _scenario(asked: OpenvinoRequest, form: OnnxForm, X: Any, own_conditions: Mapping[str, str]) -> Scenario:
    fixed = {**conditions(asked.hint, asked.threads), **own_conditions}
    return form.scenario(asked.name, "openvino", fixed, _tried(asked, form, X), partial(_load, asked, form))


def _load(asked: OpenvinoRequest, form: OnnxForm) -> Predictor:
    compiled = compile_model(form.model, asked.hint, asked.threads)
    predict = predict_with(compiled)
    if form.fitted is None:
        return file_predictor(ModelInputs(model=form.kind, inputs=ports_of(compiled)), predict, form.output)
    return predictor_of(form.fitted, lambda batch: predict([batch]))


def _tried(asked: OpenvinoRequest, form: OnnxForm, X: Any) -> Mapping[str, str]:
    """Return what running a form tells: executed operators and parity."""
    rows = form.checked(X)
    exact = asked.hint == "f32" and not asked.verified  # other precisions differ by nature: flips and budgets tell

    def run() -> Mapping[str, str] | Statement:
        try:
            compiled = compile_model(form.model, asked.hint, threads=1, profiled=True)
            inputs = _trial_of_file(form, X, compiled) if rows is None else [rows]
            operators = profile_operators(compiled, inputs)
            outputs = predict_with(compiled)(inputs)
        except ESTIMATOR_ERRORS as problem:
            raise refusal(form.kind, problem) from problem
        executed = describe_operators(operators)
        cause = why_not_int8(operators, executed) if asked.verified else None
        return cause or {"operators": executed, **form.parity(outputs, rows, "OpenVINO form", exact=exact)}

    machine = (name_processor(read_processor("/")), version("openvino"), version("pytest-hwperf"))
    return notes_of(key_of("openvino", asked.hint, asked.verified, *form.key(rows), *machine), run)


def _trial_of_file(form: OnnxForm, X: Any, compiled: Any) -> Any:
    inputs = ModelInputs(model=form.kind, inputs=ports_of(compiled))
    return inputs.batches(X, inputs.fixed_rows or CHECKED_ROWS)[0]
