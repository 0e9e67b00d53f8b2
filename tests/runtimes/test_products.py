"""Matrix products are written in another way, and compute the same."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, load_from_string, numpy_helper

from pytest_hwperf.runtimes.ort import open_session, run_all
from pytest_hwperf.runtimes.quantise import without_gemm

ROWS = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
WEIGHTS = np.arange(12, dtype="float32").reshape(4, 3)
BIAS = np.array([1, 2, 3, 4], "float32")


def model_of(*inputs: str, weights: Any = WEIGHTS, bias: Any = BIAS, **attributes: Any) -> bytes:
    node = helper.make_node("Gemm", ["rows", *inputs], ["y"], name="layer", **attributes)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [None, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 4])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def kinds(model: bytes) -> list[str]:
    return [node.op_type for node in load_from_string(model).graph.node]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (model_of("weights", "bias", transB=1), ["MatMul", "Add"]),
        (model_of("weights", "bias", weights=WEIGHTS.T.copy()), ["MatMul", "Add"]),
        (model_of("weights", transB=1), ["MatMul"]),
        (model_of("weights", "bias", transB=1, alpha=2.0), ["Gemm"]),
        (model_of("weights", "bias", transB=1, beta=0.5), ["Gemm"]),
    ],
)
def test_a_gemm_is_a_product_and_a_sum(given: bytes, expected: list[str]) -> None:
    written = without_gemm(given)
    assert expected == kinds(written)
    outputs, reference = (run_all(open_session(one, threads=1), ROWS) for one in (written, given))
    assert np.allclose(reference, outputs, atol=1e-5)


def test_weights_that_nothing_needs_any_more_are_left_out() -> None:
    stored = [one.name for one in load_from_string(without_gemm(model_of("weights", transB=1))).graph.initializer]
    assert ["weights transposed"] == stored
