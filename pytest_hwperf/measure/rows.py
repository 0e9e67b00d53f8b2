"""Rows of data: arrays, lists, data frames, or several arrays by name, whose rows belong together."""

from collections.abc import Mapping
from typing import Any

from pytest_hwperf.core.errors import MeasurementError, UsageProblem


def count_rows(X: Any) -> int:
    """Return the number of rows."""
    counts = {name: _length(values) for name, values in X.items()} if _is_named(X) else {"": _length(X)}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise UsageProblem(f"the arrays of X differ in their number of rows ({shown}): give one row of each")
    rows = next(iter(counts.values()), 0)
    if rows == 0:
        raise MeasurementError("the data has no rows: nothing can be measured on empty data")
    return rows


def cut_rows(X: Any, start: int, stop: int) -> Any:
    """Take rows by position; brackets of a data frame may select by label."""
    if _is_named(X):
        return {name: cut_rows(values, start, stop) for name, values in X.items()}
    return X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]


def arrays_of(X: Any) -> list[Any]:
    """Return everything that data consists of, names included, for a digest."""
    if not _is_named(X):
        return [X]
    return [part for name in sorted(X) for part in ([name], X[name])]


def shapes_of(X: Any) -> str:
    """Return the type and shape of one row, such as `ndarray float32 (4,)`; "" of anything but numbers."""
    import numpy as np

    found = []
    for part in X.values() if _is_named(X) else [X]:
        try:
            values = np.asarray(part)
        except ValueError:  # rows of varying length
            return ""
        if values.dtype.kind not in "biufc":
            return ""
        found.append(f"{type(part).__name__} {values.dtype} {values.shape[1:]}")
    return ", ".join(found)


def batch_rows(batch: Any) -> int:
    """Return the number of rows in a prepared input."""
    return len(next(iter(batch.values()))) if isinstance(batch, Mapping) and batch else len(batch)


def _is_named(X: Any) -> bool:
    """Whether it is a mapping name → array; a data frame is none."""
    return isinstance(X, Mapping)


def _length(values: Any) -> int:
    try:
        return len(values)
    except TypeError:
        raise UsageProblem(
            f"the rows must have a length, as an array, a list or a data frame has; given: {type(values).__name__}"
        ) from None
