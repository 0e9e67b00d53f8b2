"""Outputs of a call: NaN, which only a broken model returns, and arrays that are computed later."""

import sys

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.statements import Statement, state


def is_numeric(output: object) -> bool:
    """Whether it is a plain array of floating-point numbers, in which NaN is an error.

    A list, a data frame or a masked array may hold NaN on purpose, for missing values.
    """
    if "numpy" not in sys.modules:  # then there is no array
        return False
    import numpy as np

    return type(output) is np.ndarray and output.dtype.kind == "f"


def refuse_nan(output: object) -> None:
    """Refuse an array of numbers with NaN; other outputs are not looked at."""
    if not is_numeric(output):
        return
    import numpy as np

    missing = np.isnan(output)  # type: ignore[call-overload] # an array, as checked
    if bad := int(missing.sum()):
        raise MeasurementError(f"{bad} of {missing.size} outputs of one batch are NaN: the model is broken here")


def why_unfinished(output: object) -> Statement | None:
    """Say that an array is not computed yet, right after the call that returned it; None of other outputs.

    Those of JAX tell. What PyTorch and CuPy compute on a GPU is waited for within the timed call.
    """
    first = output[0] if isinstance(output, list | tuple) and output else output
    is_ready = getattr(first, "is_ready", None)
    if not hasattr(first, "block_until_ready") or not callable(is_ready) or is_ready():
        return None
    return state("not waited for", value=f"{type(first).__module__}.{type(first).__qualname__}")
