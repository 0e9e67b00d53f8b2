"""ONNX files of the user's through the fixtures: what their columns stand for is known, told, or asked for."""

import numpy as np
import pytest
from fakes.onnx_models import save_onnx

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "-v")

TEST = """
import pathlib
import numpy as np
import pandas as pd
import pytest

X = np.random.default_rng(0).normal(size=(200, 3)).astype("float32")
WEIGHTS = np.array([[1, -1], [1, -1], [-1, 1]], np.float32)
POSITIONS = (X @ WEIGHTS).argmax(axis=1)

@pytest.fixture
def hwperf_model():
    return pathlib.Path("two.onnx")

@pytest.fixture
def hwperf_data():
    labels = np.array({labels})[POSITIONS]
    return {{"X": X, "y": {y}, {told}}}

@pytest.mark.hwbudget(accuracy_min={least})
@pytest.mark.hwscenarios({scenarios})
def test_it(hwperf, scenario):
    hwperf(scenario, batch_size=50)
"""


def write(pytester: pytest.Pytester, labels: object, told: str = "", y: str = "labels", least: float = 0.95) -> None:
    weights = np.array([[1, -1], [1, -1], [-1, 1]])
    nodes = [("MatMul", ["X", "w"], "s"), ("Softmax", ["s"], "p")]
    save_onnx(pytester.path / "two.onnx", nodes, {"X": 3}, {"p": 2}, w=weights)
    scenarios = "'onnx_file', 'onnx_fp32'" if told else "'onnx_file'"
    pytester.makepyfile(TEST.format(labels=labels, told=told, y=y, least=least, scenarios=scenarios))


@pytest.mark.live
@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([-1, 1], "'classes': [-1, 1]"),
        ([3, 7], "'classes': np.array([3, 7])"),
        (["no", "yes"], "'classes': ('no', 'yes')"),
    ],
    ids=str,
)
def test_told_classes_are_what_the_columns_stand_for(pytester: pytest.Pytester, labels: object, told: str) -> None:
    """Every prediction is right."""
    write(pytester, labels, told)
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(passed=2)
    result.stdout.re_match_lines([r".*accuracy +1\.00 \(.*200 examples  passed"] * 2)


@pytest.mark.parametrize("labels", [[-1, 1], [3, 7], [1, 2], ["no", "yes"]], ids=str)
def test_positions_are_not_held_against_other_labels(pytester: pytest.Pytester, labels: list[object]) -> None:
    write(pytester, labels)
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(failed=1)
    shown = " ".join(result.stdout.str().split())
    assert f"positions 0..1 of its columns, and y_true holds the labels {str(labels)[1:-1]}: say which label" in shown
    assert f"in their order: classes={labels} in hwperf_data" in shown


def test_missing_text_is_no_label(pytester: pytest.Pytester) -> None:
    """Every third label is missing in a column of pandas."""
    y = "pd.Series(labels).where(np.arange(200) % 3 != 0)"
    write(pytester, ["no", "yes"], "'classes': ['no', 'yes']", y, least=0.1)
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*67 of 200 values in y_true are missing, the first in row 0: leave out the rows*"])
