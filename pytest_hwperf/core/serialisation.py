"""Records ⇄ JSON and plain data, for stores, reports, pytest-xdist and the messages of fresh processes.

Plain data are dicts with text keys, lists, text, numbers, booleans and None of exactly the built-in types.
Reading is strict, so that a damaged or foreign file is named and never half read.
"""

import base64
import json
import math
import sys
from array import array
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NoReturn, TypeVar

import msgspec

from pytest_hwperf.core.errors import SerialisationError
from pytest_hwperf.core.records import SCHEMA, Values
from pytest_hwperf.core.structs import Record

R = TypeVar("R", bound=Record)
_UNUSABLE = (ValueError, TypeError, OverflowError, RecursionError)
_ONE, _ZERO = array("d", [1.0]).tobytes(), array("d", [0.0]).tobytes()  # neither holds the byte of a digit
_LONGEST_LIST = 64  # values: a longer array is packed, since text costs up to 24 bytes a value and base64 10.7


def to_json(record: Record) -> bytes:
    """Write a record as one line of JSON; numbers of numpy become built-in ones.

    It is read back at once: what is written can be read, and is what was meant.

    Raises:
        SerialisationError: a value that is not of its field's type, or a number that is not finite.
    """
    name = type(record).__name__
    try:
        text = _encoded(record)
        if from_json(type(record), text) == record:
            return text
        problem = f"{name}: it does not come back as it was written"
    except SerialisationError as error:
        problem = str(error)
    for lost in _not_finite(record, "$"):
        raise SerialisationError(f"{name}: {lost}")
    raise SerialisationError(problem)


def from_json(cls: type[R], text: bytes | str) -> R:
    """Build the record `cls` from what `to_json` wrote; a missing field has its default.

    Raises:
        SerialisationError: not JSON, an unknown field, a wrong type, an array of another length; the text names the
            path, as in ``Judgement: Expected `float`, got `str` - at `$.figures[2].estimate.value```.
    """
    try:
        try:
            record: R = _decoder(cls).decode(text)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            plain = json.loads(text, parse_constant=_refuse)  # it may have escapes of lone surrogates
            record = msgspec.convert(plain, cls, dec_hook=_read)
    except _UNUSABLE as error:
        raise SerialisationError(f"{cls.__name__}: {error}") from None
    return record


def to_plain(record: Record) -> dict[str, Any]:
    """Turn a record into plain data.

    Raises:
        SerialisationError: as `to_json`.
    """
    plain: dict[str, Any] = json.loads(to_json(record))
    return plain


def from_plain(cls: type[R], plain: object) -> R:
    """Build the record `cls` from what `to_plain` made.

    Raises:
        SerialisationError: as `from_json`; also where a field is missing that has a default, since what is written is
            complete, or where a number is not finite.
    """
    try:
        record = msgspec.convert(plain, cls, dec_hook=_read)
    except _UNUSABLE as error:
        raise SerialisationError(f"{cls.__name__}: {error}") from None
    for missing in _missing(plain, to_plain(record), "$"):
        raise SerialisationError(f"{cls.__name__}: {missing}")
    return record


def foreign(plain: object, what: str, *, other: str, older: str) -> str:
    """Say why a file with these fields cannot be read; "" where it can.

    Args:
        plain: its fields, or anything else.
        what: its field `what` has to say.
        other: what to do where it is something else.
        older: what to do where an earlier version has written it.
    """
    schema = plain.get("schema") if isinstance(plain, dict) and plain.get("what") == what else None
    if type(schema) is not int:
        return f"is not a {what}: {other}"
    versions = f"(schema {schema}, this one reads {SCHEMA})"
    if schema > SCHEMA:
        return f"was written by a newer pytest-hwperf {versions}: upgrade pytest-hwperf"
    return f"was written by an earlier pytest-hwperf {versions}: {older}" if schema < SCHEMA else ""


