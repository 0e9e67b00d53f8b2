"""Serialisation of records as JSON, for stores, reports, pytest-xdist and fresh processes; reading is strict."""

import base64
import json
import math
import sys
from array import array
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NoReturn, TypeVar

import msgspec

from pytest_hwperf.records.errors import SerialisationError
from pytest_hwperf.records.run import Values
from pytest_hwperf.records.structs import LARGEST, Record

_ONE, _ZERO = array("d", [1.0]).tobytes(), array("d", [0.0]).tobytes()  # neither holds the byte of a digit
_CHUNK = 4096  # values whose norm is taken at once
_LONGEST_LIST = 64  # values: a longer array is packed, since text costs up to 24 bytes a value and base64 10.7
R = TypeVar("R", bound=Record)
T = TypeVar("T")
_UNUSABLE = (ValueError, TypeError, OverflowError, RecursionError)


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
    values, parts = array("d"), plain if isinstance(plain, dict) else {}
    bits, text, length = parts.get("bits"), parts.get("f8le"), parts.get("n")
    if isinstance(plain, list) and {*map(type, plain)} <= {int, float}:
        values.extend(plain)
    elif isinstance(bits, str) and len(parts) == 1 and not bits.strip("01"):
        values.frombytes(bits.encode("ascii").replace(b"1", _ONE).replace(b"0", _ZERO))
    elif isinstance(text, str) and isinstance(length, int) and len(parts) == 2:  # noqa: PLR2004 - these two
        packed = base64.b64decode(text, validate=True)
        if len(packed) != len(_ONE) * length:
            raise ValueError(f"n is {length}, but there are {len(packed) / len(_ONE):g} values")
        values.frombytes(packed)
        values = _little_endian(values)
    else:
        raise ValueError("expected a list of numbers, bits, or f8le with n")
    if not _in_range(values):
        raise ValueError(f"holds a number that is not within ±{LARGEST:g}")
    return values


def _little_endian(values: Values) -> Values:
    """Swap the bytes on a big-endian machine; the same way back."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values


def _in_range(values: Values) -> bool:
    """No number is larger than the norm of all; where that is too large, each is looked at."""
    if len(values) > _CHUNK:
        return all(_in_range(values[first : first + _CHUNK]) for first in range(0, len(values), _CHUNK))
    return math.hypot(*values) <= LARGEST or all(abs(value) <= LARGEST for value in values)


def to_json(record: Record, *, check: bool = True) -> bytes:
    """Write a record as one line of JSON; numbers of numpy become built-in ones.

    It is read back at once: what is written can be read, and is what was meant.
    """
    name = type(record).__name__
    try:
        text = _encoded(record)
        if not check or from_json(type(record), text) == record:
            return text
        problem = f"{name}: it does not come back as it was written"
    except SerialisationError as error:
        problem = str(error)
    for lost in _not_finite(record, "$"):
        raise SerialisationError(f"{name}: {lost}")
    raise SerialisationError(problem)


def to_short_json(record: Record) -> bytes:
    """Write a record without the fields that have their default: `from_json` reads the same from it.

    A version that has more fields, each with a default, writes what an earlier one has written in the same words.
    """
    return _encoded(_short(record))


def from_json(cls: type[R], text: bytes | str) -> R:
    """Build the record `cls` from what `to_json` wrote; a field that is missing has its default."""
    try:
        record: R = _decoder(cls).decode(text)
    except msgspec.ValidationError as error:
        raise SerialisationError(f"{cls.__name__}: {error}") from None
    except _UNUSABLE:  # JSON of the standard library may have escapes of lone surrogates
        return _converted(cls, _parsed(cls, text))
    return record


def from_foreign(form: type[T], text: bytes) -> T:
    """Build what JSON of another program holds; fields that are not asked for are skipped."""
    try:
        return msgspec.json.decode(text, type=form)
    except _UNUSABLE as error:
        raise SerialisationError(str(error)) from None


def from_file(cls: type[R], text: bytes, *, other: str, older: str) -> R:
    """Build the record of a whole file, which says what it is in the field `what` and has a field `schema`."""
    what = cls.__struct_config__.tag
    reads = next(field.default for field in msgspec.structs.fields(cls) if field.name == "schema")
    try:
        plain = _parsed(cls, text)
    except SerialisationError:
        raise SerialisationError(f"is not whole JSON: {other}") from None
    schema = plain.get("schema") if isinstance(plain, dict) and plain.get("what") == what else None
    if type(schema) is not int:
        raise SerialisationError(f"holds no {what}: {other}")
    versions = f"pytest-hwperf (schema {schema}, this one reads {reads})"
    if schema > reads:
        raise SerialisationError(f"was written by a newer {versions}: upgrade pytest-hwperf")
    if schema < reads:
        raise SerialisationError(f"was written by an earlier {versions}: {older}")
    try:
        record = _converted(cls, plain)
        missing = next(_missing(plain, json.loads(to_json(record)), "$"), "")
    except SerialisationError as error:
        raise SerialisationError(f"holds no valid {what} ({error}): {other}") from None
    if missing:
        raise SerialisationError(f"holds no valid {what} ({cls.__name__}: {missing}): {other}")
    return record


def _not_finite(value: Any, path: str) -> Iterator[str]:
    """Yield the numbers of a record that JSON cannot hold, with the path to each."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"Expected a finite number, got `{value}` - at `{path}`"
    elif isinstance(value, Record):
        for name in value.__struct_fields__:
            yield from _not_finite(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, tuple | list | array):
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


@cache
def _decoder(cls: type[R]) -> "msgspec.json.Decoder[R]":
    return msgspec.json.Decoder(cls, dec_hook=lambda _, plain: unpack(plain))  # no other field is unknown to msgspec


def _converted(cls: type[R], plain: object) -> R:
    try:
        return msgspec.convert(plain, cls, dec_hook=lambda _, packed: unpack(packed))
    except _UNUSABLE as error:
        raise SerialisationError(f"{cls.__name__}: {error}") from None


def _parsed(cls: type, text: bytes | str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except _UNUSABLE as error:
        raise SerialisationError(f"{cls.__name__}: {error}") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")


def _short(value: Any) -> Any:
    if isinstance(value, Record):
        tag, fields = _form(type(value))
        found = ((field, getattr(value, field)) for field in fields)
        return tag | {field: _short(own) for field, own in found if not _is_default(fields[field], own)}
    if isinstance(value, Mapping):
        return {key: _short(own) for key, own in value.items()}
    return [_short(own) for own in value] if isinstance(value, tuple | list) else value


def _is_default(default: Any, value: Any) -> bool:
    return type(value) is type(default) and value == default and repr(value) == repr(default)  # -0.0 is not 0.0


@cache
def _form(cls: type[Record]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tag of a record, and its fields with their defaults; none is renamed."""
    config = cls.__struct_config__
    fields = msgspec.structs.fields(cls)
    made = {field.name: field.default_factory() for field in fields if field.default_factory is not msgspec.NODEFAULT}
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    return tag, {field.name: made.get(field.name, field.default) for field in fields}


def _encoded(record: Any) -> bytes:
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
        return pack(value)
    if isinstance(value, Mapping):
        return dict(value)
    if getattr(value, "ndim", None) == 0:
        return value.item()  # of numpy
    raise TypeError(f"no record may hold {value!r}")


_ENCODER = msgspec.json.Encoder(enc_hook=_written)
