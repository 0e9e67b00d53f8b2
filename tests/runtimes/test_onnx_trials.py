"""The trial of an ONNX file: what computed it, which batches alone it takes, and how its columns are called."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pytest_hwperf.records.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.onnx_file import onnx_file
from pytest_hwperf.runtimes.onnx_trial import precision_at_work
from pytest_hwperf.runtimes.profiles import Kernel

ROWS = np.random.default_rng(2).normal(size=(96, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep what is found by trying models apart from the user's own."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    return cache.folder()


def model_of(nodes: Sequence[Any], kind: int = TensorProto.FLOAT, **weights: Any) -> Any:
    """Return a model of rows `X` whose last node makes three scores."""
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    ports = [helper.make_tensor_value_info(name, kind, ["N", n]) for name, n in (("X", 4), ("s", 3))]
    graph = helper.make_graph(list(nodes), "g", ports[:1], ports[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reshaping(*shape: int) -> Any:
    """Return a linear model that brings its rows into a shape first."""
    nodes = [helper.make_node("Reshape", ["X", "shape"], ["r"]), helper.make_node("MatMul", ["r", "W"], ["s"])]
    return model_of(nodes, W=WEIGHTS, shape=np.array(shape))


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_the_only_batch_size_is_found_within_the_graph(rows: int) -> None:
    """The first axis of the input is free, and a Reshape behind it is not."""
    X = ROWS[: 64 + 20 * (rows == 7)]
    predictor = onnx_file(reshaping(rows, 4), X=X).load()
    batches = predictor.batches(X, rows)
    found = np.concatenate([predictor.labels(predictor.predict(batch)) for batch in batches])
    assert (X @ WEIGHTS).argmax(axis=1).tolist() == found.tolist()
    size = "1 row" if rows == 1 else f"{rows} rows"
    with pytest.raises(UsageProblem, match=f"takes batches of {size} and no others: give batch_size={rows} "):
        predictor.batches(X, 8)


def test_a_graph_that_takes_several_batch_sizes_takes_them_all(capfd: pytest.CaptureFixture[str]) -> None:
    """It splits its rows into halves of 3: 6 rows, or 12. A trial says nothing of the sizes that failed."""
    nodes = [
        helper.make_node("Reshape", ["X", "shape"], ["r"]),
        helper.make_node("Reshape", ["r", "back"], ["f"]),
        helper.make_node("MatMul", ["f", "W"], ["s"]),
    ]
    model = model_of(nodes, W=WEIGHTS, shape=np.array([-1, 6, 4]), back=np.array([-1, 4]))
    predictor = onnx_file(model, X=ROWS).load()
    assert [(12, 3)] * 8 == [predictor.predict(batch).shape for batch in predictor.batches(ROWS, 12)]
    assert "" == capfd.readouterr().err


def test_rows_at_fault_are_not_taken_for_a_batch_size() -> None:
    """One of 32 numbers is beyond the table: each other row would run alone."""
    node = helper.make_node("Gather", ["table", "X"], ["s"])
    port = helper.make_tensor_value_info("X", TensorProto.INT64, ["N"])
    output = helper.make_tensor_value_info("s", TensorProto.FLOAT, ["N", 3])
    graph = helper.make_graph([node], "g", [port], [output], [numpy_helper.from_array(WEIGHTS, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UsageProblem, match=r"cannot be run on rows of X: .*out of data bounds"):
        onnx_file(model, X=np.where(np.arange(64) == 31, 4, 0))


def linear(kind: int) -> Any:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    return model_of([helper.make_node("MatMul", ["X", "W"], ["s"])], kind, W=WEIGHTS.astype(dtype))


def computed_in(model: Any, folder: Path) -> set[str]:
    """Return the types that the products of a model have once ONNX Runtime has prepared it for this processor."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "prepared.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    graph = onnx.shape_inference.infer_shapes(onnx.load(options.optimized_model_filepath)).graph
    known = {one.name: one.type.tensor_type.elem_type for one in (*graph.input, *graph.value_info, *graph.output)}
    found = {known[node.output[0]] for node in graph.node if node.op_type == "MatMul"}
    return {str(helper.tensor_dtype_to_np_dtype(kind)) for kind in found}


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_the_precision_is_the_one_that_ran(kind: int, tmp_path: Path) -> None:
    """A processor without operators for float16 computes in float32; the weights are named where they differ."""
    model = linear(kind)
    (ran,) = computed_in(model, tmp_path)
    stored = str(helper.tensor_dtype_to_np_dtype(kind))
    expected = ran if ran == stored else f"{ran} (weights {stored})"
    assert expected == onnx_file(model, X=ROWS).conditions["precision"]


