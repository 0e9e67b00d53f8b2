"""Arrays of numbers as JSON holds them: 0/1 values as bits, few as a list, many as base64 of little-endian doubles."""

import base64
import math
import sys
from array import array
from typing import Any

from pytest_hwperf.core.records import Values
from pytest_hwperf.core.structs import LARGEST

_ONE, _ZERO = array("d", [1.0]).tobytes(), array("d", [0.0]).tobytes()  # neither holds the byte of a digit
_CHUNK = 4096  # values whose norm is taken at once
_LONGEST_LIST = 64  # values: a longer array is packed, since text costs up to 24 bytes a value and base64 10.7


def pack(values: Values) -> list[float] | dict[str, Any]:
    """Return the plain data of an array of doubles."""
    stored = values.tobytes()  # compared by their bytes, since -0.0 equals 0.0
    bits = stored.replace(_ONE, b"1").replace(_ZERO, b"0")
    if values and values.typecode == "d" and len(bits) == len(values):  # then nothing but ones and zeros was there
        return {"bits": bits.decode("ascii")}
    if values.typecode != "d" or not _in_range(values):
        raise ValueError(f'expected an array("d") of numbers within ±{LARGEST:g}')
    if len(values) <= _LONGEST_LIST:
        return values.tolist()
    return {"f8le": base64.b64encode(_little_endian(values).tobytes()).decode("ascii"), "n": len(values)}


def unpack(plain: object) -> Values:
    """Return the array that `pack` wrote."""
    if isinstance(plain, list) and {*map(type, plain)} <= {int, float}:
        return _checked(array("d", plain))
    parts = plain if isinstance(plain, dict) else {}
    bits, text, length = parts.get("bits"), parts.get("f8le"), parts.get("n")
    if isinstance(bits, str) and len(parts) == 1 and not bits.strip("01"):
        return _of_bytes(bits.encode("ascii").replace(b"1", _ONE).replace(b"0", _ZERO))
    if isinstance(text, str) and isinstance(length, int) and len(parts) == 2:  # noqa: PLR2004 - these two
        return _of_base64(text, length)
    raise ValueError("expected a list of numbers, bits, or f8le with n")


def _of_base64(text: str, length: int) -> Values:
    packed = base64.b64decode(text, validate=True)
    if len(packed) != len(_ONE) * length:
        raise ValueError(f"n is {length}, but there are {len(packed) / len(_ONE):g} values")
    return _checked(_little_endian(_of_bytes(packed)))


def _of_bytes(packed: bytes) -> Values:
    values = array("d")
    values.frombytes(packed)
    return values


def _little_endian(values: Values) -> Values:
    """Swap the bytes on a big-endian machine; the same way back."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values


def _checked(values: Values) -> Values:
    if not _in_range(values):
        raise ValueError(f"holds a number that is not within ±{LARGEST:g}")
    return values


def _in_range(values: Values) -> bool:
    """No number is larger than the norm of all; where that is too large, each is looked at."""
    if len(values) > _CHUNK:
        return all(_in_range(values[first : first + _CHUNK]) for first in range(0, len(values), _CHUNK))
    return math.hypot(*values) <= LARGEST or all(abs(value) <= LARGEST for value in values)
