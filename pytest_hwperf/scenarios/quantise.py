"""INT8 forms of an estimator, and the proof that what is called INT8 computes in integers."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_hwperf.core.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.scenarios.cache import StoredModel, key_of, recall
from pytest_hwperf.scenarios.calibration_rows import Calibration, choose_rows, describe
from pytest_hwperf.scenarios.conversion import (
    CHECKED_ROWS,
    MATMUL_FORM,
    MATMUL_OPERATORS,
    agreement,
    converted,
    ingredients,
    operators_in,
)
from pytest_hwperf.scenarios.estimators import Fitted, examine, one_line
from pytest_hwperf.scenarios.onnx import OnnxScenario, scenario_of
from pytest_hwperf.scenarios.operators import FLOAT_OPERATORS, execute, objection
from pytest_hwperf.scenarios.operators import describe as describe_operators
from pytest_hwperf.scenarios.ort import open_session, refusals, run_all
from pytest_hwperf.scenarios.rows import digest, evenly_spaced
from pytest_hwperf.scenarios.threads import check_threads

# Unsigned activations and signed weights, per tensor; the full range of weights, which processors without VNNI may
# saturate. All of it stands in the conditions, because other choices make another model.
_CHOICES = {"quantisation": "U8S8 per tensor", "reduce_range": "no"}
_OBJECTION = "objection"

Quantiser = Callable[[bytes, Any | None], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be quantised, and on which rows."""

    fitted: Fitted
    rows: Any  # rows of X, for checking
    calibration: Any | None  # rows for static ranges; None = ranges are taken during each call


def onnx_int8(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> OnnxScenario:
    """Quantise to INT8: static where there are calibration rows, else dynamic.

    Raises:
        UsageProblem: calibration rows that are rows of `X`; else as `onnx_fp32`.
        MeasurementError: as `onnx_fp32`.
        ScenarioUnavailable: it has no INT8 form, or what comes out does not compute in integers.
    """
    return _scenario("onnx_int8", model, X, X_calibration, threads)


def onnx_int8_dynamic(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> OnnxScenario:
    """Quantise to INT8 with ranges of activations taken during each call; `X_calibration` is not used.

    Raises as `onnx_int8`.
    """
    del X_calibration
    return _scenario("onnx_int8_dynamic", model, X, None, threads)


def onnx_int8_static(model: Any, *, X: Any, X_calibration: Any | None = None, threads: int = 1) -> OnnxScenario:
    """Quantise to INT8 with ranges of activations taken from `X_calibration`, and raise as `onnx_int8` does.

    Raises:
        UsageProblem: no calibration rows.
    """
    if X_calibration is None:
        raise UsageProblem(
            "onnx_int8_static needs calibration rows: give X_calibration= rows of the training data, or use "
            "onnx_int8_dynamic, which needs none"
        )
    return _scenario("onnx_int8_static", model, X, X_calibration, threads)


def quantised(request: Request, quantise: Quantiser | None = None) -> StoredModel:
    """Return the INT8 form of the FP32 MatMul form, from the cache where it can.

    Its notes say `form`, `agreement` with FP32, executed `operators`, `providers`, and `warning` as `converted`.

    Raises:
        ScenarioUnavailable: as `onnx_int8`.
    """
    checked = evenly_spaced(request.rows, CHECKED_ROWS)
    mode = "dynamic" if request.calibration is None else digest(request.calibration)
    key = key_of("int8", mode, *_CHOICES.items(), MATMUL_OPERATORS, *ingredients(request.fitted, checked))
    stored = recall(key, lambda: _build(request, checked, quantise or quantise_with_ort))
    # A refusal is kept too: near the bound, noise in the profile must not make a scenario come and go.
    if reason := stored.notes.get(_OBJECTION):
        raise ScenarioUnavailable(reason)
    return stored


def quantise_with_ort(model: bytes, calibration: Any | None) -> bytes:
    """Quantise an ONNX model with ONNX Runtime's own tools; with calibration rows statically."""
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

    proto = onnx.load_from_string(model)
    with tempfile.TemporaryDirectory(prefix="hwperf-int8-") as folder, _quiet():
        path = Path(folder, "int8.onnx")
        # The default list of operators breaks the static quantisation of classifiers of more than two classes.
        common = {"op_types_to_quantize": list(MATMUL_OPERATORS), "per_channel": False, "weight_type": QuantType.QInt8}
        if calibration is None:
            quantize_dynamic(proto, path, reduce_range=False, **common)
        else:
            # Operators in the file, not quantise/dequantise pairs: from pairs some versions fuse weight-only operators.
            reader = Calibration(calibration, proto.graph.input[0].name)
            quantize_static(
                proto,
                path,
                reader,
                quant_format=QuantFormat.QOperator,
                activation_type=QuantType.QUInt8,
                reduce_range=False,
                **common,
            )
        return path.read_bytes()


def _scenario(name: str, model: Any, X: Any, X_calibration: Any | None, threads: int) -> OnnxScenario:
    check_threads(threads)
    fitted = examine(model, X)
    chosen = None if X_calibration is None else choose_rows(fitted, X, X_calibration)
    stored = quantised(Request(fitted=fitted, rows=fitted.rows(X), calibration=chosen))
    precision = "int8 dynamic" if chosen is None else "int8 static"
    own = {"precision": precision, **_CHOICES}
    if chosen is not None:
        own["calibration"] = describe(chosen)
    return scenario_of(name, fitted, stored, threads, own)


def _build(request: Request, checked: Any, quantise: Quantiser) -> tuple[bytes, Mapping[str, str]]:
    original = converted(request.fitted, request.rows)
    source = original.path.read_bytes()
    _require_quantisable(request.fitted, source, original.notes["form"])
    try:
        model = quantise(source, request.calibration)
        outputs, reference = (run_all(open_session(one, threads=1), checked) for one in (model, source))
        operators, originals = execute(model, checked), execute(source, checked)
    except refusals() as problem:
        raise ScenarioUnavailable(f"not quantisable: {request.fitted.kind}: {one_line(problem)}") from problem
    if reason := objection(operators, originals, same_outputs=bool((outputs == reference).all())):
        return model, {_OBJECTION: reason}
    drift = f"{agreement(request.fitted, outputs, reference)} from onnx_fp32"
    notes = {**original.notes, "agreement": drift, "operators": describe_operators(operators)}
    return model, notes


def _require_quantisable(fitted: Fitted, model: bytes, form: str) -> None:
    """Refuse what holds its weights in operators that no quantiser knows.

    Raises:
        ScenarioUnavailable: names these operators.
    """
    kinds = operators_in(model)
    if not set(kinds) & set(MATMUL_OPERATORS):
        held = ", ".join(kind for kind in kinds if kind in FLOAT_OPERATORS)
        found = f"only {held}" if held else "no operator with weights"
        raise ScenarioUnavailable(f"not quantisable: {found} in the ONNX form of {fitted.kind}")
    if form != MATMUL_FORM:
        raise ScenarioUnavailable(f"not quantisable: {fitted.kind} has no MatMul form")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the quantiser's advice, which it logs through the root logger, and let its errors through."""
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