def _not_finite(value: Any, path: str) -> Iterator[str]:
    """Yield the numbers of a record that JSON cannot hold, with the path to each."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"Expected a finite number, got `{value}` - at `{path}`"
    elif isinstance(value, Record):
        for name in value.__struct_fields__:
            yield from _not_finite(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, tuple | array):
        for position, part in enumerate(value):
            yield from _not_finite(part, f"{path}[{position}]")
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _not_finite(part, f"{path}[{key!r}]")


def _missing(plain: Any, whole: Any, path: str) -> Iterator[str]:
    """Yield the fields of `whole` that `plain` lacks, with the path to each."""
    if isinstance(plain, dict) and isinstance(whole, dict):
        for name, value in whole.items():
            if name in plain:
                yield from _missing(plain[name], value, f"{path}.{name}")
            else:
                yield f"Object missing required field `{name}` - at `{path}`"
    elif isinstance(plain, list) and isinstance(whole, list):
        for position, (one, value) in enumerate(zip(plain, whole, strict=True)):
            yield from _missing(one, value, f"{path}[{position}]")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")


@cache
def _decoder(cls: type[R]) -> "msgspec.json.Decoder[R]":
    return msgspec.json.Decoder(cls, dec_hook=_read)


def _encoded(record: Record) -> bytes:
    try:
        try:
            return _ENCODER.encode(record)
        except UnicodeEncodeError:  # lone surrogates, as in names of files, are to be kept: JSON has escapes for them
            return json.dumps(msgspec.to_builtins(record, enc_hook=_written), separators=(",", ":")).encode("ascii")
    except _UNUSABLE as error:
        raise SerialisationError(f"{type(record).__name__}: {error}") from None


def _written(value: Any) -> Any:
    """Return the plain data of what msgspec does not know."""
    if isinstance(value, array):
        return _pack(value)
    if isinstance(value, Mapping):
        return dict(value)
    if getattr(value, "ndim", None) == 0:
        return value.item()  # of numpy
    raise TypeError(f"no record may hold {value!r}")


_ENCODER = msgspec.json.Encoder(enc_hook=_written)


def _read(_: type, plain: Any) -> Values:
    """Return the array that `_pack` wrote; a record has no other field that msgspec does not know."""
    match plain:
        case list() if {*map(type, plain)} <= {int, float}:
            return array("d", plain)
        case {"bits": str(bits), **others} if not others and not bits.strip("01"):
            return _of_bytes(bits.encode("ascii").replace(b"1", _ONE).replace(b"0", _ZERO))
        case {"f8le": str(text), "n": int(length), **others} if not others:
            return _unpack(text, length)
    raise ValueError("expected a list of numbers, bits, or f8le with n")


def _pack(values: Values) -> list[float] | dict[str, Any]:
    """Write an array of doubles: 0/1 values as bits, up to 64 as a readable list, more as little-endian base64."""
    if values.typecode != "d" or not _all_finite(values):
        raise ValueError('expected an array("d") of finite numbers')
    stored = values.tobytes()  # compared by their bytes, since -0.0 equals 0.0
    bits = stored.replace(_ONE, b"1").replace(_ZERO, b"0")
    if values and len(bits) == len(values):  # then nothing but ones and zeros was there
        return {"bits": bits.decode("ascii")}
    if len(values) <= _LONGEST_LIST:
        return values.tolist()
    return {"f8le": base64.b64encode(_little_endian(values).tobytes()).decode("ascii"), "n": len(values)}


def _unpack(text: str, length: int) -> Values:
    packed = base64.b64decode(text, validate=True)
    if len(packed) != len(_ONE) * length:
        raise ValueError(f"n is {length}, but there are {len(packed) / len(_ONE):g} values")
    values = _little_endian(_of_bytes(packed))
    if not _all_finite(values):
        raise ValueError("holds a number that is not finite")
    return values


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


def _all_finite(values: Values) -> bool:
    """Their sum is finite only if all are; where it is not, it may still have overflowed."""
    return math.isfinite(sum(values)) or all(map(math.isfinite, values))
