"""INT8 forms of an estimator, each verified to compute in integers."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_hwperf.host.machine import read_processor, saturates_bytes
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.contracts import Scenario
from pytest_hwperf.records.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.runtimes.cache import CachedModel, key_of, load_or_build
from pytest_hwperf.runtimes.estimators import (
    FittedModel,
    choose_rows_of,
    digest_rows,
    one_line,
    split_batches,
)
from pytest_hwperf.runtimes.onnx import (
    MATMUL_FORM,
    MATMUL_OPERATORS,
    TORCH_FORM,
    cache_key_parts,
    convert_model,
    operators_in,
    scenario_of,
)
from pytest_hwperf.runtimes.ort import open_session, rejection_errors, run_all
from pytest_hwperf.runtimes.profiles import (
    FLOAT_OPERATORS,
    INTEGER_OPERATORS,
    WEIGHT_ONLY_OPERATORS,
    OperatorTime,
    describe_operators,
    profile_operators,
)
from pytest_hwperf.runtimes.threads import check_threads, uncalibrated
from pytest_hwperf.runtimes.torch_modules import inspect_model


def without_gemm(model: bytes) -> bytes:
    """Write each Gemm with weights in the graph as MatMul and Add, which compute the same.

    ONNX Runtime quantises Gemm to QGemm, an operator of its own, and MatMul to one of the ONNX standard.
    """
    import onnx

    proto = onnx.load_from_string(model)
    weights = {one.name: one for one in proto.graph.initializer}
    nodes = [part for node in proto.graph.node for part in _split(node, weights)]
    used = {name for node in nodes for name in node.input}
    del proto.graph.node[:], proto.graph.initializer[:]
    proto.graph.node.extend(nodes)
    proto.graph.initializer.extend(one for name, one in weights.items() if name in used)
    content: bytes = proto.SerializeToString()
    return content


def _split(node: Any, weights: dict[str, Any]) -> Iterator[Any]:
    """Yield what takes the place of a node; weights that it needs are added to `weights`."""
    import numpy as np
    from onnx import helper, numpy_helper

    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    scaled = given.get("alpha", 1.0) != 1.0 or given.get("beta", 1.0) != 1.0
    if node.op_type != "Gemm" or scaled or given.get("transA", 0) or node.input[1] not in weights:
        yield node
        return
    rows, name, *bias = node.input
    if given.get("transB", 0):
        turned = np.ascontiguousarray(numpy_helper.to_array(weights[name]).T)
        name = f"{name} transposed"
        weights[name] = numpy_helper.from_array(turned, name)
    product = f"{node.output[0]} product" if bias else node.output[0]
    yield helper.make_node("MatMul", [rows, name], [product], name=f"{node.name} MatMul")
    if bias:
        yield helper.make_node("Add", [product, *bias], list(node.output), name=f"{node.name} Add")


# Unsigned activations and signed weights, per tensor; weights of 7 bits where sums of products may saturate, which
# loses a third of the labels of some models. All of it stands in the conditions: other choices make another model.
_SATURATES = saturates_bytes(read_processor())
_CHOICES = {"quantisation": "U8S8 per tensor", "reduce_range": "yes, no VNNI known" if _SATURATES else "no"}
_REVISION = 4  # of what is cached: raise it when a form here comes out differently
_LEAST_SHARE = 0.5  # of the time of the operators that hold weights
_MOST_ROWS = 512  # for calibration
_MOST_TRIED = 512  # on which its operators are looked at
_BATCH = 32  # equal batches: some calibration methods stack the results of all batches

Quantiser = Callable[[bytes, Any | None], bytes]


class CalibrationReader:
    """Equal batches of calibration rows, in the interface of ONNX Runtime's quantiser."""

    def __init__(self, rows: Any, input_name: str) -> None:
        self._batches = iter(split_batches(rows, min(_BATCH, len(rows))))
        self._input = input_name

    def get_next(self) -> dict[str, Any] | None:
        """Return the next batch as the session's inputs, None at the end."""
        batch = next(self._batches, None)
        return None if batch is None else {self._input: batch}


