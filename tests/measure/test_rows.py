"""Rows of arrays and of several arrays by name."""

from typing import Any

import numpy as np
import pytest

from pytest_hwperf.measure.rows import arrays_of, batch_rows, count_rows, cut_rows, shapes_of
from pytest_hwperf.measure.subjects import subject_of_callable
from pytest_hwperf.records.errors import MeasurementError, UsageProblem

NAMED = {"ids": np.arange(6), "mask": np.ones((6, 2))}


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        (np.zeros((3, 4), dtype=np.float32), "ndarray float32 (4,)"),
        ([[1.0, 2.0]], "list float64 (2,)"),
        ({"a": np.zeros((3, 2)), "b": np.zeros(3)}, "ndarray float64 (2,), ndarray float64 ()"),
        (["text"], ""),
        ([[1], [1, 2]], ""),
    ],
)
def test_rows_of_numbers_have_a_shape(X: Any, expected: str) -> None:
    assert expected == shapes_of(X)


def test_named_arrays_have_the_rows_of_each() -> None:
    assert 6 == count_rows(NAMED) == batch_rows(NAMED)
    assert [2, 3] == cut_rows(NAMED, 2, 4)["ids"].tolist()
    assert 6 == count_rows([0] * 6) == batch_rows([0] * 6)


@pytest.mark.parametrize(
    ("X", "kind", "sentence"),
    [
        ({"a": [1], "b": [1, 2]}, UsageProblem, r"differ in their number of rows \(a 1, b 2\)"),
        ({"a": 3}, UsageProblem, "must have a length, .* given: int"),
        ({}, MeasurementError, "no rows"),
        ({"a": []}, MeasurementError, "no rows"),
        ([], MeasurementError, "no rows"),
    ],
)
def test_what_has_no_rows_is_refused(X: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        count_rows(X)


def test_a_digest_takes_names_and_values() -> None:
    assert [["ids"], ["mask"]] == arrays_of(NAMED)[::2]
    conditions = [
        subject_of_callable(len, (X,), {}, y_true=None, batch_size=2).conditions["data"]
        for X in (NAMED, dict(reversed(NAMED.items())), {**NAMED, "ids": NAMED["ids"][::-1]}, {"i": NAMED["ids"]})
    ]
    assert conditions[0] == conditions[1]
    assert 3 == len(set(conditions))


def test_a_callable_gets_named_arrays_cut() -> None:
    """Of seven rows the last one is left out: its call would take another time."""
    X = {"ids": np.arange(7), "mask": np.ones(7)}
    loaded = subject_of_callable(len, (X,), {}, y_true=None, batch_size=2).load()
    assert loaded.inputs is not None
    assert [[0, 1], [2, 3], [4, 5]] == [batch["ids"].tolist() for batch in loaded.inputs]
