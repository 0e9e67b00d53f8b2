"""What a call has returned: whether it can be the work of a model that is whole."""

import sys

from pytest_hwperf.core.errors import MeasurementError


def is_numeric(output: object) -> bool:
    """Whether it is a plain array of floating-point numbers, in which NaN marks nothing.

    A list, a data frame or a masked array may hold NaN on purpose, for what is missing.
    """
    if "numpy" not in sys.modules:  # then nobody has made an array
        return False
    import numpy as np

    return type(output) is np.ndarray and output.dtype.kind == "f"


def refuse_nan(output: object) -> None:
    """Refuse an array of numbers that holds NaN; of anything else nothing is known.

    Raises:
        MeasurementError: says how many of how many.
    """
    if not is_numeric(output):
        return
    import numpy as np

    missing = np.isnan(output)  # type: ignore[call-overload] # an array, as was asked
    if bad := int(missing.sum()):
        raise MeasurementError(f"{bad} of {missing.size} outputs of one batch are NaN: the model is broken here")
