"""Records ⇄ plain data, for stores, the JSON report, pytest-xdist and the messages of fresh processes.

Plain data are dicts with text keys, lists, text, numbers, booleans and None of exactly the built-in types: they are
JSON, and execnet takes them too. Reading is strict, so that a damaged or foreign file is named and never half read.
"""

from array import array
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pytest_hwperf.core.errors import CodecError
from pytest_hwperf.core.leaves import MisfitError, misfit, number, pack, text, truth, unpack, whole
from pytest_hwperf.core.records import Record

SCHEMA = 1  # of everything that is written; raised when a reader of the old schema would misread the new

R = TypeVar("R")
Convert = Callable[[Any], Any]


class _Codec(NamedTuple):
    """Both directions of one type."""

    encode: Convert
    decode: Convert


def to_plain(record: object) -> dict[str, Any]:
    """Turn a record into plain data; numbers of numpy become built-in ones.

    What is no field (`Run.result`) is left out.

    Raises:
        CodecError: a value that is not of its field's type, or a number that is not finite.
    """
    cls: Any = type(record)
    try:
        plain: dict[str, Any] = _record(cls).encode(record)
    except MisfitError as error:
        raise CodecError(error.sentence(cls)) from None
    return plain


def from_plain(cls: type[R], plain: object) -> R:
    """Build the record `cls` from what `to_plain` made.

    Raises:
        CodecError: a missing or unknown field, a wrong type, a number that is not finite, an array of another length;
            the text names the path, as in `Judgement: figures[2].estimate.value: …`.
    """
    kind: Any = cls
    try:
        record: R = _record(kind).decode(plain)
    except MisfitError as error:
        raise CodecError(error.sentence(cls)) from None
    return record


@cache
def _codec(hint: Any) -> _Codec:
    """Return the codec of a type hint, as records use them."""
    if hint in _ATOMS:
        return _ATOMS[hint]
    if isinstance(hint, type) and issubclass(hint, Record):
        return _record(cast("Any", hint))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _choice(arguments)
    if origin is tuple:
        return _sequence(_codec(arguments[0]))
    if origin is Mapping:
        return _mapping(_codec(arguments[1]))
    if origin in {Union, UnionType}:
        return _union(arguments)
    raise TypeError(f"no record may hold a {hint}: the codec knows text, numbers, records, tuples and mappings")


def _union(arguments: tuple[Any, ...]) -> _Codec:
    """Return the codec of `X | None`, of several sets of words, or of several records (told apart by a tag)."""
    kinds = tuple(argument for argument in arguments if argument is not NoneType)
    if len(kinds) == 1:
        inner = _codec(kinds[0])
    elif all(get_origin(kind) is Literal for kind in kinds):
        inner = _choice(tuple(word for kind in kinds for word in get_args(kind)))
    else:
        inner = _tagged(kinds)
    if len(kinds) == len(arguments):
        return inner
    return _Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda plain: None if plain is None else inner.decode(plain),
    )


@cache
def _record(cls: Any) -> _Codec:
    """Return the codec of a record: a dict with every field."""
    if not issubclass(cls, Record):
        raise CodecError(f"{cls.__name__} is not a record: pass one of pytest_hwperf.core.records")
    hints = get_type_hints(cls)
    codecs = {name: _codec(hints[name]) for name in cls.__struct_fields__}
    return _Codec(_record_encoder(cls, codecs), _record_decoder(cls, codecs))


def _record_encoder(cls: Any, codecs: Mapping[str, _Codec]) -> Convert:
    steps = [(name, codec.encode) for name, codec in codecs.items()]

    def encode(record: object) -> dict[str, Any]:
        if type(record) is not cls:
            raise misfit(f"a {cls.__name__}", record)
        plain, name = {}, ""
        try:
            for name, convert in steps:
                plain[name] = convert(getattr(record, name))
        except MisfitError as error:
            error.under(f".{name}")
            raise
        return plain

    return encode