def test_float32_weights_that_are_multiplied_in_another_type_are_no_fp32_model() -> None:
    nodes = [
        helper.make_node("Cast", ["X"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Cast", ["W"], ["weights"], to=TensorProto.DOUBLE),
        helper.make_node("MatMul", ["wide", "weights"], ["product"]),
        helper.make_node("Cast", ["product"], ["s"], to=TensorProto.FLOAT),
    ]
    model = model_of(nodes, W=WEIGHTS)
    assert "float64" == onnx_file(model, X=ROWS).conditions["precision"]
    with pytest.raises(ScenarioUnavailable, match="computes in float64: it is no FP32 model; onnx_file measures it"):
        onnx_fp32(model, X=ROWS)


@pytest.mark.parametrize(
    ("weights", "kernels", "expected"),
    [
        (["FLOAT16"], [("Cast", "float16 float"), ("Conv", "float"), ("Relu", "float")], "float32 (weights float16)"),
        (["BFLOAT16"], [("Cast", "bfloat16 float"), ("Gemm", "float")], "float32 (weights bfloat16)"),
        (["FLOAT16"], [("MatMul", "float16"), ("Softmax", "float")], "float16"),
        (["FLOAT16"], [("MatMul", "float16"), ("Gemm", "float")], "float16, float32"),
        (["FLOAT16"], [("Add", "float")], "float32 (weights float16)"),
        (["FLOAT", "INT8"], [("QLinearMatMul", "int8 float"), ("Softmax", "float")], "float32, int8"),
        (["FLOAT", "INT8"], [("DequantizeLinear", "int8 float"), ("MatMul", "float")], "float32 (weights int8)"),
        (["FLOAT", "INT64"], [("Gather", "int64 float"), ("MatMul", "float")], "float32"),
        ([], [("TreeEnsembleClassifier", "float int64")], "float32"),
        ([], [("LabelEncoder", "string int64")], "float32"),
    ],
)
def test_operators_with_weights_decide_the_precision(
    weights: list[str], kernels: list[tuple[str, str]], expected: str
) -> None:
    found = [Kernel(operator=name, types=frozenset(types.split())) for name, types in kernels]
    assert expected == precision_at_work(weights, found)


def probabilities_of(estimator: Any, X: Any, *, zipmap: bool) -> Any:
    """Return a converted classifier whose first output are its probabilities."""
    import skl2onnx

    model = skl2onnx.to_onnx(estimator, X[:1], options={"zipmap": zipmap})
    outputs = list(model.graph.output)
    model.graph.ClearField("output")
    columns = outputs[1]
    if zipmap:  # the tensor behind it comes first
        inner = next(node.input[0] for node in model.graph.node if node.op_type == "ZipMap")
        columns = helper.make_tensor_value_info(inner, TensorProto.FLOAT, ["N", len(estimator.classes_)])
    model.graph.output.extend([columns, *outputs[1:]] if zipmap else [columns])
    return model


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("names", [[3, 7], [-1, 1], ["no", "yes"]], ids=str)
@pytest.mark.parametrize("kind", [DecisionTreeClassifier, LogisticRegression])
def test_labels_that_the_file_names_are_its_own(kind: type[Any], names: list[Any], *, zipmap: bool) -> None:
    """By a classifier of ai.onnx.ml, or by a ZipMap beside the probabilities."""
    y = np.array(names)[(ROWS[:, 0] > 0).astype(int)]
    estimator = kind().fit(ROWS, y)
    predictor = onnx_file(probabilities_of(estimator, ROWS, zipmap=zipmap), X=ROWS).load()
    outputs = predictor.predict(predictor.batches(ROWS, 96)[0])
    assert estimator.predict(ROWS).tolist() == predictor.labels(outputs).tolist()
    assert predictor.unnamed_columns(outputs) is None


def test_positions_of_columns_are_told_as_such() -> None:
    predictor = onnx_file(linear(TensorProto.FLOAT), X=ROWS).load()
    outputs = predictor.predict(predictor.batches(ROWS, 8)[0])
    assert 3 == predictor.unnamed_columns(outputs)
