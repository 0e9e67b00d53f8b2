"""Rows of data: arrays, several arrays by name, rows of varying length, and rows that are all the same."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from pytest_hwperf.measure.accuracy import digest
from pytest_hwperf.measure.rows import (
    arrays_of,
    batch_rows,
    count_rows,
    cut_rows,
    lengths_of,
    mix_of,
    sameness,
    shapes_of,
)
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


TEXTS = ["a" * length for length in range(1, 101)]


@pytest.mark.parametrize(
    "X", [TEXTS, tuple(TEXTS), np.array(TEXTS), pd.Series(TEXTS), [text.encode() for text in TEXTS]]
)
def test_a_mix_is_told_by_count_median_and_p95(X: Any) -> None:
    """Nearest rank: the 50th and the 95th of a hundred."""
    assert mix_of(X)["lengths"].startswith("100 rows (median 50, p95 95, digest ")


def test_another_order_is_another_mix() -> None:
    """Calls take the rows in turn."""
    assert mix_of(TEXTS) != mix_of(TEXTS[::-1])


@pytest.mark.parametrize(
    "X",
    [np.ones((4, 3)), [[1, 2], [3, 4]], [1, 2, 3], "text", b"bytes", ["", "a"], pd.DataFrame({"a": [1]}), np.arange(3)],
)
def test_rows_of_one_length_or_none_have_no_mix(X: Any) -> None:
    assert mix_of(X) == {}


def test_an_input_is_as_long_as_its_rows_together() -> None:
    assert [3, 7] == lengths_of([["a", "bc"], ["abc", "defg"]])


def test_rows_of_tokens_have_a_digest() -> None:
    """No array of numbers holds them."""
    ragged = [[1, 2, 3], [4]]
    assert digest(ragged) == digest([np.array([1, 2, 3]), [4]])
    assert digest(ragged) != digest([[1, 2], [3, 4, 5]])


ROWS = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    ("X", "rows"),
    [
        (ROWS[:1], "1 row"),
        (pd.DataFrame(ROWS[:1]), "1 row"),
        (np.ones((6, 2)), "6 rows"),
        (pd.DataFrame(np.ones((6, 2))), "6 rows"),
        (np.zeros((4, 2, 2)), "4 rows"),
    ],
    ids=["one row", "one row of a frame", "equal rows", "equal rows of a frame", "images"],
)
def test_equal_rows_are_said(X: Any, rows: str) -> None:
    assert str(sameness(X)) == (
        f"every call gets the same values ({rows}): caches and branch predictors learn them, and calls on changing "
        "rows take longer; give rows that differ, and batch_size="
    )


@pytest.mark.parametrize(
    "X",
    [
        ROWS,
        np.concatenate([np.ones((5, 2)), np.zeros((1, 2))]),
        np.ones(6),
        [[1, 1], [1, 1]],
        np.ones((0, 2)),
        scipy.sparse.csr_matrix(np.ones((2, 2))),
        np.full((2, 2), np.nan),
        None,
    ],
    ids=["rows", "the last differs", "one axis", "lists", "no rows", "sparse", "NaN", "nothing"],
)
def test_of_other_inputs_nothing_is_said(X: Any) -> None:
    assert None is sameness(X)


@pytest.mark.parametrize("batch_size", [None, 1])
def test_a_callable_carries_it(batch_size: int | None) -> None:
    subject = subject_of_callable(np.sum, (ROWS[:1],), {}, y_true=None, batch_size=batch_size)
    assert subject.doubt is not None
    assert "constant input" == subject.doubt.kind