def _record_decoder(cls: Any, codecs: Mapping[str, _Codec]) -> Convert:
    steps = [(name, codec.decode) for name, codec in codecs.items()]

    def decode(plain: Any) -> object:
        if type(plain) is not dict:
            raise misfit(f"the fields of a {cls.__name__}", plain)
        if plain.keys() != codecs.keys():
            raise MisfitError(_field_problem(set(codecs), plain))
        found, name = {}, ""
        try:
            for name, convert in steps:
                found[name] = convert(plain[name])
        except MisfitError as error:
            error.under(f".{name}")
            raise
        return cls(**found)

    return decode


def _field_problem(names: set[str], plain: Mapping[Any, Any]) -> str:
    missing = sorted(names - plain.keys())
    if missing:
        return f"missing field {missing[0]!r}"
    unknown = sorted(map(str, plain.keys() - names))
    return f"unknown field {unknown[0]!r}"


def _tagged(classes: tuple[type, ...]) -> _Codec:
    """Return the codec of one record out of several: `{"Budget": {…}}`."""
    codecs = {cls.__name__: _record(cls) for cls in classes}
    allowed = " or ".join(codecs)

    def encode(record: object) -> dict[str, Any]:
        tag = type(record).__name__
        if tag not in codecs:
            raise misfit(f"a {allowed}", record)
        try:
            return {tag: codecs[tag].encode(record)}
        except MisfitError as error:
            error.under(f".{tag}")
            raise

    def decode(plain: Any) -> object:
        if type(plain) is not dict or len(plain) != 1 or not plain.keys() <= codecs.keys():
            raise misfit(f"one key, {allowed}", plain)
        ((tag, inner),) = plain.items()
        try:
            return codecs[tag].decode(inner)
        except MisfitError as error:
            error.under(f".{tag}")
            raise

    return _Codec(encode, decode)


def _sequence(inner: _Codec) -> _Codec:
    """Return the codec of a tuple of any length: a list."""

    def each(convert: Convert, items: Any) -> list[Any]:
        done: list[Any] = []
        try:
            for item in items:
                done.append(convert(item))  # noqa: PERF401 - its length is the index of the misfit
        except MisfitError as error:
            error.under(f"[{len(done)}]")
            raise
        return done

    def encode(items: Any) -> list[Any]:
        if type(items) is not tuple:
            raise misfit("a tuple", items)
        return each(inner.encode, items)

    def decode(plain: Any) -> tuple[Any, ...]:
        if type(plain) is not list:
            raise misfit("a list", plain)
        return tuple(each(inner.decode, plain))

    return _Codec(encode, decode)


def _mapping(inner: _Codec) -> _Codec:
    """Return the codec of a mapping from text."""

    def each(convert: Convert, items: Mapping[Any, Any]) -> dict[str, Any]:
        done, key = {}, ""
        try:
            for key, value in items.items():
                done[text(key)] = convert(value)
        except MisfitError as error:
            error.under(f"[{key!r}]")
            raise
        return done

    def encode(items: Any) -> dict[str, Any]:
        if not isinstance(items, Mapping):
            raise misfit("a mapping", items)
        return each(inner.encode, items)

    def decode(plain: Any) -> dict[str, Any]:
        if type(plain) is not dict:
            raise misfit("a mapping", plain)
        return each(inner.decode, plain)

    return _Codec(encode, decode)


def _choice(words: tuple[str, ...]) -> _Codec:
    """Return the codec of one word out of a fixed set."""
    allowed = frozenset(words)

    def check(value: Any) -> str:
        word = text(value)
        if word not in allowed:
            raise misfit(f"one of {', '.join(dict.fromkeys(words))}", word)
        return word

    return _Codec(check, check)


_ATOMS: dict[Any, _Codec] = {
    str: _Codec(text, text),
    bool: _Codec(truth, truth),
    int: _Codec(whole, whole),
    float: _Codec(number, number),
    array: _Codec(pack, unpack),
}
