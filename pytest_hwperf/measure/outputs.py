"""Outputs of a call: NaN, which only a broken model returns."""

import sys

from pytest_hwperf.core.errors import MeasurementError


def is_numeric(output: object) -> bool:
    """Whether it is a plain array of floating-point numbers, in which NaN is an error.

    A list, a data frame or a masked array may hold NaN on purpose, for missing values.
    """
    if "numpy" not in sys.modules:  # then there is no array
        return False
    import numpy as np

    return type(output) is np.ndarray and output.dtype.kind == "f"


def refuse_nan(output: object) -> None:
    """Refuse an array of numbers with NaN; other outputs are not looked at.

    Raises:
        MeasurementError: says how many of how many.
    """
    if not is_numeric(output):
        return
    import numpy as np

    missing = np.isnan(output)  # type: ignore[call-overload] # an array, as checked
    if bad := int(missing.sum()):
        raise MeasurementError(f"{bad} of {missing.size} outputs of one batch are NaN: the model is broken here")
