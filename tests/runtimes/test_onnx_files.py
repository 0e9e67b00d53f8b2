"""ONNX files of the user's: any inputs, checked before they are run; nothing outside of their folder is read."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import pytest
from fakes.fitted_models import data_of, fitted
from onnx import TensorProto, helper, numpy_helper

from pytest_hwperf.records.errors import ScenarioUnavailable, UsageProblem
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes import onnx_file as files
from pytest_hwperf.runtimes.onnx import onnx_fp32
from pytest_hwperf.runtimes.onnx_file import compared_file, onnx_file
from pytest_hwperf.runtimes.onnx_source import read_source
from pytest_hwperf.runtimes.sklearn_native import sklearn_fp32
from pytest_hwperf.scenario_contract import ScenarioContract

WEIGHTS = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
ROWS = np.random.default_rng(2).normal(size=(14, 4)).astype(np.float32)
IDS = np.arange(14) % 5
TABLE = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep what is found by trying models apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("models")))
        yield cache.folder()


def value(name: str, kind: int, shape: list[Any]) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes: list[Any], inputs: list[Any], output: Any, weights: dict[str, Any] | None = None) -> Any:
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "model", inputs, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def linear(rows: Any = None, kind: int = TensorProto.FLOAT, *, softmax: bool = False) -> Any:
    """Return a model of three scores for each row, by a matrix; `rows` at a time, or any number."""
    names = ["scores", "probabilities"][: 1 + softmax]
    nodes = [helper.make_node("MatMul", ["x", "w"], names[:1])]
    nodes += [helper.make_node("Softmax", names[:1], names[1:])] * softmax
    weights = WEIGHTS.astype(helper.tensor_dtype_to_np_dtype(kind))
    return model_of(nodes, [value("x", kind, [rows, 4])], value(names[-1], kind, [rows, 3]), {"w": weights})


def embedding() -> Any:
    """Return a model with two inputs: a row of a table by its number, plus the row itself, times the matrix."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["found"]),
        helper.make_node("Add", ["found", "x"], ["both"]),
        helper.make_node("MatMul", ["both", "w"], ["y"]),
    ]
    inputs = [value("ids", TensorProto.INT64, ["n"]), value("x", TensorProto.FLOAT, ["n", 4])]
    return model_of(nodes, inputs, value("y", TensorProto.FLOAT, ["n", 3]), {"table": TABLE, "w": WEIGHTS})


def text_model() -> Any:
    """Return a model that says the number of a text."""
    node = helper.make_node("LabelEncoder", ["text"], ["y"], domain="ai.onnx.ml")
    node.attribute.append(helper.make_attribute("keys_strings", ["cat", "dog", "owl"]))
    node.attribute.append(helper.make_attribute("values_int64s", [0, 1, 2]))
    model = model_of([node], [value("text", TensorProto.STRING, [None])], value("y", TensorProto.INT64, [None]))
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    return model


class InMemory(ScenarioContract):
    factory = staticmethod(onnx_file)
    wrong_model = 3
    test_a_fresh_process_needs_its_imports_alone: Any = None  # what it imports is what onnx_fp32 imports


class TestScores(InMemory):
    model = cached_property(lambda _: linear())
    X, labels = ROWS, (ROWS @ WEIGHTS).argmax(axis=1)


class TestProbabilities(InMemory):
    model = cached_property(lambda _: linear(softmax=True))
    X, labels = ROWS, (ROWS @ WEIGHTS).argmax(axis=1)


class TestSeveralInputs(InMemory):
    model = cached_property(lambda _: embedding())
    X: Any = MappingProxyType({"x": ROWS, "ids": IDS})
    labels = ((ROWS + TABLE[IDS]) @ WEIGHTS).argmax(axis=1)


class TestFixedRows(InMemory):
    model = cached_property(lambda _: linear(rows=7))
    X, labels, batch_sizes = ROWS, (ROWS @ WEIGHTS).argmax(axis=1), (7,)


class TestText(InMemory):
    model = cached_property(lambda _: text_model())
    X, labels = np.array(["cat", "owl", "dog"] * 4), np.array([0, 2, 1] * 4)


class TestFile(InMemory):
    factory = staticmethod(onnx_fp32)
    model_without_form = cached_property(lambda _: linear(kind=TensorProto.DOUBLE))
    X, labels = ROWS, (ROWS @ WEIGHTS).argmax(axis=1)

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.model = saved(linear(), tmp_path)


