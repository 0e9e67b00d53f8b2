"""Numbers in the type of an input: what it cannot hold is refused by its place and value, and fractions are rounded."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.runtimes import cache
from pytest_hwperf.runtimes.number_types import converted, first_changed
from pytest_hwperf.runtimes.onnx_file import onnx_file


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep what is found by trying models apart from the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWPERF_CACHE_DIR", str(tmp_path_factory.mktemp("models")))
        yield cache.folder()


def identity(kind: int, inputs: int = 1) -> Any:
    """Return a model that gives its first input back."""
    names = [f"x{n}" for n in range(inputs)]
    ports = [helper.make_tensor_value_info(name, kind, ["N", 1]) for name in names]
    output = helper.make_tensor_value_info("y", kind, ["N", 1])
    node = helper.make_node("Identity", ["x0"], ["y"])
    graph = helper.make_graph([node], "g", ports, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("kind", "number", "sentence"),
    [
        (TensorProto.FLOAT16, np.float64(80000), r"takes float16 as x0, .* X\[2, 0\] = 80000\.0 would become inf"),
        (TensorProto.FLOAT16, np.float32(2049), r"X\[2, 0\] = 2049\.0 would become 2048\.0"),
        (TensorProto.FLOAT, np.float64(1e39), r"X\[2, 0\] = 1e\+39 would become inf"),
        (TensorProto.FLOAT, np.int64(16777217), r"X\[2, 0\] = 16777217 would become 16777216\.0"),
        (TensorProto.FLOAT, np.float64(16777217), r"X\[2, 0\] = 16777217\.0 would become 16777216\.0"),
        (TensorProto.DOUBLE, np.int64(2**53 + 1), r"X\[2, 0\] = 9007199254740993 would become 9007199254740992\.0"),
        (TensorProto.DOUBLE, np.int64(2**63 - 1), r"X\[2, 0\] = 9223372036854775807 would become"),
        (TensorProto.INT64, np.float64(0.5), r"X\[2, 0\] = 0\.5 would become 0"),
        (TensorProto.INT64, np.float64("nan"), r"X\[2, 0\] = nan would become"),
        (TensorProto.INT64, np.float64(2.0**63), r"X\[2, 0\] = 9\.2233720368"),
        (TensorProto.INT64, np.uint64(2**63), r"X\[2, 0\] = 9223372036854775808 would become -9223372036854775808"),
        (TensorProto.INT32, np.int64(2**31), r"X\[2, 0\] = 2147483648 would become -2147483648"),
        (TensorProto.UINT8, np.int64(-1), r"X\[2, 0\] = -1 would become 255"),
        (TensorProto.BOOL, np.int64(2), r"X\[2, 0\] = 2 would become True"),
    ],
)
def test_a_number_that_the_type_cannot_hold_is_refused(kind: int, number: Any, sentence: str) -> None:
    """Nothing warns on the way: a suite may turn warnings into errors."""
    rows = np.array([[0], [1], [number]], dtype=np.asarray(number).dtype)
    with warnings.catch_warnings(action="error"), pytest.raises(UsageProblem, match=sentence):
        onnx_file(identity(kind), X=rows)


def test_the_input_is_named_where_there_are_several() -> None:
    rows = {"x0": [[0.0], [1.0]], "x1": [[0.0], [1e39]]}
    with pytest.raises(UsageProblem, match=r"as x1, .*: X\['x1'\]\[1, 0\] = 1e\+39 would become inf"):
        onnx_file(identity(TensorProto.FLOAT, inputs=2), X=rows)


def held(given: Any, kind: str) -> bool:
    values = np.asarray(given)
    array = converted(values, kind)
    return array is not None and first_changed(values, array) is None


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ([0.1, 1 / 3, -2.7e38], "float32"),  # fractions are rounded
        ([1e-50], "float32"),
        (np.array([1e-9, 0.1], np.float32), "float16"),
        ([float("nan"), float("inf"), -float("inf")], "float16"),  # which every type of floating point has
        (np.array([2.0**60 + 2**40, 1e17]), "float32"),  # whole only because float64 has no fractions there
        (np.array([16777216, -16777216]), "float32"),
        (np.array([True, False]), "float16"),
        (np.array([3.0, -0.0]), "int8"),
        (np.array([255, 0]), "uint8"),
        (np.array([1.0, 0.0]), "bool"),
        (np.array([2**63 - 1]), "uint64"),
        (np.array([1, 2.5, None, np.nan, True], dtype=object), "float32"),
        (np.array([1, 2], dtype=object), "int32"),
        (pd.DataFrame({"a": [1, 2], "b": [0.5, 0.1]}), "float32"),
        (np.array([0.1, 2048], np.float16), "float64"),
    ],
)
def test_rounding_in_the_usual_way_is_no_loss(given: Any, kind: str) -> None:
    assert held(given, kind)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (["1.5", "2"], "float32"),
        (np.array([1, "2"], dtype=object), "int64"),
        (np.array([16777217, None], dtype=object), "float32"),
        (np.array([1e39], dtype=object), "float32"),
        (np.array([10**400], dtype=object), "float64"),
        (np.array([1.5], dtype=object), "int64"),
        (np.array([None], dtype=object), "int64"),
        (np.array([pd.NA], dtype=object), "float32"),
        (np.array(["2026-01-01"], dtype="datetime64[s]"), "int64"),
        (np.array([1j]), "float32"),
        (pd.Series([1, None], dtype="Int64"), "int64"),
    ],
)
def test_what_would_be_another_value_is_none(given: Any, kind: str) -> None:
    """Text is no number, whatever stands in it."""
    assert not held(given, kind)
