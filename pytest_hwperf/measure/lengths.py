"""Rows of varying length, such as texts: their lengths, by which the cost of a call is divided, and their mix."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

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
