"""A fitted model as an ONNX model, checked against the model itself and kept for the next time."""

import contextlib
import io
import logging
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.errors import HwperfError, ScenarioUnavailable
from pytest_hwperf.records.messages import state
from pytest_hwperf.scenarios.cache import CachedModel, key_of, load_or_build
from pytest_hwperf.scenarios.converters import (
    DOMAIN_VERSION,
    libraries_of,
    refusal,
    register_converters,
    registered,
    versions_of,
)
from pytest_hwperf.scenarios.estimators import FittedEstimator, FittedModel, last_step, nested_estimators, one_line
from pytest_hwperf.scenarios.ort import PROVIDER, open_session, rejection_errors, run_all, runtime_version
from pytest_hwperf.scenarios.rows import digest_rows
from pytest_hwperf.scenarios.torch_modules import evaluating, untraced_compiler

MATMUL_FORM, TORCH_FORM = "MatMul", "torch.onnx"
MATMUL_OPERATORS = ("Conv", "Gemm", "MatMul")  # what can be quantised
_LIBRARIES = ("skl2onnx", "onnx", "scikit-learn", "numpy", "pytest-hwperf")
_TORCH_LIBRARIES = ("torch", "onnxscript", "onnx", "onnxruntime", "numpy", "pytest-hwperf")
_REVISION, _TORCH_REVISION = 2, 1  # of what is cached: raise it when a conversion here comes out differently
# Without these the same model is written as MatMul and Add, which can be quantised.
_AVOIDED = frozenset({"LinearClassifier", "LinearRegressor", "Scaler"})
_GROSS_FLIPS = 0.01  # of the rows; rounding to float32 moves fewer across a boundary
_GROSS_PROBABILITY = 0.01  # rounding to float32 moves a probability by 1e-6, if the model is not ill-conditioned
_GROSS_ERROR = 1e-3  # of the largest value

