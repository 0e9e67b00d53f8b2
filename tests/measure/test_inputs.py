"""Inputs that are all the same: calls on them may be faster than on those that are served."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from pytest_hwperf.measure.rows import sameness
from pytest_hwperf.measure.subjects import subject_of_callable

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