def saved(model: Any, folder: Path, **arguments: Any) -> Path:
    path = folder / "model.onnx"
    onnx.save(model, path, **arguments)
    return path


@pytest.mark.parametrize(
    ("model", "X", "output", "precision", "classifies"),
    [
        (linear(), ROWS, "scores", "float32", True),
        (linear(softmax=True), ROWS, "probabilities", "float32", True),
        (linear(kind=TensorProto.DOUBLE), ROWS.astype(np.float64), "scores", "float64", True),
        (embedding(), {"x": ROWS, "ids": IDS.tolist()}, "scores", "float32", True),
        (text_model(), ["cat", "dog"], "labels", "float32", True),
    ],
    ids=["scores", "probabilities", "double", "two inputs", "text"],
)
def test_what_a_model_says_is_found_by_trying_it(
    model: Any, X: Any, output: str, precision: str, *, classifies: bool
) -> None:
    scenario = onnx_file(model, X=X)
    assert (output, precision) == (scenario.conditions["output"], scenario.conditions["precision"])
    assert classifies is scenario.classifies
    assert scenario.model_bytes == len(model.SerializeToString())


def test_a_model_is_tried_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A fresh process must not have used the runtime before its memory and its cold start are measured."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(tmp_path))
    before = [onnx_file(text_model(), X=X).conditions for X in (["cat", "dog"], ["owl", "dog"])]
    monkeypatch.setattr(files, "_tried", None)
    assert before == [onnx_file(text_model(), X=X).conditions for X in (["cat", "dog"], ["owl", "dog"])]
    with pytest.raises(TypeError):
        onnx_file(text_model(), X=["owl"])


def test_values_are_no_classes() -> None:
    node = helper.make_node("Add", ["x", "x"], ["y"])
    model = model_of([node], [value("x", TensorProto.FLOAT, [None, 1])], value("y", TensorProto.FLOAT, [None, 1]))
    X = np.arange(6, dtype=np.float32).reshape(6, 1)
    scenario = onnx_file(model, X=X)
    predictor = scenario.load()
    assert not scenario.classifies
    assert [0, 2, 4] == predictor.labels(predictor.predict(predictor.batches(X, 3)[0])).tolist()


@pytest.mark.parametrize(
    ("model", "X", "sentence"),
    [
        (embedding(), ROWS, "has the inputs ids, x: give X as a mapping of them to arrays"),
        (embedding(), {"x": ROWS}, "has the inputs ids, x, and X holds x"),
        (embedding(), {"x": ROWS, "ids": IDS[:3]}, r"number of rows \(ids 3, x 14\): give one row of each"),
        (
            embedding(),
            {"x": ROWS, "ids": IDS + 0.5},
            "takes int64 as ids, and X holds float64 that is no such number: X",
        ),
        (embedding(), {"x": [["a"] * 4], "ids": [0]}, "takes float32 as x, and X holds <U1"),
        (embedding(), {"x": ROWS, "ids": IDS + 90}, "cannot be run on rows of X: .*out of data bounds"),
        (linear(), ROWS.T, r"takes x of the shape \(rows, 4\), and X holds \(4, 14\)"),
        (linear(), ROWS[0], r"takes x of the shape \(rows, 4\), and X holds \(4,\)"),
        (linear(rows=4), ROWS, "takes batches of 4 rows, and X has 14: give a multiple of it"),
    ],
)
def test_rows_that_do_not_fit_are_refused(model: Any, X: Any, sentence: str) -> None:
    with pytest.raises(UsageProblem, match=sentence):
        onnx_file(model, X=X)


def test_a_fixed_batch_says_what_is_allowed() -> None:
    predictor = onnx_file(linear(rows=7), X=ROWS).load()
    with pytest.raises(UsageProblem, match=r"takes batches of 7 rows and no others: give batch_size=7 \(hwperf"):
        predictor.batches(ROWS, 1)


def test_whole_numbers_stay_whole_numbers() -> None:
    """Identifiers read from a table of floats are taken; half a number is not."""
    predictor = onnx_file(embedding(), X={"x": ROWS, "ids": IDS}).load()
    batch = predictor.batches({"x": ROWS, "ids": IDS.astype(np.float64)}, 14)[0]
    assert np.int64 == batch["ids"].dtype
    assert IDS.tolist() == batch["ids"].tolist()


