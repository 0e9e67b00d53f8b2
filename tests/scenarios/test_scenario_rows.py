"""Rows become a C-contiguous float32 matrix, or are refused with a sentence."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.scenarios.estimators import digest_rows, evenly_spaced, matrix, split_batches
from pytest_hwperf.scenarios.quantise import count_shared


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


NO_MATRICES: list[tuple[Any, str]] = [
    (np.empty((0, 3)), "no rows"),
    (np.ones(3), r"shape \(3,\)"),
    ([["a", "b"]], "not numbers"),
    (pd.DataFrame({"a": ["x"], "b": [1]}), "not numbers"),
    ([[1.0, np.inf]], "infinite"),
    ([[1e39]], "beyond the range of float32"),
    (csr_matrix([[1.0, 0.0]]), "sparse"),
]


def test_what_is_no_matrix_of_numbers_is_refused() -> None:
    """Missing numbers stay: whether NaN is refused is the estimator's matter."""
    for X, sentence in NO_MATRICES:
        with pytest.raises(MeasurementError, match=sentence):
            matrix(X)
    assert [[False, True]] == np.isnan(matrix([[1.0, np.nan]])).tolist()


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


def test_chosen_rows_are_spread_over_the_whole() -> None:
    # 3 of 9: positions 0, 9/3 and 18/3.
    assert [[0], [3], [6]] == evenly_spaced(matrix([[i] for i in range(9)]), 3).tolist()
    assert 9 == len(evenly_spaced(matrix([[i] for i in range(9)]), 100))


def test_shared_rows_are_counted_whatever_the_sign_of_zero() -> None:
    # Row 1 twice and row 0 with another sign; row 3 is in one matrix only.
    assert 3 == count_shared(matrix([[1], [1], [-0.0], [3]]), matrix([[0.0], [1], [2]]))


def test_the_digest_tells_content_shape_and_type_apart() -> None:
    rows = np.arange(4, dtype=np.float32)
    others = [rows + 1, rows.reshape(2, 2), rows.astype(np.int32)]
    assert digest_rows(rows) == digest_rows(rows.copy())
    assert 4 == len({digest_rows(rows), *map(digest_rows, others)})
