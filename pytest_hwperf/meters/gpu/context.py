"""The context of this process on its first GPU, which every runtime shares: made before a model, it is no model's.

Reference: CUDA driver API, primary context management.
"""

import ctypes
from typing import Any

from pytest_hwperf.core.errors import MeasurementError

_LIBRARY = "libcuda.so.1"
_NONE = "no context could be made on the GPU"


def make_context(driver: Any = None) -> None:
    """Make the primary context of the first GPU, where there is none yet."""
    try:
        driver = driver or ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise MeasurementError(f"{_NONE}: {error}") from error
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for name, arguments in (
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device)),
    ):
        if code := getattr(driver, name)(*arguments):
            raise MeasurementError(f"{_NONE}: {name} answers error {code}")
