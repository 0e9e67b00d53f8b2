"""Matrix products of an ONNX graph, written so that other runtimes than ONNX Runtime read their quantised form."""

from collections.abc import Iterator
from typing import Any


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
