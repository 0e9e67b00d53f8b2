"""OpenVINO on the processor: ONNX forms of estimators and modules, and ONNX files, at a set and checked precision."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.host.machine import name_processor, read_processor
from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.runtimes.agreement import agreement
from pytest_hwperf.runtimes.estimators import is_onnx, one_line
from pytest_hwperf.runtimes.onnx import convert_model
from pytest_hwperf.runtimes.onnx_file import REFERENCE_OF_FILES, OnnxForm, converted_form, fp32_file
from pytest_hwperf.runtimes.onnx_trial import digest_named, sampled_rows
from pytest_hwperf.runtimes.ort import quiet_run, runtime_version
from pytest_hwperf.runtimes.own_call import ESTIMATOR_ERRORS
from pytest_hwperf.runtimes.profiles import OperatorTime, describe_operators, summed
from pytest_hwperf.runtimes.quantise import choose_rows, int8_conditions, quantise_model, why_not_integer
from pytest_hwperf.runtimes.threads import check_threads, uncalibrated
from pytest_hwperf.runtimes.torch_modules import FittedModule, inspect_model

PRECISIONS: Mapping[str, str] = {"f32": "float32", "bf16": "bfloat16"}  # as OpenVINO calls them
_DEVICE = "CPU"
_NO_RULE = "No conversion rule found for operations: "
_RUNS = 20
_WEIGHTS = frozenset({"Convolution", "Deconvolution", "FullyConnected", "GroupConvolution", "MatMul"})
_INTEGER = (" i8", " u8")
_INT8 = "openvino_int8"
_COMPARED_ROWS, _COMPARED_ALONE = 512, 32  # of a file


_TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "float16",
    "boolean": "bool",
    "string": "string",
    **{f"{sign}{bits}": f"{'u' * (sign == 'u')}int{bits}" for sign in "iu" for bits in (8, 16, 32, 64)},
}


def require_openvino() -> None:
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


def ports_of(compiled: Any) -> list[SimpleNamespace]:
    """Describe the inputs of a model as ONNX Runtime does."""
    return [
        SimpleNamespace(
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
    request, found = compiled.create_infer_request(), list[tuple[str, float]]()
    for _ in range(_RUNS):
        request.infer(batch, share_inputs=True)
        for node in request.profiling_info:
            if "EXECUTED" in str(node.status):
                name = f"{node.node_type} {node.exec_type.rpartition('_')[2].lower()}"
                found.append((name, node.real_time.total_seconds() + 0.5e-6))  # cut to whole µs
    return summed(found)


def why_not_int8(operators: Sequence[OperatorTime]) -> Statement | None:
    """Return why what is executed must not be called INT8; None where it may."""
    held = frozenset(one.operator for one in operators if one.operator.partition(" ")[0] in _WEIGHTS)
    integer = frozenset(name for name in held if name.endswith(_INTEGER))
    return why_not_integer(operators, (integer, held - integer))


_FLOATS = {"openvino_fp32": "f32", "openvino_bf16": "bf16"}  # scenario → precision of what is no integer


def _float(name: str, model: Any, X: Any, threads: int) -> Scenario:
    require_openvino()
    precision = {"precision": PRECISIONS[_FLOATS[name]]}
    if is_onnx(model):
        return _scenario(name, fp32_file(model, X), X, threads, precision)
    fitted = inspect_model(model, X, name)
    return _scenario(name, converted_form(fitted, convert_model(fitted, X)), X, threads, precision)


openvino_fp32, openvino_bf16 = (uncalibrated(_float, name) for name in _FLOATS)


def openvino_int8(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Prepare the quantised ONNX form of an estimator or module, as `onnx_int8` does, in OpenVINO."""
    check_threads(threads)
    require_openvino()
    fitted = inspect_model(model, X, _INT8)
    chosen = None if X_calibration is None else choose_rows(fitted, X, X_calibration)
    others = isinstance(fitted, FittedModule)  # an estimator's form holds no Gemm
    stored = quantise_model(fitted, X, chosen, for_others=others)
    return _scenario(_INT8, converted_form(fitted, stored), X, threads, int8_conditions(chosen))