def test_another_precision_is_no_fp32() -> None:
    with pytest.raises(ScenarioUnavailable, match="has weights of float64: it is no FP32 model; onnx_file measures"):
        onnx_fp32(linear(kind=TensorProto.DOUBLE), X=ROWS)


def test_what_takes_estimators_skips_files(tmp_path: Path) -> None:
    with pytest.raises(ScenarioUnavailable, match="an ONNX model is no estimator"):
        sklearn_fp32(saved(linear(), tmp_path), X=ROWS)


def test_estimators_are_no_files() -> None:
    with pytest.raises(UsageProblem, match="not a RandomForestClassifier; onnx_fp32 converts a fitted estimator"):
        onnx_file(fitted("forest"), X=data_of("forest")[1])


def outside(*locations: str) -> Any:
    """Return a model whose weights are in a file; one tensor may name several."""
    model = linear()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for location in locations:
        tensor.external_data.add(key="location", value=location)
    return model


def test_weights_beside_the_file_count_as_the_model(tmp_path: Path) -> None:
    whole = read_source(saved(linear(), tmp_path))
    parted = saved(linear(), tmp_path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    source = read_source(parted)
    predictor = onnx_file(parted, X=ROWS).load()
    assert parted.stat().st_size + (tmp_path / "weights.bin").stat().st_size == source.bytes
    assert np.allclose(ROWS @ WEIGHTS, predictor.predict(predictor.batches(ROWS, 14)[0]), atol=1e-5)
    (tmp_path / "weights.bin").write_bytes(bytes(48))
    assert read_source(parted).sha256 not in {source.sha256, whole.sha256}


@pytest.mark.parametrize("location", ["/etc/hostname", "../secret", "deep/../../secret", "link"])
def test_weights_outside_of_the_folder_are_not_read(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(WEIGHTS.tobytes())
    (folder := tmp_path / "model").mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    for factory in (read_source, compared_file):
        with pytest.raises(UsageProblem, match=r"has weights outside of its folder \("):
            factory(saved(outside(location), folder))
        (folder / "beside").touch()
        for places in ((location, "beside"), ("beside", location)):  # which of them counts is the runtime's matter
            with pytest.raises(UsageProblem, match=r"has weights outside of its folder \("):
                factory(saved(outside(*places), folder))


def test_weights_are_found_wherever_a_graph_has_them(tmp_path: Path) -> None:
    """In a constant, in the branch of a condition, in a function, in a sparse tensor."""
    tensor = outside("../secret").graph.initializer[0]
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    branch = helper.make_graph([constant], "branch", [], [value("c", TensorProto.FLOAT, [4, 3])])
    condition = helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)
    function = helper.make_function("own", "F", [], ["c"], [constant], [helper.make_opsetid("", 17)])
    sparse = helper.make_sparse_tensor(tensor, numpy_helper.from_array(np.arange(12), "i"), [4, 3])
    models = [linear() for _ in range(4)]
    models[0].graph.node.append(constant)
    models[1].graph.node.append(condition)
    models[2].functions.append(function)
    models[3].graph.sparse_initializer.append(sparse)

    for model in models:
        with pytest.raises(UsageProblem, match="outside of its folder"):
            read_source(saved(model, tmp_path))


def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"has its weights in weights\.bin, and there is no such file"):
        read_source(saved(outside("weights.bin"), tmp_path))
    with pytest.raises(UsageProblem, match=r"names weights in files \(weights.bin\): give the Path"):
        onnx_file(outside("weights.bin"), X=ROWS)


@pytest.mark.parametrize("content", [b"", b"no model", bytes(range(99))])
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(UsageProblem, match=r"model\.onnx is no"):
        onnx_file(path, X=ROWS)
    with pytest.raises(UsageProblem, match=r"no.onnx is no file: give an ONNX file"):
        onnx_file(tmp_path / "no.onnx", X=ROWS)


def test_a_sequence_is_no_output() -> None:
    node = helper.make_node("SplitToSequence", ["x"], ["y"], axis=0)
    output = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    with pytest.raises(UsageProblem, match="has the list for 14 rows: one entry per row is needed"):
        onnx_file(model_of([node], [value("x", TensorProto.FLOAT, [None, 4])], output), X=ROWS)


def test_an_output_of_another_length_is_refused() -> None:
    node = helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
    with pytest.raises(UsageProblem, match=r"has the shape \(\) for 14 rows"):
        onnx_file(
            model_of([node], [value("x", TensorProto.FLOAT, [None, 4])], value("y", TensorProto.FLOAT, [])), X=ROWS
        )
