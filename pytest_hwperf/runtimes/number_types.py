"""Numbers in another type: what becomes of them there, and the first that the type cannot hold."""

from typing import Any


def converted(given: Any, kind: str) -> Any | None:
    """Return numbers as a C-contiguous array of a type, whatever becomes of them; None of what are no numbers."""
    import numpy as np

    if given.dtype.kind not in "biufO" or any(isinstance(one, str | bytes) for one in _objects(given)):
        return None
    try:
        with np.errstate(all="ignore"):  # the caller looks at what has changed
            return np.ascontiguousarray(given, dtype=kind)
    except (OverflowError, TypeError, ValueError):
        return None


def first_changed(given: Any, array: Any) -> tuple[int, ...] | None:
    """Return the place of the first number that an array of another type does not hold; None where it holds all.

    A type of floating point may round a fraction. A whole number stays the same whole number, what is finite stays
    finite, and types of integers and of truth values change nothing. A float beyond the range in which its own type
    holds every whole number is itself rounded, so it may be rounded again.
    """
    import numpy as np

    if given.dtype == array.dtype:
        return None
    with np.errstate(all="ignore"):
        held = _held(given, array)
    if held.all():
        return None
    return tuple(map(int, np.unravel_index(int(np.argmin(held)), held.shape)))


def _held(given: Any, array: Any) -> Any:
    """Return for each number whether the array holds it."""
    import numpy as np

    is_float = array.dtype.kind == "f"
    if given.dtype.kind == "O":
        pairs = zip(given.ravel().tolist(), array.ravel().tolist(), strict=True)
        return np.array([_is_held(number, kept, is_float=is_float) for number, kept in pairs]).reshape(given.shape)
    if given.dtype.kind == "f" and is_float:
        whole = (np.abs(given) <= _largest_exact(given.dtype)) & (given == np.trunc(given))
        rounded = np.isfinite(array) & ~whole
        return (array.astype(given.dtype) == given) | rounded | np.isnan(given)
    if given.dtype.kind == "f":
        return (array == given) & (given < _end_of(array.dtype))
    if is_float:
        return (array.astype(given.dtype) == given) & (array < _end_of(given.dtype))
    return (array == given) & ((array < 0) == (given < 0))


def _is_held(number: Any, kept: Any, *, is_float: bool) -> bool:
    """Whether a number of Python's is still the same, or a fraction that was rounded; None is a missing value."""
    if kept == number:
        return True
    if not is_float:
        return False
    if number is None or number != number:  # noqa: PLR0124 - only NaN differs from itself
        return True
    return bool(abs(kept) != float("inf") and number != int(number))


def _largest_exact(kind: Any) -> float:
    """Return up to where a type of floating point holds every whole number."""
    import numpy as np

    return float(2.0 ** (np.finfo(kind).nmant + 1))


def _end_of(kind: Any) -> float:
    """Return the first whole number above a type of integers or truth values."""
    import numpy as np

    return 2.0 if kind.kind == "b" else float(int(np.iinfo(kind).max) + 1)


def _objects(given: Any) -> list[Any]:
    return given.ravel().tolist() if given.dtype.kind == "O" else []
