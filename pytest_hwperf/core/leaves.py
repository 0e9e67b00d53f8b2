"""Leaves of the codec: single values and arrays, checked strictly in both directions."""

import base64
import math
import reprlib
import struct
from array import array
from typing import Any

_ONE, _ZERO = struct.pack("d", 1.0), struct.pack("d", 0.0)  # neither holds the byte of a digit
_LONGEST_LIST = 64  # values: a longer array is packed, since text costs up to 24 bytes a value and base64 10.7


class MisfitError(Exception):
    """A value that is not of its type; collects the path to it on the way up."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.path: list[str] = []

    def under(self, step: str) -> "MisfitError":
        """Note the step that led to it, and return itself; called from the inside out."""
        self.path.append(step)
        return self

    def sentence(self, cls: type) -> str:
        """Return where and what, as `Report: judgements[2].run.test: expected text, found 5`."""
        path = "".join(reversed(self.path)).removeprefix(".")
        return ": ".join(part for part in (cls.__name__, path, str(self)) if part)


def misfit(expected: str, found: object) -> MisfitError:
    """Say what was expected and what was found instead."""
    return MisfitError(f"expected {expected}, found {reprlib.repr(found)}")


def text(value: Any) -> str:
    """Check text.

    Raises:
        MisfitError: something else.
    """
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise misfit("text", value)
    return str(value)  # numpy.str_ is a str, but not one that crosses execnet


def _builtin(value: Any) -> Any:
    """Return the built-in number in a scalar of numpy, everything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def truth(value: Any) -> bool:
    """Check a truth value; numpy's own becomes the built-in one.

    Raises:
        MisfitError: something else.
    """
    value = _builtin(value)
    if type(value) is not bool:
        raise misfit("true or false", value)
    return value


def whole(value: Any) -> int:
    """Check a whole number; numpy's own becomes the built-in one.

    Raises:
        MisfitError: something else.
    """
    if type(value) is not int:
        value = _builtin(value)
        if type(value) is not int:
            raise misfit("a whole number", value)
    return value


def number(value: Any) -> float:
    """Check a finite number; a whole one becomes a float.

    Raises:
        MisfitError: something else, NaN or infinity.
    """
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is not float:
        value = _builtin(value)
        if type(value) not in {float, int}:
            raise misfit("a finite number", value)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        finite = False
    if not finite:
        raise misfit("a finite number", value)
    return float(value)


def pack(values: Any) -> list[float] | dict[str, Any]:
    """Write an array of doubles: 0/1 values as bits, up to 64 as a readable list, more as little-endian base64."""
    if not isinstance(values, array) or values.typecode != "d":
        raise misfit('an array("d")', values)
    length = len(values)
    if not _all_finite(values):
        position = [math.isfinite(value) for value in values].index(False)
        raise misfit("a finite number", values[position]).under(f"[{position}]")
    stored = values.tobytes()  # compared by their bytes, since -0.0 equals 0.0
    bits = stored.replace(_ONE, b"1").replace(_ZERO, b"0")
    if length and len(bits) == length and _of_bits(bits) == stored:
        return {"bits": bits.decode("ascii")}
    if length <= _LONGEST_LIST:
        return values.tolist()
    packed = struct.pack(f"<{length}d", *values)
    return {"f8le": base64.b64encode(packed).decode("ascii"), "n": length}


def _numbered(item: tuple[int, Any]) -> float:
    position, value = item
    try:
        return number(value)
    except MisfitError as misfitting:
        raise misfitting.under(f"[{position}]") from None


def _of_bits(bits: bytes) -> bytes:
    return bits.replace(b"1", _ONE).replace(b"0", _ZERO)


def _all_finite(values: "array[float]") -> bool:
    """Their sum is finite only if all are; where it is not, it may still have overflowed."""
    return math.isfinite(sum(values)) or all(map(math.isfinite, values))


def unpack(plain: Any) -> "array[float]":
    """Read what `pack` wrote."""
    if type(plain) is list:
        return array("d", map(_numbered, enumerate(plain)))
    if type(plain) is not dict or plain.keys() not in ({"bits"}, {"f8le", "n"}):
        raise misfit("a list, bits, or f8le with n", plain)
    if "bits" in plain:
        bits = text(plain["bits"])
        if bits.strip("01"):
            raise misfit("only 0 and 1", bits).under(".bits")
        return array("d", _of_bits(bits.encode("ascii")))
    return _unpack_doubles(text(plain["f8le"]), whole(plain["n"]))


def _unpack_doubles(text: str, length: int) -> "array[float]":
    try:
        packed = base64.b64decode(text, validate=True)
    except ValueError:
        raise misfit("base64", text).under(".f8le") from None
    if len(packed) != 8 * length:
        raise MisfitError(f"n is {length}, but there are {len(packed) / 8:g} values")
    values = array("d", struct.unpack(f"<{length}d", packed))
    if not _all_finite(values):
        raise MisfitError("holds a number that is not finite")
    return values
