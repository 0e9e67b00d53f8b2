"""Rows as every scenario takes them: a C-contiguous float32 matrix, made outside any timing."""

import hashlib
from collections.abc import Sequence
from typing import Any

from pytest_hwperf.records.errors import MeasurementError


def matrix(X: Any) -> Any:
    """Turn `X` into a C-contiguous float32 array of shape (rows, columns); NaN stays NaN."""
    import numpy as np

    if hasattr(X, "toarray"):
        raise MeasurementError(f"X is sparse ({type(X).__name__}): give a dense matrix of numbers, X.toarray()")
    given = np.asarray(X)
    if given.ndim != 2:  # noqa: PLR2004 - rows and columns
        raise MeasurementError(f"X has the shape {given.shape}: give a matrix with one row per sample")
    if given.shape[0] == 0:
        raise MeasurementError("X has no rows: nothing can be measured on empty data")
    numbers = _as_float32(given)
    if np.isinf(numbers).any():
        raise MeasurementError("X holds infinite values, or values beyond the range of float32: clip or scale them")
    return numbers


def _as_float32(given: Any) -> Any:
    import numpy as np

    if given.dtype.kind in "biufO":
        try:
            with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused with its own message
                return np.ascontiguousarray(given, dtype=np.float32)
        except (TypeError, ValueError):
            pass  # a column of objects that are not all numbers: refused below
    raise MeasurementError(
        f"X holds values that are not numbers (dtype {given.dtype}): scenarios are fed a float32 matrix, so encode "
        "text and dates first, or measure model.predict as a plain callable"
    )


def as_array(outputs: Any) -> Any:
    import numpy as np

    return np.asarray(outputs)


def check_batch_size(batch_size: object) -> None:
    """Refuse an invalid batch size: callers may not check types."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise MeasurementError(f"batch_size={batch_size!r}: a batch size is a whole number of rows from 1 on")


def split_batches(rows: Any, batch_size: int) -> Sequence[Any]:
    """Split a matrix into views of `batch_size` rows; the last may be shorter."""
    check_batch_size(batch_size)
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]


def evenly_spaced(rows: Any, most: int) -> Any:
    """Take at most `most` rows, spread over the whole: the first ones of a sorted table would be of one kind."""
    import numpy as np

    count = min(most, len(rows))
    return np.ascontiguousarray(rows[np.arange(count) * len(rows) // count])


def digest_rows(rows: Any) -> str:
    """Return sixteen hexadecimal digits over shape, type and content of an array."""
    import numpy as np

    total = hashlib.sha256(f"{rows.dtype}{rows.shape}".encode())
    total.update(np.ascontiguousarray(rows).tobytes())
    return total.hexdigest()[:16]


def count_shared(rows: Any, others: Any) -> int:
    """Count the rows of one float32 matrix that occur in another one of the same width."""
    import numpy as np

    known = {row.tobytes() for row in others + np.float32(0)}  # adding 0 makes -0.0 the same as 0.0
    return sum(row.tobytes() in known for row in rows + np.float32(0))
