"""LiteRT on the processor: a `.tflite` file of the user's, in FP32 or in INT8."""

import hashlib
import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.host.files import is_file
from pytest_hwperf.records.contracts import Predictor, Scenario
from pytest_hwperf.records.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import AS_TRAINED
from pytest_hwperf.runtimes.cache import key_of
from pytest_hwperf.runtimes.estimators import (
    LITERT_IDENTIFIER,
    Output,
    is_litert,
    is_onnx,
    one_line,
    require_estimator,
)
from pytest_hwperf.runtimes.onnx_file import file_predictor, kept_output, output_kind
from pytest_hwperf.runtimes.onnx_source import ModelInputs
from pytest_hwperf.runtimes.onnx_trial import TRIAL_ROWS, digest_named, first_rows
from pytest_hwperf.runtimes.own_call import ESTIMATOR_ERRORS
from pytest_hwperf.runtimes.threads import uncalibrated

WEIGHTS_ONLY = " weights"  # of a layer that computes in float, with weights stored as something smaller
_UNREADABLE = (AttributeError, IndexError, TypeError, ValueError, struct.error)  # of a file that is damaged
# Layer → which of its inputs are the rows and the weights.
_LAYERS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D", "BATCH_MATMUL"), (0, 1)),
    "TRANSPOSE_CONV": (2, 1),
}
_INTEGERS = ("INT4", "INT8", "UINT8", "INT16")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteRtModel:
    """A model that was read once."""

    content: bytes
    name: str  # for sentences
    layers: tuple[str, ...]  # how each layer with weights computes: "float32", "int8 static", "float16 weights", …

    @property
    def sha256(self) -> str:
        """Of its content."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or an output, as ONNX Runtime describes one; rows of a quantised one are given as numbers."""

    name: str
    type: str
    shape: list[int | None]
    index: int
    kind: Any  # NumPy's type of what the interpreter takes
    scale: float  # 0.0 where it is not quantised
    zero_point: int

    def quantised(self, values: Any) -> Any:
        """Turn numbers into what the interpreter takes."""
        import numpy as np

        if not self.scale:
            return values
        limits = np.iinfo(self.kind)
        steps = np.rint(values / np.float32(self.scale)) + self.zero_point
        return np.clip(steps, limits.min, limits.max).astype(self.kind)

    def numbers(self, values: Any) -> Any:
        """Turn what the interpreter returns into numbers."""
        import numpy as np

        if not self.scale:
            return values
        return (values.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


class LiteRtSession:
    """A model with an interpreter for each thread that calls it, since one computes one thing at a time."""

    def __init__(self, model: LiteRtModel, threads: int) -> None:
        self._model = model
        self._threads = threads
        self._own = threading.local()
        interpreter = self._interpreter()
        self.inputs = [_port(one) for one in interpreter.get_input_details()]
        self._output = _port(interpreter.get_output_details()[0])

    def predict(self, batch: Mapping[str, Any]) -> Any:
        """Return the first output for a batch; quantised inputs and outputs are converted within the call."""
        own = self._own
        interpreter = self._interpreter()
        rows = len(next(iter(batch.values())))
        if own.rows != rows:  # only where the batch size changes
            for port in self.inputs:
                interpreter.resize_tensor_input(port.index, batch[port.name].shape, strict=True)
            interpreter.allocate_tensors()
            own.rows = rows
        for port in self.inputs:
            interpreter.set_tensor(port.index, port.quantised(batch[port.name]))
        interpreter.invoke()
        return self._output.numbers(interpreter.get_tensor(self._output.index))

    def _interpreter(self) -> Any:
        found = getattr(self._own, "interpreter", None)
        if found is None:
            from ai_edge_litert.interpreter import Interpreter

            found = Interpreter(model_content=self._model.content, num_threads=self._threads)
            found.allocate_tensors()
            self._own.interpreter, self._own.rows = found, None
        return found


def read_litert(model: Any) -> LiteRtModel:
    if isinstance(model, bytes):
        content, name = model, "the LiteRT model"
    else:
        path, name = Path(os.fspath(model)), str(model)
        if not is_file(path):
            raise UsageProblem(f"{path} is no file: give a .tflite file")
        content = path.read_bytes()
    if content[4:8] != LITERT_IDENTIFIER:
        raise UsageProblem(f"{name} is no LiteRT model: it lacks the identifier TFL3")
    try:
        layers = tuple(_layers(content))
    except _UNREADABLE as error:
        raise UsageProblem(f"{name} is no LiteRT model: it cannot be read ({error})") from error
    return LiteRtModel(content=content, name=name, layers=layers)


def _layers(content: bytes) -> Iterator[str]:
    """Yield how each layer with weights computes."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(content, 0)
    operators = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    types = {value: name for name, value in vars(schema.TensorType).items() if isinstance(value, int)}
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        kinds = [types.get(graph.Tensors(tensor).Type(), "unknown") for tensor in range(graph.TensorsLength())]
        stored: dict[int, str] = {}  # tensor that an operator has made of weights → their type in the file
        for one in map(graph.Operators, range(graph.OperatorsLength())):
            code = model.OperatorCodes(one.OpcodeIndex())
            name = operators.get(max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), "")
            inputs: Any = one.InputsAsNumpy() if one.InputsLength() else ()
            if name == "DEQUANTIZE" and _is_constant(model, graph, int(inputs[0])):
                stored[one.Outputs(0)] = kinds[int(inputs[0])]
            elif name in _LAYERS:
                rows, weights = (int(inputs[place]) for place in _LAYERS[name])
                yield _computed(kinds[rows], kinds[weights], stored.get(weights, ""))


def _computed(rows: str, weights: str, stored: str) -> str:
    if stored:
        return f"{stored.lower()}{WEIGHTS_ONLY}"
    if weights in _INTEGERS:
        return f"{weights.lower()} {'static' if rows in _INTEGERS else 'dynamic'}"
    return weights.lower()


def _is_constant(model: Any, graph: Any, tensor: int) -> bool:
    return bool(model.Buffers(graph.Tensors(tensor).Buffer()).DataLength())


def _port(details: Mapping[str, Any]) -> Port:
    """Describe an input or an output by what the interpreter tells of it."""
    import numpy as np

    scale, zero_point = details["quantization"]
    signature: Sequence[int] = details["shape_signature"] if len(details["shape_signature"]) else details["shape"]
    kind = np.dtype(details["dtype"])
    name = "float" if scale or kind == np.float32 else {"float64": "double"}.get(kind.name, kind.name)
    return Port(
        name=details["name"],
        type=f"tensor({name})",
        shape=[int(size) if size >= 0 else None for size in signature],
        index=details["index"],
        kind=kind,
        scale=float(scale),
        zero_point=int(zero_point),
    )


def _scenario(name: str, refuse: Callable[[LiteRtModel], None], given: Any, X: Any, threads: int) -> Scenario:
    _require_litert(given)
    model = read_litert(given)
    refuse(model)
    output = _output_of(model, X)

    def load() -> Predictor:
        session = LiteRtSession(model, threads)
        return file_predictor(ModelInputs(model=model.name, inputs=session.inputs), session.predict, output)

    return Scenario(
        name=name,
        imports=("ai_edge_litert.interpreter",),
        conditions={
            "threads": str(threads),
            "precision": ", ".join(sorted(set(model.layers))) or "float32",
            "output": output,
            "quantisation": "within the call",
        },
        context={"model": model.sha256[:16], **AS_TRAINED},
        model_bytes=len(model.content),
        size_source="tflite file",
        classifies=output != "values",
        load=load,
    )


def _require_litert(model: Any) -> None:
    """Refuse what is no LiteRT model, and anything where LiteRT is missing."""
    require("litert", "LiteRT is not installed", "ai_edge_litert", error=ScenarioUnavailable)
    if is_litert(model):
        return
    if not is_onnx(model):
        require_estimator(model)  # what is no model at all is a mistake
    kind = "an ONNX model" if is_onnx(model) else type(model).__name__
    raise ScenarioUnavailable(f"LiteRT takes .tflite files, and this is {kind}: convert it with the tools of LiteRT")


def _require_fp32(model: LiteRtModel) -> None:
    if others := sorted(set(model.layers) - {"float32"}):
        raise ScenarioUnavailable(f"{model.name} is no FP32 model: its layers compute with {', '.join(others)}")


def _require_int8(model: LiteRtModel) -> None:
    executed = ", ".join(f"{model.layers.count(one)} × {one}" for one in sorted(set(model.layers)))
    integer = sum(one.startswith(("int", "uint")) and not one.endswith(WEIGHTS_ONLY) for one in model.layers)
    if integer and 2 * integer >= len(model.layers):
        return
    if any(one.endswith(WEIGHTS_ONLY) for one in model.layers):
        raise ScenarioUnavailable(state("weight-only", operator="a layer after DEQUANTIZE", executed=executed))
    why = f"the layers of {model.name} are {executed}" if executed else f"{model.name} has no layer with weights"
    raise ScenarioUnavailable(state("no int8 form", why=why))


litert_fp32 = uncalibrated(_scenario, "litert_fp32", _require_fp32)
litert_int8 = uncalibrated(_scenario, "litert_int8", _require_int8)


def _output_of(model: LiteRtModel, X: Any) -> Output:
    """Try a model on the first rows of `X`, and return what its first output says of each."""

    def tried() -> Output:
        try:
            session = LiteRtSession(model, threads=1)
            inputs = ModelInputs(model=model.name, inputs=session.inputs)
            batch = inputs.batches(X, inputs.fixed_rows or TRIAL_ROWS)[0]
            outputs = session.predict(batch)
        except ESTIMATOR_ERRORS as problem:
            raise UsageProblem(f"{model.name} cannot be run on rows of X: {one_line(problem)}") from problem
        return output_kind(model.name, outputs, len(next(iter(batch.values()))))

    key = (model.sha256, digest_named(first_rows(X)), version("ai-edge-litert"), version("pytest-hwperf"))
    return kept_output(key_of("litert", *key), tried)
