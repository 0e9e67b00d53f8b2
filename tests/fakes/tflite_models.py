"""Small LiteRT models of one layer, written with the schema that LiteRT ships: float, and quantised in each way."""

from typing import Any

FLOAT, HALF, INT8 = "FLOAT32", "FLOAT16", "INT8"


def linear(
    weights: Any,
    *,
    activations: str = FLOAT,
    stored: str = FLOAT,
    rows: int | None = None,
    scales: tuple[float, float] = (0.05, 0.1),
) -> bytes:
    """Return a model that multiplies rows by weights, shape (columns, scores).

    Args:
        weights: of the layer.
        activations: type of its input and output: FLOAT or INT8.
        stored: type of the weights in the file: FLOAT, INT8, or HALF, which is turned into floats by an operator.
        rows: that it takes at a time; None for any number.
        scales: of a quantised input and output.
    """
    import flatbuffers
    import numpy as np
    from ai_edge_litert import schema_py_generated as schema

    columns, scores = weights.shape
    factor = float(np.abs(weights).max() / 127)
    raw = {FLOAT: weights.T.astype(np.float32), HALF: weights.T.astype(np.float16)}
    raw[INT8] = np.round(weights.T / factor).astype(np.int8)
    buffers, tensors = [schema.BufferT()], []

    def tensor(name: str, kind: str, shape: list[int], *, data: Any = None, scale: float = 0.0) -> int:
        one = schema.TensorT()
        one.name, one.type, one.shape = name, getattr(schema.TensorType, kind), shape
        if rows is None and data is None and name != "floats":
            one.shapeSignature = [-1, *shape[1:]]
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), dtype=np.uint8)
            buffers.append(buffer)
            one.buffer = len(buffers) - 1
        if scale:
            one.quantization = schema.QuantizationParametersT()
            one.quantization.scale, one.quantization.zeroPoint = [scale], [0]
        tensors.append(one)
        return len(tensors) - 1

    quantised = activations == INT8
    count = rows or 1
    x = tensor("x", activations, [count, columns], scale=scales[0] if quantised else 0.0)
    w = tensor("w", stored, [scores, columns], data=raw[stored], scale=factor if stored == INT8 else 0.0)
    operators, codes = [], [_code(schema, "FULLY_CONNECTED", 12)]
    if stored == HALF:
        codes.append(_code(schema, "DEQUANTIZE", 3))
        floats = tensor("floats", FLOAT, [scores, columns])
        operators.append(_operator(schema, 1, [w], [floats]))
        w = floats
    y = tensor("y", activations, [count, scores], scale=scales[1] if quantised else 0.0)
    layer = _operator(schema, 0, [x, w, -1], [y])
    layer.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    layer.builtinOptions = schema.FullyConnectedOptionsT()
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs, graph.operators = tensors, [x], [y], [*operators, layer]
    model = schema.ModelT()
    model.version, model.subgraphs, model.buffers, model.operatorCodes = 3, [graph], buffers, codes
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _code(schema: Any, name: str, version: int) -> Any:
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
    code.version = version
    return code


def _operator(schema: Any, code: int, inputs: list[int], outputs: list[int]) -> Any:
    one = schema.OperatorT()
    one.opcodeIndex, one.inputs, one.outputs = code, inputs, outputs
    return one
