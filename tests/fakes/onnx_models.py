"""Small ONNX files, made node by node."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np  # noqa: TID253 - only tests import this
import onnx  # noqa: TID253 - only tests import this
from onnx import TensorProto, helper, numpy_helper  # noqa: TID253 - only tests import this

Node = tuple[str, Sequence[str], str]  # operator, inputs and output


def save_onnx(
    path: Path | str,
    nodes: Sequence[Node],
    inputs: Mapping[str, int],
    outputs: Mapping[str, int],
    **weights: Any,
) -> str:
    """Write a model of rows of float32; inputs and outputs have so many columns."""
    given, made = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, columns]) for name, columns in of.items()]
        for of in (inputs, outputs)
    )
    graph = helper.make_graph(
        [helper.make_node(operator, taken, [result]) for operator, taken, result in nodes],
        "small",
        given,
        made,
        [numpy_helper.from_array(np.asarray(values, dtype=np.float32), name) for name, values in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return str(path)
