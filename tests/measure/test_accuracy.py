"""Accuracy per example, and what is refused: NaN where it can only mean that a model is broken."""

import subprocess
import sys
from typing import Any

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
    assert list(correctness(["cat", "dog"], np.array(["cat", "cat"]), source="").values) == [1.0, 0.0]


REFUSED: list[tuple[Any, Any, str]] = [
    ([1, 2], [1, 2, 3], "2 predictions for 3 labels in y_true"),
    ([], [], "y_true is empty"),
    ([1.0, float("nan")], [1.0, 2.0], "1 of 2 values in predictions are NaN"),
    ([[0.1, 0.9], [0.8, 0.2]], [1, 0], r"shape \(2, 2\): accuracy compares one label per example"),
]


def test_what_cannot_be_compared_with_labels_is_refused() -> None:
    for predictions, labels, sentence in REFUSED:
        with pytest.raises(MeasurementError, match=sentence):
            correctness(predictions, labels, source="")


def test_flips_are_counted_from_the_reference() -> None:
    sample = flips([1, 0, 1], [1, 1, 1], source="against onnx_fp32")
    assert list(sample.values) == [0.0, 1.0, 0.0]
    assert (sample.metric, sample.source) == ("flip_rate", "against onnx_fp32")
    with pytest.raises(MeasurementError, match="1 predictions for the reference's 2"):
        flips([1], [1, 2], source="")


def test_a_digest_depends_on_values_shape_and_type() -> None:
    """Object arrays hold pointers: equal text at other addresses is equal data."""
    rows = np.arange(6.0)
    others = [rows + 1, rows.reshape(2, 3), rows.astype("float32"), rows[::-1]]
    assert len({digest(rows), *map(digest, others)}) == 5
    text = np.array(["a", "bb"], dtype=object)
    again = np.array([str(b"a", "ascii"), str(b"bb", "ascii")], dtype=object)
    assert digest(text) == digest(again)
    assert digest(text) != digest(np.array(["a", "cc"], dtype=object))


def test_the_largest_difference_of_each_row_is_taken() -> None:
    """One at most: of certain, opposite classes, sums may end above 1."""
    ours, others = [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], [[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]]
    sample = probability_differences(ours, others, source="against onnx_fp32")
    assert [0.25, 0.0] == [*sample.values]  # noqa: PD011 - of a sample
    assert ("probability_diff", "example", "against onnx_fp32") == (sample.metric, sample.per, sample.source)
    opposite = probability_differences([[1 + 1e-7, 0.0]], [[0.0, 1.0]], source="")
    assert [1.0] == [*opposite.values]  # noqa: PD011 - of a sample
    shapes: list[Any] = [[[0.5, 0.5]], [[0.2, 0.3, 0.5]] * 2, [0.5, 0.5]]
    for shape in shapes:
        with pytest.raises(MeasurementError, match="probabilities of shape"):
            probability_differences(shape, [[0.5, 0.5], [0.5, 0.5]], source="")


NAN = float("nan")


def test_nan_in_an_array_is_refused_and_nothing_else() -> None:
    """Infinite, whole, text, masked, a frame, a list and nothing are left alone."""
    for output, reported in (
        (np.array([1.0, NAN, 3.0, NAN]), "2 of 4 outputs"),
        (np.full((3, 2), NAN, dtype="float32"), "6 of 6 outputs"),
    ):
        with pytest.raises(MeasurementError, match=f"{reported} of one batch are NaN: the model is broken here"):
            refuse_nan(output)
    masked = np.ma.masked_array([1.0, NAN], mask=[False, True])
    arrays = (np.array([1.0, np.inf]), np.array([1, 2]), np.array(["a"]), masked)
    for other in (*arrays, pd.DataFrame({"a": [1.0, NAN]}), [1.0, NAN], None):
        refuse_nan(other)


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


def test_an_array_that_is_not_computed_yet_is_said() -> None:
    """Alone, in a list and in a dict; of other outputs nothing is said."""
    told = "LaterArray before it was computed: end it with .block_until_ready()"
    later = LaterArray(ready=False)
    outputs = (later, [later], {"logits": later})
    assert [True] * 3 == [told in str(why_unfinished(output)) for output in outputs]
    others: list[object] = [LaterArray(ready=True), [], {}, np.ones(2), None, "text"]
    assert [None] * 6 == [why_unfinished(output) for output in others]
