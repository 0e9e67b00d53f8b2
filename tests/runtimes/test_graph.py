"""Graphs as they are read from ONNX files: the work of a call by hand."""

import warnings
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from sklearn.neural_network import MLPClassifier

from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.ort import count_work_of, read_graph
from pytest_hwperf.stats.causes.roofline import count_work

F = TensorProto.FLOAT


OPSETS = (("", 17), ("ai.onnx.ml", 3))


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], *, opsets: Any = OPSETS, **weights: Any) -> Any:
    stored = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=list(starmap(helper.make_opsetid, opsets)), ir_version=9)


def value(name: str, *shape: int | str | None, kind: int = F) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def test_a_network_is_counted_with_the_measured_batch() -> None:
    """50 → 64 → 3 with 8 rows: two products with their sums, a Relu and a Softmax; a weight that nothing takes."""
    model = model_of(
        [
            *(helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "b"], ["c"])),
            *(helper.make_node("Relu", ["c"], ["d"]), helper.make_node("Gemm", ["d", "v", "u"], ["e"])),
            helper.make_node("Softmax", ["e"], ["y"]),
        ],
        [value("x", "rows", 50)],
        [value("y", "rows", 3)],
        w=np.ones((50, 64), "float32"),
        b=np.ones(64, "float32"),
        v=np.ones((64, 3), "float32"),
        u=np.ones(3, "float32"),
        unused=np.ones(1000, "float32"),
    )
    work = count_work(read_graph(model, 8))

    products = 2 * 8 * 50 * 64 + 2 * 8 * 64 * 3
    assert products + 8 * 64 + 8 * 64 + 8 * 3 + 5 * 8 * 3 == work.flops
    assert 4 * (50 * 64 + 64 + 64 * 3 + 3 + 8 * 50 + 8 * 3) == work.moved_bytes
    assert ({}, 5) == (work.uncounted, work.nodes)


def test_a_fixed_batch_stays_and_open_sizes_are_unknown() -> None:
    """A second open dimension is not the batch."""
    add = helper.make_node("Add", ["x", "x"], ["y"])
    fixed = read_graph(model_of([add], [value("x", 4, 2)], [value("y", 4, 2)]), 8)
    opened = count_work(read_graph(model_of([add], [value("x", None, "width")], [value("y", None, "width")]), 8))
    assert 4 * 2 == count_work(fixed).flops
    assert {"Add": 1, "x": 1, "y": 1} == opened.uncounted


@pytest.mark.parametrize(
    ("kind", "width"),
    [(F, 4), (TensorProto.INT64, 8), (TensorProto.FLOAT16, 2), (TensorProto.BOOL, 1), (TensorProto.INT4, 0.5)],
)
def test_elements_have_the_width_of_their_type(kind: int, width: float) -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = read_graph(model_of([node], [value("x", None, 6, kind=kind)], [value("y", None, 6, kind=kind)]), 2)
    assert 2 * (2 * 6 * width) == count_work(graph).moved_bytes


def test_texts_have_no_size() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    text = TensorProto.STRING
    graph = read_graph(model_of([node], [value("x", None, kind=text)], [value("y", None, kind=text)]), 2)
    assert ("x", "y") == graph.unknown


def test_shapes_are_known_behind_an_operator_that_keeps_them() -> None:
    """Inference of `onnx` stops at an Imputer: two of them, each with a comparison an element, and a Relu behind."""
    nodes = [
        helper.make_node("Imputer", ["x"], ["a"], domain="ai.onnx.ml", imputed_value_floats=[0.0]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Imputer", ["b"], ["c"], domain="ai.onnx.ml", imputed_value_floats=[0.0]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    work = count_work(read_graph(model_of(nodes, [value("x", None, 6)], [value("y", None, 6)]), 8))
    assert ({}, 4 * 8 * 6) == (work.uncounted, work.flops)


def test_trees_are_named_and_never_nothing() -> None:
    trees = helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml")
    model = model_of([trees], [value("x", None, 4)], [value("y", None, 2)])
    assert 1 == count_work(read_graph(model, 8)).uncounted["TreeEnsembleClassifier"]


def test_a_scenario_counts_its_own_file() -> None:
    X = np.random.default_rng(0).normal(size=(64, 20)).astype("float32")
    with warnings.catch_warnings(action="ignore"):
        model = MLPClassifier((32,), max_iter=1, random_state=0).fit(X, np.arange(64) % 3)
    scenario = onnx_fp32(model, X=X)
    assert scenario.work is not None
    work = scenario.work(16)

    products = 2 * 16 * 20 * 32 + 2 * 16 * 32 * 3
    assert {} == work.uncounted
    assert work.flops is not None
    assert work.moved_bytes is not None
    assert products < work.flops < products * 1.1
    assert 4 * (20 * 32 + 32 * 3 + 16 * 20) < work.moved_bytes


def test_a_model_that_is_not_valid_is_refused(tmp_path: Path) -> None:
    """Its operators are of a set that it does not name."""
    trees = helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml")
    model = model_of([trees], [value("x", None, 4)], [value("y", None, 2)], opsets=OPSETS[:1])
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(MeasurementError, match=r"^the work of this model cannot be counted: "):
        count_work_of(path, 8)


def test_shapes_that_contradict_each_other_are_unknown() -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = model_of([product], [value("x", None, 4)], [value("y", None, 2)], w=np.ones((3, 2), "float32"))
    assert {"MatMul": 1, "y": 1} == count_work(read_graph(model, 8)).uncounted