def _scenario(name: str, model: Any, X: Any, threads: int, X_calibration: Any | None = None) -> Scenario:
    check_threads(threads)
    fitted = inspect_model(model, X, name)
    chosen = None if X_calibration is None else choose_rows(fitted, X, X_calibration)
    stored = quantise_model(fitted, X, chosen)
    return scenario_of(name, fitted, stored, threads, int8_conditions(chosen))


def onnx_int8(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Quantise to INT8: static where there are calibration rows, else dynamic."""
    return _scenario("onnx_int8", model, X, threads, X_calibration)


onnx_int8_dynamic = uncalibrated(_scenario, "onnx_int8_dynamic")


def onnx_int8_static(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> Scenario:
    """Quantise to INT8 with ranges of activations taken from `X_calibration`."""
    if X_calibration is None:
        raise UsageProblem(
            "onnx_int8_static needs calibration rows: give X_calibration= rows of the training data, or use "
            "onnx_int8_dynamic, which needs none"
        )
    return _scenario("onnx_int8_static", model, X, threads, X_calibration)


def quantise_model(
    fitted: FittedModel,
    X: Any,
    calibration: Any | None,
    *,
    for_others: bool = False,
    quantise: Quantiser | None = None,
) -> CachedModel:
    """Return the INT8 form of the FP32 MatMul form, tried on rows of `X`, from the cache if possible.

    Its notes are those of `convert_model` without `parity`, and the executed `operators`.
    Without rows for `calibration`, ranges are taken during each call. `for_others` is a form that another runtime than
    ONNX Runtime is to read.
    """
    checked = fitted.checked(X)
    mode = "dynamic" if calibration is None else digest_rows(calibration)
    original = convert_model(fitted, X)

    def build() -> tuple[bytes, Mapping[str, str] | Statement]:
        content = original.path.read_bytes()
        source = without_gemm(content) if for_others else content
        _require_quantisable(fitted, source, original.notes["form"])
        tried = choose_rows_of(checked.rows(), _MOST_TRIED)
        model, told = _quantised(fitted, source, tried, lambda: (quantise or quantise_with_ort)(source, calibration))
        kept = {name: text for name, text in original.notes.items() if name != "parity"}
        return model, told if isinstance(told, Statement) else {**kept, **told}

    choices = (*_CHOICES.items(), MATMUL_OPERATORS, original.sha256, for_others)
    return load_or_build(key_of("int8", _REVISION, mode, *choices, *cache_key_parts(fitted, checked)), build)


def choose_rows(fitted: FittedModel, X: Any, X_calibration: Any) -> Any:
    """Return at most 512 rows of `X_calibration`, every kind among them, a multiple of 32 where there are as many."""
    rows = fitted.rows(X_calibration)
    if shared := count_shared(rows, fitted.rows(X)):
        raise UsageProblem(
            f"{shared} of {len(rows)} rows of X_calibration occur in X, so test rows would calibrate the model that is "
            "tested on them: give training rows, without those that X repeats"
        )
    most = min(_MOST_ROWS, len(rows))
    return choose_rows_of(rows, most - most % _BATCH if most > _BATCH else most)


def count_shared(rows: Any, others: Any) -> int:
    """Count the rows of one float32 matrix that occur in another one of the same width."""
    import numpy as np

    known = {row.tobytes() for row in others + np.float32(0)}  # adding 0 makes -0.0 the same as 0.0
    return sum(row.tobytes() in known for row in rows + np.float32(0))


def operators_with_weights(model: bytes) -> frozenset[str]:
    """Return the kinds of operators in an ONNX graph that take a constant matrix of floats, as an LSTM does."""
    import onnx

    graph, floats = onnx.load_from_string(model).graph, (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    matrices = {
        one.name for one in graph.initializer if one.data_type in floats and sum(size > 1 for size in one.dims) > 1
    }
    return frozenset(node.op_type for node in graph.node if matrices.intersection(node.input))


def quantise_with_ort(model: bytes, calibration: Any | None) -> bytes:
    """Quantise an ONNX model with ONNX Runtime's own tools; with calibration rows statically."""
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    proto = onnx.load_from_string(model)
    with workdir() as folder, _quiet():
        path = folder / "int8.onnx"
        # The default list of operators breaks the static quantisation of classifiers of more than two classes.
        common = {"op_types_to_quantize": list(MATMUL_OPERATORS), "per_channel": False, "weight_type": QuantType.QInt8}
        if calibration is None:
            quantize_dynamic(proto, path, reduce_range=_SATURATES, **common)
        else:
            # Operators in the file, not quantise/dequantise pairs: from pairs some versions fuse weight-only operators.
            reader = CalibrationReader(calibration, proto.graph.input[0].name)
            quantize_static(
                proto,
                path,
                reader,
                quant_format=QuantFormat.QOperator,
                activation_type=QuantType.QUInt8,
                reduce_range=_SATURATES,
                **common,
            )
        return path.read_bytes()


def int8_conditions(calibration: Any | None) -> dict[str, str]:
    """Return how a model was quantised, as conditions of a run."""
    precision = "int8 dynamic" if calibration is None else "int8 static"
    own = {"precision": precision, **_CHOICES}
    if calibration is not None:
        own["calibration"] = f"{len(calibration)} rows, {digest_rows(calibration)}"
    return own


def _quantised(
    fitted: FittedModel, source: bytes, checked: Any, quantise: Callable[[], bytes]
) -> tuple[bytes, Mapping[str, str] | Statement]:
    """Quantise; return the form with what running it tells, or why it is none."""
    try:
        model = quantise()
        outputs, reference = (run_all(open_session(one, threads=1), checked) for one in (model, source))
        operators, originals = profile_operators(model, checked), profile_operators(source, checked)
    except rejection_errors() as problem:
        raise ScenarioUnavailable(state("no int8 form", why=f"{fitted.kind}: {one_line(problem)}")) from problem
    kinds = (INTEGER_OPERATORS, FLOAT_OPERATORS | operators_with_weights(model))
    if cause := why_not_int8(operators, originals, same_outputs=bool((outputs == reference).all()), kinds=kinds):
        return model, cause
    return model, {"operators": describe_operators(operators)}


def why_not_int8(
    quantised: Sequence[OperatorTime],
    original: Sequence[OperatorTime],
    *,
    same_outputs: bool,
    kinds: tuple[frozenset[str], frozenset[str]] = (INTEGER_OPERATORS, FLOAT_OPERATORS),
) -> Statement | None:
    """Return why a quantised model must not be called INT8; None where it may."""
    executed = describe_operators(quantised)
    if weight_only := [one.operator for one in quantised if one.operator in WEIGHT_ONLY_OPERATORS]:
        return state("weight-only", operator=weight_only[0], executed=executed)
    if same_outputs and _calls(quantised) == _calls(original):
        return state("unchanged")
    return why_not_integer(quantised, kinds)


def _calls(operators: Iterable[OperatorTime]) -> dict[str, int]:
    return {one.operator: one.calls for one in operators}


def why_not_integer(
    operators: Sequence[OperatorTime], kinds: tuple[frozenset[str], frozenset[str]]
) -> Statement | None:
    """Return that those of `kinds` that compute in integers take less than half of the time of both; None if not."""
    integer, floating = (sum(one.time for one in operators if one.operator in names) for names in kinds)
    share = integer / (integer + floating) if integer else 0.0
    if share >= _LEAST_SHARE:
        return None
    return state("not int8", share=share, least=_LEAST_SHARE, executed=describe_operators(operators))


def _require_quantisable(fitted: FittedModel, model: bytes, form: str) -> None:
    """Refuse a model whose weights are in operators that no quantiser knows."""
    kinds = operators_in(model)
    if not set(kinds) & set(MATMUL_OPERATORS):
        floats = FLOAT_OPERATORS | operators_with_weights(model)
        held = ", ".join(kind for kind in kinds if kind in floats)
        found = f"only {held}" if held else "no operator with weights"
        raise ScenarioUnavailable(state("no int8 form", why=f"{found} in the ONNX form of {fitted.kind}"))
    if form not in {MATMUL_FORM, TORCH_FORM}:
        raise ScenarioUnavailable(state("no int8 form", why=f"{fitted.kind} has no MatMul form"))


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the quantiser's advice, which it logs through the root logger, but not its errors."""
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addFilter(_is_error)
    root.addHandler(silent)  # without a handler, logging would install its own for good
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        root.removeHandler(silent)
        root.removeFilter(_is_error)


def _is_error(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR
