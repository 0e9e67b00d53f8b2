"""Inputs of calls: rows that are all the same, on which calls may be faster than on those that are served."""

from typing import Any

from pytest_hwperf.core.statements import Statement, state

_ROWS_AND_COLUMNS = 2  # axes from which on the first one counts rows: a single axis may be one row's values


def sameness(X: Any) -> Statement | None:
    """Say that all rows of an array or a data frame are the same, a single one too; None where they differ.

    With one constant row a forest took a quarter of its time on changing rows.
    """
    if getattr(X, "ndim", 0) < _ROWS_AND_COLUMNS:
        return None
    rows = X.iloc if hasattr(X, "iloc") else X
    try:
        count = len(X)
        alike = count == 1 or (count > 1 and _same(rows[:1], rows[1:2]) and _same(rows[:1], rows[1:]))
    except (TypeError, ValueError, IndexError, RuntimeError):
        return None  # no array of this process's memory, such as a sparse matrix or a tensor of a GPU
    return state("constant input", rows=count) if alike else None


def _same(first: Any, others: Any) -> bool:
    import numpy as np

    return bool((np.asarray(others) == np.asarray(first)).all())