Converter = Callable[[FittedEstimator, frozenset[str]], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Distance of outputs from those of a reference, on the same rows."""

    symbol: str  # "|Δp|" of probabilities, "|Δscore|" of scores or "|Δ|" of values; "" for labels
    largest: float
    differing: int  # labels that differ
    gross: bool
    n: int  # rows

    def __str__(self) -> str:
        parts = [f"max {self.symbol} {self.largest:.2g}"] if self.symbol else []
        if self.symbol != "|Δ|":
            parts.append(f"{self.differing} of {self.n} labels differ")
        return ", ".join(parts) + (f" on {self.n} rows" if self.symbol == "|Δ|" else "")


def convert_model(fitted: FittedModel, rows: Any, convert: Converter | None = None) -> CachedModel:
    """Return the FP32 ONNX form of a model, with `fitted.output` as its only output, from the cache if possible.

    Its notes are `form`, `parity` with the model on evenly spaced rows, `providers`, and `warning` where the outputs
    disagree grossly.
    """
    checked = fitted.checked_rows(rows)
    if isinstance(fitted, FittedEstimator):
        kind, converted = "fp32", partial(_convert_in_some_form, fitted, convert or convert_with_skl2onnx)
    else:
        require("torch", "the ONNX form of a module needs onnxscript", "onnxscript", error=ScenarioUnavailable)
        kind, converted = "torch", partial(_export, fitted, checked)
    key = key_of(kind, *cache_key_parts(fitted, checked))
    return load_or_build(key, lambda: _checked(fitted, checked, converted()))


def cache_key_parts(fitted: FittedModel, checked: Any) -> tuple[object, ...]:
    """Return everything that a conversion depends on; the rows belong to it, because the notes describe them.

    So does the architecture: the notes name the executed operators.
    """
    rows, machine = digest_rows(checked), platform.machine()
    if not isinstance(fitted, FittedEstimator):
        versions = [f"{name} {version(name)}" for name in _TORCH_LIBRARIES]
        return (_TORCH_REVISION, fitted.digest, fitted.output, rows, machine, *versions)
    versions = [runtime_version(), *(f"{name} {version(name)}" for name in _LIBRARIES), machine]
    versions.extend(versions_of(libraries_of(nested_estimators(fitted.model))))
    return (_REVISION, fitted.digest, fitted.width, fitted.output, sorted(_AVOIDED), rows, *versions, *registered())


def agreement(fitted: FittedModel, outputs: Any, reference: Any) -> Agreement:
    """Compare outputs with reference outputs of the same rows."""
    import numpy as np

    if fitted.output not in {"probabilities", "scores"}:
        outputs, reference = fitted.labels(outputs), fitted.labels(reference)
    if np.shape(outputs) != np.shape(reference):
        shapes = f"{np.shape(outputs)} instead of {np.shape(reference)}"
        raise _refusal(fitted, f"{fitted.kind} converts, but gives outputs of shape {shapes}")
    n = len(reference)
    if fitted.output == "labels":
        differing = int((outputs != reference).sum())
        return Agreement(symbol="", largest=0.0, differing=differing, gross=differing > _GROSS_FLIPS * n, n=n)
    largest = float(np.abs(np.asarray(outputs, dtype=np.float64) - reference).max())
    if fitted.output == "values":
        gross = not largest <= _GROSS_ERROR * float(np.abs(reference).max())  # so that NaN is gross
        return Agreement(symbol="|Δ|", largest=largest, differing=0, gross=gross, n=n)
    differing = int((fitted.labels(outputs) != fitted.labels(reference)).sum())
    scores = fitted.output == "scores"
    most = _GROSS_ERROR * float(np.abs(reference).max()) if scores else _GROSS_PROBABILITY
    gross = differing > _GROSS_FLIPS * n or not largest <= most  # so that NaN is gross
    return Agreement(symbol="|Δscore|" if scores else "|Δp|", largest=largest, differing=differing, gross=gross, n=n)


def parity_notes(fitted: FittedModel, outputs: Any, rows: Any, form: str, *, exact: bool = True) -> dict[str, str]:
    """Return how far outputs are from the model's own, and a `warning` where a form that is exact disagrees grossly."""
    parity = agreement(fitted, outputs, fitted.predict(rows))
    notes = {"parity": f"{parity} from {fitted.library}"}
    if exact and parity.gross:
        notes["warning"] = f"the {form} disagrees with {fitted.library}: {parity}"
    return notes


def convert_with_skl2onnx(fitted: FittedEstimator, avoided: frozenset[str]) -> bytes:
    """Write the estimator as ONNX without the `avoided` operators, reduced to the one output."""
    import numpy as np
    import skl2onnx
    from skl2onnx.helpers.onnx_helper import select_model_inputs_outputs

    row = np.zeros((1, fitted.width), dtype=np.float32)
    # Without an entry of its own the end of a pipeline gets ZipMap, a list of dictionaries per call; a classifier
    # without probabilities does not even know the option.
    options = {id(last_step(fitted.model)): {"zipmap": False} if fitted.output == "probabilities" else {}}
    with warnings.catch_warnings(action="ignore"):  # of the converter about its own dependencies
        boosts = register_converters(nested_estimators(fitted.model))
        opset = {"": skl2onnx.__max_supported_opset__, "ai.onnx.ml": DOMAIN_VERSION} if boosts else None
        model = skl2onnx.to_onnx(fitted.model, row, options=options, black_op=set(avoided) or None, target_opset=opset)
        names = [output.name for output in model.graph.output]
        wanted = "probabilities" if fitted.output == "probabilities" else names[0]
        model = select_model_inputs_outputs(model, outputs=[wanted])
    _drop_unused_weights(model)
    content: bytes = model.SerializeToString()
    return content


def operators_in(model: bytes) -> tuple[str, ...]:
    """Return the kinds of operators in an ONNX graph, in the order of their first use."""
    import onnx

    return tuple(dict.fromkeys(node.op_type for node in onnx.load_from_string(model).graph.node))


def operators_with_weights(model: bytes) -> frozenset[str]:
    """Return the kinds of operators in an ONNX graph that take a constant matrix of floats, as an LSTM does."""
    import onnx

    graph, floats = onnx.load_from_string(model).graph, (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
    matrices = {
        one.name for one in graph.initializer if one.data_type in floats and sum(size > 1 for size in one.dims) > 1
    }
    return frozenset(node.op_type for node in graph.node if matrices.intersection(node.input))


def _export(fitted: FittedModel, checked: Any) -> tuple[bytes, str]:
    try:
        return export_with_torch(fitted, checked), TORCH_FORM
    except rejection_errors() as problem:
        facts = {"model": fitted.kind, "form": "ONNX", "converter": f"{TORCH_FORM} {version('torch')}"}
        raise ScenarioUnavailable(state("does not convert", **facts, why=one_line(problem))) from problem


def export_with_torch(fitted: FittedModel, checked: Any) -> bytes:
    """Write a module as ONNX by PyTorch's exporter, the number of rows left open."""
    import numpy as np
    import torch

    two = torch.from_numpy(np.resize(checked, (2, *checked.shape[1:])))  # of one row the exporter makes a constant
    with evaluating(fitted.model), untraced_compiler(), _quiet():
        program = torch.onnx.export(
            fitted.model,
            (two,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("n")},),
            input_names=["rows"],
            output_names=["outputs"],
            verbose=False,
        )
    model = program.model_proto
    model.graph.ClearField("value_info")  # of weights too, which a quantiser replaces by others
    content: bytes = model.SerializeToString()
    return content


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide what PyTorch's exporter says of its steps, and of packages that it does without."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def _refusal(fitted: FittedModel, sentence: str) -> HwperfError:
    return refusal(fitted, sentence) if isinstance(fitted, FittedEstimator) else ScenarioUnavailable(sentence)


def _checked(fitted: FittedModel, checked: Any, converted: tuple[bytes, str]) -> tuple[bytes, Mapping[str, str]]:
    """Run a converted model, and return it with its notes."""
    model, form = converted
    try:
        outputs = run_all(open_session(model, threads=1), checked)
    except rejection_errors() as problem:
        sentence = f"{fitted.kind} converts, but ONNX Runtime does not run it: {one_line(problem)}"
        raise _refusal(fitted, sentence) from problem
    return model, {"form": form, "providers": PROVIDER, **parity_notes(fitted, outputs, checked, "ONNX form")}


def _convert_in_some_form(fitted: FittedEstimator, convert: Converter) -> tuple[bytes, str]:
    """Prefer the MatMul form; the converter raises where there is none, and trees come out as they always do."""
    try:
        model = convert(fitted, _AVOIDED)
        if set(operators_in(model)) & set(MATMUL_OPERATORS):
            return model, MATMUL_FORM
    except rejection_errors():
        pass  # the default form decides whether it converts at all, and gives the reason if not
    try:
        return convert(fitted, frozenset()), "default"
    except rejection_errors() as problem:
        facts = {"model": fitted.kind, "form": "ONNX", "converter": f"skl2onnx {version('skl2onnx')}"}
        raise refusal(fitted, state("does not convert", **facts, why=one_line(problem)), problem) from problem


def _drop_unused_weights(model: Any) -> None:
    used = set(_inputs(model.graph))
    for weights in [weights for weights in model.graph.initializer if weights.name not in used]:
        model.graph.initializer.remove(weights)


def _inputs(graph: Any) -> Iterator[str]:
    """Yield the inputs of the nodes of a graph; the body of a loop reads from outside too."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _inputs(attribute.g)
