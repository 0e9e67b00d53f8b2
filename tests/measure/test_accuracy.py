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
    name_columns,
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


TEXT = ["cat", "dog", None, "cat"]


@pytest.mark.parametrize(
    ("labels", "row"),
    [
        (pd.Series(TEXT, dtype="str"), 2),
        (pd.Series(TEXT, dtype="string"), 2),
        (pd.Series(TEXT, dtype="category"), 2),
        (np.array(TEXT, dtype=object), 2),
        (np.array(["cat", float("nan"), "dog", "cat"], dtype=object), 1),
        (np.array([pd.NaT, "cat", "dog", "cat"], dtype=object), 0),
        (pd.Series([True, None, False, True], dtype="boolean"), 1),
        (np.ma.masked_array([1, 0, 1, 1], mask=[False, False, True, False]), 2),
        (np.array(["cat", "dog", np.nan, "cat"], dtype=np.dtypes.StringDType(na_object=np.nan)), 2),
        ([1, None, 0, 1], 1),
    ],
)
def test_a_missing_label_is_refused_in_whatever_it_comes(labels: Any, row: int) -> None:
    """As missing numbers are: it would count as a wrong prediction."""
    predicted = [1, 0, 1, 1] if "cat" not in list(map(str, labels)) else TEXT[:2] * 2
    with pytest.raises(MeasurementError, match=f"1 of 4 values in y_true are missing, the first in row {row}"):
        correctness(predicted, labels, source="")


@pytest.mark.parametrize(
    ("predicted", "labels"),
    [
        ([0, 1], pd.Series(["cat", "dog"])),
        (np.array(["cat", "dog"], dtype=object), [0, 1]),
        (pd.Series(["0", "1"]), [0, 1]),
        (np.array([b"cat", b"dog"]), np.array(["cat", "dog"])),
    ],
)
def test_what_can_never_be_equal_is_refused(predicted: Any, labels: Any) -> None:
    with pytest.raises(MeasurementError, match="text never equals a number, so convert one of them"):
        correctness(predicted, labels, source="")


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1, 1],
        [0.0, 1.0, 1.0],
        [False, True, True],
        pd.Series([0, 1, 1], dtype="Int64"),
        np.array([0, 1, 1], np.uint8),
    ],
    ids=str,
)
def test_positions_are_labels_where_the_labels_are_positions(labels: Any) -> None:
    predicted = name_columns(2, None, labels)(np.array([0, 1, 1]))
    assert [1.0, 1.0, 1.0] == list(correctness(predicted, labels, source="").values)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([-1, 1], r"holds the labels -1, 1: .* classes=\[-1, 1\] in hwperf_data, or hwperf compare --classes=-1,1$"),
        (
            [7, 3],
            r"the model gives positions 0\.\.1 of its columns, and y_true holds the labels 3, 7: .*--classes=3,7$",
        ),
        ([1, 2], "holds the labels 1, 2: "),
        (["no", "yes"], r"holds the labels 'no', 'yes': .*classes=\['no', 'yes'\]"),
        (pd.Series(["no", "yes"]), "holds the labels 'no', 'yes': "),
        ([0.5, 1], r"holds the labels 0\.5, 1\.0: "),
        ([2, 2], r"holds the labels 2: .*classes=\[…\]"),
        (range(2, 9), r"holds the labels 2, 3, 4, 5, 6, …: "),
    ],
)
def test_positions_are_no_labels_of_another_kind(labels: Any, sentence: str) -> None:
    """Nobody says which label a column stands for: sorted labels need not be in the order of the columns."""
    with pytest.raises(MeasurementError, match=sentence):
        name_columns(2, None, labels)


def test_labels_that_count_from_1_are_no_positions_although_they_could_be() -> None:
    """Of three classes the last one is missing; the positions agree as soon as 1 is added."""
    positions = np.array([0, 1, 1, 0])
    with pytest.raises(MeasurementError, match=r"positions 0\.\.2 of its columns, and y_true holds the labels 1, 2: "):
        name_columns(3, None, positions + 1)(positions)
    assert [1, 2] == name_columns(3, None, [1, 2])(np.array([1, 2])).tolist()


@pytest.mark.parametrize(
    ("classes", "labels"),
    [([-1, 1], [1, -1]), (np.array([3.0, 7.0]), [7, 3]), (["no", "yes"], pd.Series(["yes", "no"])), ((0, 5), [5, 0])],
    ids=str,
)
def test_told_classes_name_the_columns(classes: Any, labels: Any) -> None:
    predicted = name_columns(2, classes, labels)(np.array([1, 0]))
    assert [1.0, 1.0] == list(correctness(predicted, labels, source="").values)


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        ([1, 2, 3], r"classes=\[1, 2, 3\]: the model has 2 columns; give one label for each, all different"),
        ([1, 1], r"classes=\[1, 1\]: the model has 2 columns; give one label for each, all different"),
        (["1", "2"], r"classes=\['1', '2'\]: none of them is in y_true, which holds 1, 2"),
    ],
)
def test_classes_that_cannot_be_meant_are_refused(classes: Any, sentence: str) -> None:
    with pytest.raises(MeasurementError, match=sentence):
        name_columns(2, classes, [1, 2])


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
