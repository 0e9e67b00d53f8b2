"""Rows become a C-contiguous float32 matrix, or are refused with a sentence."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from pytest_hwperf.records.errors import HwperfError, MeasurementError, ScenarioUnavailable
from pytest_hwperf.runtimes.estimators import digest_rows, matrix, split_batches
from pytest_hwperf.runtimes.own_call import choose_checked
from pytest_hwperf.runtimes.quantise import count_shared


def test_numbers_become_contiguous_float32() -> None:
    for X in (
        [[1, 2], [3, 4]],
        np.array([[1, 3], [2, 4]], dtype=np.float64).T,
        pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
        pd.DataFrame({"a": [True, 3], "b": [2, 4]}, dtype=object),
    ):
        rows = matrix(X)
        assert [[1, 2], [3, 4]] == rows.tolist()
        assert np.float32 == rows.dtype
        assert rows.flags.c_contiguous


NO_MATRICES: list[tuple[Any, str, type[HwperfError]]] = [
    (np.empty((0, 3)), "no rows", MeasurementError),
    (csr_matrix([[1.0, 0.0]]), "sparse", MeasurementError),
    (np.ones(3), r"shape \(3,\)", ScenarioUnavailable),
    ([["a", "b"]], "not numbers", ScenarioUnavailable),
    (pd.DataFrame({"a": ["x"], "b": [1]}), "not numbers", ScenarioUnavailable),
    ([[1.0, np.inf]], "infinite", ScenarioUnavailable),
    ([[1e39]], "beyond the range of float32", ScenarioUnavailable),
]


def test_what_is_no_matrix_of_numbers_is_refused() -> None:
    """What the model itself may take is a skip. Missing numbers stay: whether NaN is refused is its matter."""
    for X, sentence, kind in NO_MATRICES:
        with pytest.raises(kind, match=sentence):
            matrix(X)
    nullable = pd.DataFrame({"a": [1], "b": [pd.NA]}).astype({"a": "Int64", "b": "Float64"})
    for missing in ([[1.0, np.nan]], nullable):
        assert [[False, True]] == np.isnan(matrix(missing)).tolist()


@given(rows=st.integers(1, 50), size=st.integers(1, 60))
def test_batches_hold_all_rows_in_order(rows: int, size: int) -> None:
    X = matrix(np.arange(rows * 2).reshape(rows, 2))
    batches = split_batches(X, size)
    assert X.tolist() == np.concatenate(batches).tolist()
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(batch.flags.c_contiguous for batch in batches)


def test_a_batch_size_that_is_no_number_of_rows_is_refused() -> None:
    sizes: list[Any] = [0, -1, 1.5, True]
    for size in sizes:
        with pytest.raises(MeasurementError, match="whole number of rows"):
            split_batches(matrix([[1.0]]), size)


def test_every_kind_of_row_is_among_the_chosen_ones() -> None:
    """One of 5,000 rows has the missing value, one the rare category, one the rare class, and two the extremes."""
    rows, labels = np.random.default_rng(1).normal(size=(5000, 3)), np.zeros(5000, dtype=int)
    rows[:, 2] = np.arange(5000) % 2
    rows[1234, 2], rows[17, 0], rows[4001, 1], labels[2999] = 7, np.nan, -1e9, 1
    chosen = choose_checked(rows, labels, 100)
    assert 100 == len(set(chosen.tolist()))
    assert {1234, 17, 4001, 2999, int(np.nanargmax(rows[:, 0]))} <= set(chosen.tolist())
    assert chosen.tolist() == sorted(chosen.tolist()) == choose_checked(rows, labels, 100).tolist()
    assert list(range(9)) == choose_checked(rows[:9], labels[:9], 100).tolist()


def test_rows_are_not_chosen_at_an_even_step() -> None:
    chosen = choose_checked(np.zeros((5000, 1)), np.zeros(5000), 100)
    assert 1 < len(set(np.diff(chosen)))


def test_shared_rows_are_counted_whatever_the_sign_of_zero() -> None:
    # Row 1 twice and row 0 with another sign; row 3 is in one matrix only.
    assert 3 == count_shared(matrix([[1], [1], [-0.0], [3]]), matrix([[0.0], [1], [2]]))


def test_the_digest_tells_content_shape_and_type_apart() -> None:
    rows = np.arange(4, dtype=np.float32)
    others = [rows + 1, rows.reshape(2, 2), rows.astype(np.int32)]
    assert digest_rows(rows) == digest_rows(rows.copy())
    assert 4 == len({digest_rows(rows), *map(digest_rows, others)})
