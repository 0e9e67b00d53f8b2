"""Rows of data: arrays, lists, data frames, or several arrays by name, whose rows belong together."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.messages import Statement, state


def count_rows(X: Any) -> int:
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


_TEXT = ("O", "S", "U")  # kinds of arrays whose values may have a length: objects, bytes, text
_MOST_ROWS = 100_000  # that are looked at: enough for a mix


def mix_of(X: Any) -> Mapping[str, str]:
    """Describe the lengths of the rows of `X` as a condition; {} where all are alike or a row has no length."""
    found = _row_lengths(X)
    if len(set(found)) < 2 or not min(found):  # noqa: PLR2004 - nothing varies
        return {}
    ordered, count = sorted(found), len(found)
    median, p95 = ordered[(count - 1) // 2], ordered[-(-95 * count // 100) - 1]
    digest = hashlib.sha256(",".join(map(str, found)).encode()).hexdigest()[:8]
    return {"lengths": f"{count} rows (median {median}, p95 {p95}, digest {digest})"}


def lengths_of(inputs: Sequence[Any]) -> list[int]:
    """Return the length of each prepared input: of all its rows together."""
    return [sum(_row_lengths(one)) for one in inputs]


def _row_lengths(X: Any) -> list[int]:
    """Return the length of each row, in characters or elements; [] where they have none, as those of a matrix."""
    is_column = getattr(getattr(X, "dtype", None), "kind", "") in _TEXT and getattr(X, "ndim", 0) == 1
    if not is_column and (not isinstance(X, Sequence) or isinstance(X, str | bytes)):
        return []
    rows = list(islice(X, _MOST_ROWS))
    return [len(row) for row in rows] if all(hasattr(row, "__len__") for row in rows) else []


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