def _scenario(name: str, form: OnnxForm, X: Any, threads: int, own_conditions: Mapping[str, str]) -> Scenario:
    hint = _FLOATS.get(name, "f32")

    def run(rows: Any | None) -> tuple[Any, Mapping[str, str] | Statement]:
        try:
            compiled = compile_model(form.model, hint, threads=1, profiled=True)
            if rows is None:
                return None, _told_of_file(form, compared, compiled, hint, exact=exact)
            operators = profile_operators(compiled, [rows])
            _refuse_no_bf16(operators, hint)
            outputs = predict_with(compiled)([rows])
        except ESTIMATOR_ERRORS as problem:
            raise refusal(form.kind, problem) from problem
        cause = why_not_int8(operators) if name == _INT8 else None
        return outputs, cause or {"operators": describe_operators(operators)}

    exact = name == "openvino_fp32"  # other precisions differ by nature: flips and budgets tell
    machine = (name_processor(read_processor("/")), version("openvino"), version("pytest-hwperf"))
    compared = None if form.fitted else sampled_rows(X, _COMPARED_ROWS, form.only_rows or 1)
    data = () if form.fitted else (runtime_version(), digest_named(compared))
    context = form.tried(X, ("openvino", name, *machine, *data), run, "OpenVINO form", exact=exact)
    if name == _INT8:  # the scales of dynamic quantisation follow from the batch: a run tells it at its own
        context = {key: text for key, text in context.items() if key != "parity"}
    fixed = {"threads": str(threads), "streams": "1", "pinning": "off", "inference_precision": hint}
    return form.scenario(name, "openvino", {**fixed, **own_conditions}, context, partial(_load, form, hint, threads))


def _load(form: OnnxForm, hint: str, threads: int) -> Predictor:
    compiled = compile_model(form.model, hint, threads)
    predict = predict_with(compiled)
    if form.fitted is None:
        return form.of_file(ports_of(compiled), predict)
    return form.fitted.predictor(lambda batch: predict([batch]))


def _told_of_file(form: OnnxForm, rows: Any, compiled: Any, hint: str, *, exact: bool) -> Mapping[str, str]:
    """Say what computes the rows of a file, and how far its outputs are from those of ONNX Runtime.

    They are compared in one batch and one by one, unless the file takes batches of one size only: a runtime may choose
    other operators for a single row.
    """
    inputs = form.inputs(ports_of(compiled))
    ours, theirs = (partial(_outputs, predict) for predict in (predict_with(compiled), quiet_run(form.open(threads=1))))
    together = inputs.batches(rows, inputs.fixed_rows or _COMPARED_ROWS)
    found = {"in batches": agreement(form, ours(together), form.predictions_of(theirs(together)))}
    if inputs.fixed_rows is None:
        alone = inputs.batches(rows, 1)[:_COMPARED_ALONE]
        found["one by one"] = agreement(form, ours(alone), form.predictions_of(theirs(alone)))
    text = "; ".join(f"{how} {one.text}" for how, one in found.items())
    notes = {"parity": f"{text} from {REFERENCE_OF_FILES}"}
    if exact and any(one.gross for one in found.values()):
        notes["warning"] = f"the OpenVINO form disagrees with {REFERENCE_OF_FILES}: {text}"
    operators = profile_operators(compiled, together[0])
    _refuse_no_bf16(operators, hint)
    return {"operators": describe_operators(operators), **notes}


def _refuse_no_bf16(operators: Sequence[OperatorTime], hint: str) -> None:
    """Refuse the name bfloat16 where no operator with weights computes in it."""
    held = [one.operator for one in operators if one.operator.partition(" ")[0] in _WEIGHTS]
    if hint == "bf16" and held and not any(operator.endswith(" bf16") for operator in held):
        raise ScenarioUnavailable(
            f"OpenVINO computes in {', '.join(sorted(set(held)))} on this processor, where bf16 was asked for"
        )


def _outputs(predict: Callable[[Any], Any], batches: Sequence[Any]) -> Any:
    import numpy as np

    return np.concatenate([np.array(predict(batch)) for batch in batches])
