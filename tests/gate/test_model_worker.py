"""One model as something to measure, in the process that `hwperf compare` starts for it."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pytest_hwperf.gate.models.worker import subject_of
from pytest_hwperf.host.worker_protocol import ModelSpec
from pytest_hwperf.measure.subjects import Subject
from pytest_hwperf.records.errors import MeasurementError

X = np.arange(6, dtype="float32").reshape(6, 1)


def regressor(path: Path) -> str:
    """Write a model that gives one value a row, of shape (n, 1): the double."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "double",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return str(path)


def subject(folder: Path, **data: Any) -> Subject:
    np.savez(folder / "data.npz", **data)
    model, rows = regressor(folder / "model.onnx"), str(folder / "data.npz")
    return subject_of(ModelSpec(model=model, data=rows, batch_size=2, threads=1, test="t", label=""))


def test_a_regression_is_measured_without_labels(tmp_path: Path) -> None:
    """One value a row is no label; nobody asked for one."""
    loaded = subject(tmp_path, X=X).load()
    assert loaded.predictions is not None
    assert loaded.predictions() is None


def test_nan_of_a_regression_is_refused(tmp_path: Path) -> None:
    loaded = subject(tmp_path, X=np.where(X == 5, np.float32("nan"), X)).load()
    assert loaded.predictions is not None
    with pytest.raises(MeasurementError, match="1 of 2 outputs of one batch are NaN"):
        loaded.predictions()


def test_labels_that_a_regression_cannot_be_held_against_are_refused(tmp_path: Path) -> None:
    loaded = subject(tmp_path, X=X, y=np.zeros(6)).load()
    assert loaded.predictions is not None
    with pytest.raises(MeasurementError, match=r"has the shape \(2, 1\): .* leave the labels out"):
        loaded.predictions()
