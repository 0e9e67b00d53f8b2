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


def test_rows_of_numbers_have_a_shape() -> None:
    two = {"a": np.zeros((3, 2)), "b": np.zeros(3)}
    rows = (np.zeros((3, 4), dtype=np.float32), [[1.0, 2.0]], two, ["text"], [[1], [1, 2]])
    expected = ["ndarray float32 (4,)", "list float64 (2,)", "ndarray float64 (2,), ndarray float64 ()", "", ""]
    assert expected == [shapes_of(X) for X in rows]


def test_named_arrays_have_the_rows_of_each() -> None:
    assert 6 == count_rows(NAMED) == batch_rows(NAMED)
    assert [2, 3] == cut_rows(NAMED, 2, 4)["ids"].tolist()
    assert 6 == count_rows([0] * 6) == batch_rows([0] * 6)


NO_ROWS: list[tuple[Any, type[Exception], str]] = [
    ({"a": [1], "b": [1, 2]}, UsageProblem, r"differ in their number of rows \(a 1, b 2\)"),
    ({"a": 3}, UsageProblem, "must have a length, .* given: int"),
    ({}, MeasurementError, "no rows"),
    ({"a": []}, MeasurementError, "no rows"),
    ([], MeasurementError, "no rows"),
]


def test_what_has_no_rows_is_refused() -> None:
    for X, kind, sentence in NO_ROWS:
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


def test_a_mix_is_told_by_count_median_and_p95() -> None:
    """Nearest rank: the 50th and the 95th of a hundred. Another order is another mix: calls take the rows in turn."""
    alike: list[Any] = [TEXTS, tuple(TEXTS), np.array(TEXTS), pd.Series(TEXTS), [text.encode() for text in TEXTS]]
    told = [mix_of(X)["lengths"] for X in alike]
    assert [] == [one for one in told if not one.startswith("100 rows (median 50, p95 95, digest ")]
    assert mix_of(TEXTS) != mix_of(TEXTS[::-1])


def test_rows_of_one_length_or_none_have_no_mix() -> None:
    tables: list[Any] = [np.ones((4, 3)), [[1, 2], [3, 4]], pd.DataFrame({"a": [1]}), np.arange(3)]
    assert [{}] * 8 == [mix_of(X) for X in (*tables, [1, 2, 3], "text", b"bytes", ["", "a"])]


def test_an_input_is_as_long_as_its_rows_together() -> None:
    assert [3, 7] == lengths_of([["a", "bc"], ["abc", "defg"]])


def test_rows_of_tokens_have_a_digest() -> None:
    """No array of numbers holds them."""
    ragged = [[1, 2, 3], [4]]
    assert digest(ragged) == digest([np.array([1, 2, 3]), [4]])
    assert digest(ragged) != digest([[1, 2], [3, 4, 5]])


ROWS = np.arange(12.0).reshape(6, 2)


def test_equal_rows_are_said() -> None:
    """Arrays and frames, one row and images; a callable carries it."""
    equal = [(ROWS[:1], "1 row"), (np.ones((6, 2)), "6 rows"), (np.zeros((4, 2, 2)), "4 rows")]
    frames = [(pd.DataFrame(X), rows) for X, rows in equal[:2]]
    for X, rows in (*equal, *frames):
        assert str(sameness(X)) == (
            f"every call gets the same values ({rows}): caches and branch predictors learn them, and calls on changing "
            "rows take longer; give rows that differ, and batch_size="
        )
    for batch_size in (None, 1):
        subject = subject_of_callable(np.sum, (ROWS[:1],), {}, y_true=None, batch_size=batch_size)
        assert subject.doubt is not None
        assert "constant input" == subject.doubt.kind


OTHERS: dict[str, Any] = {
    "rows": ROWS,
    "the last differs": np.concatenate([np.ones((5, 2)), np.zeros((1, 2))]),
    "one axis": np.ones(6),
    "lists": [[1, 1], [1, 1]],
    "no rows": np.ones((0, 2)),
    "sparse": scipy.sparse.csr_matrix(np.ones((2, 2))),
    "NaN": np.full((2, 2), np.nan),
    "nothing": None,
}


def test_of_other_inputs_nothing_is_said() -> None:
    assert [] == [name for name, X in OTHERS.items() if sameness(X) is not None]
