"""What stands behind the id of a parametrised test, in words that two processes can compare.

An id such as `f0` is a position in a list. No code of the user is run to describe a value: neither its `repr` nor a
property of it. No description holds an address.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import pytest

_PLAIN: Sequence[Any] = (bool, int, float, complex, str, bytes, bytearray)
_ALONE = (type(None), type(...), type(NotImplemented))
_LAMBDA = "<lambda>"
_DEEPEST = 4  # values within values
_WIDEST = 20  # values that one holds
_MOST = 200  # values of one parameter, those within others included
_LONGEST = 160  # characters of a description
_LARGEST = 1 << 20  # bytes of an array that is told from others by its content
_DIGITS = 8  # of a digest
_TYPE = vars(type)


def parameters_of(item: pytest.Item) -> dict[str, str]:
    """Return the name of each parameter of a test → a description of its value."""
    given: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    places = {str(item.config.rootpath): "ROOT", str(Path(tempfile.gettempdir()).resolve()): "TMP"}
    return {name: _shortened(_Describer(places).describe(value)) for name, value in list(given.items())[:_WIDEST]}


def _shortened(text: str) -> str:
    """Return a text as it is, or its beginning with a digest of the whole."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… {_digest(text.encode('utf-8', 'surrogatepass'))}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


@dataclass(slots=True)
class _Describer:
    """Describes one parameter, up to a number of values in it."""

    places: Mapping[str, str]  # folder that may be another one on the other side → its name
    left: int = _MOST

    def describe(self, value: Any, depth: int = 0) -> str:
        """Describe a value of Python's own types by its content, and any other one by its type and fields."""
        kind = type(value)
        self.left -= 1
        for plain in _PLAIN:
            if issubclass(kind, plain):
                text = _shortened(self._placed(plain.__repr__(value)))
                return text if kind is plain else f"{_name_of(kind)}({text})"
        if issubclass(kind, PurePath):
            return f"{kind.__name__}({self._placed(PurePath.__str__(value))})"
        if kind is FunctionType:
            return f"{value.__module__}.{value.__qualname__}{self._joined(_within_function(value), depth)}"
        return _own_name(value, kind) or f"{_name_of(kind)}{self._content(value, kind, depth)}"

    def _content(self, value: Any, kind: type, depth: int) -> str:
        """Describe what a value holds."""
        if kind is MethodType:
            return self._joined((value.__func__, value.__self__), depth)
        if kind is partial:
            return self._joined((value.func, value.args, value.keywords), depth)
        if issubclass(kind, list | tuple):
            base: Any = list if issubclass(kind, list) else tuple
            return self._joined(base.__iter__(value), depth, base.__len__(value))
        if issubclass(kind, set | frozenset):
            base = set if issubclass(kind, set) else frozenset
            return self._joined(base.__iter__(value), depth, base.__len__(value), is_ordered=False)
        if issubclass(kind, dict):
            return self._joined((part for pair in dict.items(value) for part in pair), depth, dict.__len__(value))
        return _content_of_array(value, kind) or self._joined(_fields(value, kind), depth)

    def _joined(self, values: Iterable[Any], depth: int, count: int = 0, *, is_ordered: bool = True) -> str:
        """Describe the values within another one, or how many they are where that would lead too far."""
        if depth >= _DEEPEST or self.left <= 0 or (count > _WIDEST and not is_ordered):
            return f" of {count}" if count else ""
        found = list[str]()
        for value in values:
            if len(found) == 2 * _WIDEST or self.left <= 0:
                break
            found.append(self.describe(value, depth + 1))
        beyond = [f"{count} in all"] if count > _WIDEST else []
        return f"({', '.join([*(found if is_ordered else sorted(found)), *beyond])})" if found else ""

    def _placed(self, text: str) -> str:
        """Name folders that both sides have at places of their own."""
        for folder, name in self.places.items():
            text = text.replace(folder, name) if len(folder) > len(os.sep) else text
        return text


def _name_of(kind: type) -> str:
    """Return the qualified name of a class, whatever its metaclass makes of that."""
    module = vars(kind).get("__module__")
    name: str = _TYPE["__qualname__"].__get__(kind)
    return f"{module}.{name}" if isinstance(module, str) else name


def _own_name(value: Any, kind: type) -> str:
    """Return what names a value that is no data and has a name; "" of any other one."""
    if kind in _ALONE:
        return repr(value)
    if issubclass(kind, type):
        return _name_of(value)
    if kind is ModuleType:
        return f"module {vars(value).get('__name__')}"
    return f"{value.__module__ or 'builtins'}.{value.__qualname__}" if kind is BuiltinFunctionType else ""


def _within_function(function: FunctionType) -> Iterator[Any]:
    """Yield what a function was made with; of a lambda, which has no name, the names and constants in it too."""
    yield from function.__defaults__ or ()
    yield from map(_inside, function.__closure__ or ())
    if function.__name__ == _LAMBDA:
        yield from function.__code__.co_names
        yield from (one for one in function.__code__.co_consts if type(one) in (int, float, str, bytes))


def _inside(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is still empty
        return None


def _fields(value: Any, kind: type) -> Iterator[Any]:
    """Yield the names and values of an object's fields, past every property."""
    for one in kind.__mro__:
        for name, descriptor in list(vars(one).items()):
            if name == "__dict__" and type(descriptor) is GetSetDescriptorType:
                yield from (part for pair in descriptor.__get__(value).items() for part in pair)
            elif type(descriptor) is MemberDescriptorType and one.__module__ != "builtins":
                try:
                    content = descriptor.__get__(value)
                except AttributeError:  # it was never set
                    continue
                yield name
                yield content


def _content_of_array(value: Any, kind: type) -> str:
    """Describe an array by its shape, type and content; "" where it is none, or where it holds addresses."""
    if any(type(vars(one).get("__buffer__")) is FunctionType for one in kind.__mro__):
        return ""
    try:
        with memoryview(value) as view:
            if "O" in view.format:
                return ""
            content = _digest(view.tobytes()) if view.nbytes <= _LARGEST else ""
            return f"{view.shape} {view.format} {content}".rstrip()
    except (TypeError, ValueError, BufferError, NotImplementedError):
        return ""
