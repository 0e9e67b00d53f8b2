"""Accuracy per example, and what is refused: NaN where it can only mean that a model is broken."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from pytest_hwperf.measure.accuracy import (
    correctness,
    digest,
    flips,
    probability_differences,
    refuse_nan,
    why_unfinished,
)
from pytest_hwperf.records.errors import MeasurementError


def test_correctness_is_one_value_per_example() -> None:
    sample = correctness(np.array([1, 0, 2]), [1, 1, 2], source="model")
    assert list(sample.values) == [1.0, 0.0, 1.0]
    assert (sample.metric, sample.per, sample.source) == ("accuracy", "example", "model")


def test_text_labels_are_compared() -> None:
    assert list(correctness(["cat", "dog"], np.array(["cat", "cat"]), source="").values) == [1.0, 0.0]


def test_predictions_of_another_length_are_refused() -> None:
    with pytest.raises(MeasurementError, match="2 predictions for 3 labels in y_true"):
        correctness([1, 2], [1, 2, 3], source="")


def test_no_examples_are_refused() -> None:
    with pytest.raises(MeasurementError, match="y_true is empty"):
        correctness([], [], source="")


def test_nan_predictions_are_refused() -> None:
    with pytest.raises(MeasurementError, match="1 of 2 values in predictions are NaN"):
        correctness([1.0, float("nan")], [1.0, 2.0], source="")


def test_probabilities_are_no_labels() -> None:
    with pytest.raises(MeasurementError, match=r"shape \(2, 2\): accuracy compares one label per example"):
        correctness([[0.1, 0.9], [0.8, 0.2]], [1, 0], source="")


def test_flips_are_counted_from_the_reference() -> None:
    sample = flips([1, 0, 1], [1, 1, 1], source="against onnx_fp32")
    assert list(sample.values) == [0.0, 1.0, 0.0]
    assert (sample.metric, sample.source) == ("flip_rate", "against onnx_fp32")


def test_flips_need_as_many_predictions() -> None:
    with pytest.raises(MeasurementError, match="1 predictions for the reference's 2"):
        flips([1], [1, 2], source="")


def test_a_digest_depends_on_values_shape_and_type() -> None:
    rows = np.arange(6.0)
    others = [rows + 1, rows.reshape(2, 3), rows.astype("float32"), rows[::-1]]
    assert len({digest(rows), *map(digest, others)}) == 5


def test_a_digest_of_text_depends_on_its_content() -> None:
    """Object arrays hold pointers: equal text at other addresses is equal data."""
    text = np.array(["a", "bb"], dtype=object)
    again = np.array([str(b"a", "ascii"), str(b"bb", "ascii")], dtype=object)
    assert digest(text) == digest(again)
    assert digest(text) != digest(np.array(["a", "cc"], dtype=object))


def test_the_largest_difference_of_each_row_is_taken() -> None:
    ours, others = [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], [[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]]
    sample = probability_differences(ours, others, source="against onnx_fp32")
    assert [0.25, 0.0] == [*sample.values]  # noqa: PD011 - of a sample
    assert ("probability_diff", "example", "against onnx_fp32") == (sample.metric, sample.per, sample.source)


def test_a_rounding_above_one_is_no_difference_of_more_than_one() -> None:
    """Certain of opposite classes, with sums that end above 1."""
    sample = probability_differences([[1 + 1e-7, 0.0]], [[0.0, 1.0]], source="")
    assert [1.0] == [*sample.values]  # noqa: PD011 - of a sample


@pytest.mark.parametrize("ours", [[[0.5, 0.5]], [[0.2, 0.3, 0.5]] * 2, [0.5, 0.5]])
def test_probabilities_of_another_shape_are_refused(ours: list[object]) -> None:
    with pytest.raises(MeasurementError, match="probabilities of shape"):
        probability_differences(ours, [[0.5, 0.5], [0.5, 0.5]], source="")


NAN = float("nan")


@pytest.mark.parametrize(
    ("output", "reported"),
    [
        (np.array([1.0, NAN, 3.0, NAN]), "2 of 4 outputs"),
        (np.full((3, 2), NAN, dtype="float32"), "6 of 6 outputs"),
    ],
)
def test_nan_in_an_array_is_refused(output: object, reported: str) -> None:
    with pytest.raises(MeasurementError, match=f"{reported} of one batch are NaN: the model is broken here"):
        refuse_nan(output)


@pytest.mark.parametrize(
    "output",
    [
        np.array([1.0, np.inf]),
        np.array([1, 2]),
        np.array(["a"]),
        np.ma.masked_array([1.0, NAN], mask=[False, True]),
        pd.DataFrame({"a": [1.0, NAN]}),
        [1.0, NAN],
        None,
    ],
    ids=["infinite", "whole numbers", "text", "masked", "data frame", "list", "nothing"],
)
def test_other_values_are_left_alone(output: object) -> None:
    refuse_nan(output)


def test_what_is_no_array_loads_no_numpy() -> None:
    """A library that is loaded between the first call and the timed ones would disturb them."""
    code = "import sys; from pytest_hwperf.measure.accuracy import refuse_nan; refuse_nan(1.0); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" not in done.stdout.split()


class LaterArray:
    """As JAX returns it: computed some time after the call."""

    def __init__(self, *, ready: bool) -> None:
        self._ready = ready

    def is_ready(self) -> bool:
        return self._ready

    def block_until_ready(self) -> "LaterArray":
        return self


@pytest.mark.parametrize("output", [LaterArray(ready=False), [LaterArray(ready=False)]], ids=["alone", "in a list"])
def test_an_array_that_is_not_computed_yet_is_said(output: object) -> None:
    assert "LaterArray before it was computed: end it with .block_until_ready()" in str(why_unfinished(output))


@pytest.mark.parametrize("output", [LaterArray(ready=True), [], np.ones(2), None, "text"])
def test_of_other_outputs_nothing_is_said(output: object) -> None:
    assert None is why_unfinished(output)
