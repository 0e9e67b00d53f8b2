"""What objects hold at one moment, so far as a call may change it: arrays, frames, containers, fields.

A look takes a few milliseconds at most: large arrays and long lists are looked at in places that are evenly apart.
"""

import math
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field
from itertools import islice
from mmap import mmap
from random import Random
from time import thread_time_ns
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Literal

_LOOK_NS = 6_000_000  # of processor time: three looks take less than 1 % of the time of a measurement
_MOST_BYTES = 1 << 16  # that are read of an array
_MOST_ITEMS = 4000  # that are compared of a container
_MOST_PARTS = 100  # that are looked into of a container
_DEEPEST = 6
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_BUFFERS = (bytearray, memoryview, array, mmap)
# Code, and generators of random numbers: their state is another one in every call, and is no data.
_NO_DATA = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Random)
_NO_DATA_OF = frozenset(("_pytest", "pluggy", "pytest_hwperf"))  # packages whose objects serve the test

Form = Literal["plain", "array", "sequence", "mapping", "set", "fields", "closed"]
Changes = dict[tuple[object, ...], bool]  # path to what is changed → whether that is certain to be a change of input


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldContent:
    """What one object holds."""

    form: Form
    kind: type
    own: Any = None  # a plain value, a digest, the plain items of a container, the object itself
    size: int = 0  # items of a container
    is_blank: bool = False  # whether an array repeats one value, as one that is only there to be filled
    parts: Mapping[Any, "HeldContent"] = field(default_factory=dict)

    def changes(  # noqa: PLR0911 - one for each form
        self, now: "HeldContent", *, is_given: bool, path: tuple[object, ...] = ()
    ) -> Changes:
        """Return what is not the same `now`.

        A change of what is given for the calls is certain. In the fields of an object only what has gone is.
        """
        if self.form == "closed" or self.is_free():
            is_other = self.form == "closed" and is_given and bool(path) and self.own is not now.own
            return {path: True} if is_other else {}
        if now.form == "closed" and now.kind is self.kind:  # there was no time for it
            return {}
        if (self.form, self.kind) != (now.form, now.kind):
            return {} if not is_given and _is_private(path) else {path: is_given}
        if self.form in ("plain", "array"):
            return {} if _are_equal(self.own, now.own) else {path: is_given}
        if self.form == "fields":
            if is_given and path and self.own is not now.own:  # objects of a list that is sorted, for instance
                return {path: True}
            return self._changes_of_fields(now, path)
        return self._changes_of_items(now, is_given=is_given, path=path)

    def is_free(self) -> bool:
        """Whether it is a place to be filled."""
        return self.is_blank or (self.form == "plain" and self.own is None)

    def _changes_of_items(self, now: "HeldContent", *, is_given: bool, path: tuple[object, ...]) -> Changes:
        is_cache = self.form != "sequence" and not is_given and _is_private(path)
        keeps_keys = self.form == "sequence" or self.own.keys() <= now.own.keys()
        if now.size < self.size or not keeps_keys:
            # A cache drops old items, and is not empty afterwards.
            if is_cache:
                return {} if now.size else {path: False}
            return {path: True}
        found: Changes = {path: True} if is_given and now.size > self.size else {}
        if self.form != "sequence":
            are_kept = all(_is_kept(value, now.own[key]) for key, value in self.own.items())
        else:  # the places of a long one, which has grown, are others now
            are_kept = self.size < now.size > _MOST_ITEMS or all(map(_is_kept, self.own, now.own))
        if not are_kept:
            found[path] = is_given
        for key in self.parts.keys() & now.parts.keys():
            found |= self.parts[key].changes(now.parts[key], is_given=is_given, path=(*path, key))
        return found

    def _changes_of_fields(self, now: "HeldContent", path: tuple[object, ...]) -> Changes:
        found: Changes = {}
        for name, before in self.parts.items():
            here = (*path, name)
            if name not in now.parts:
                found |= {} if now.size >= self.size else {here: True}
            elif before.form != "plain":
                found |= before.changes(now.parts[name], is_given=False, path=here)
            elif before.is_used_up(now.parts[name]) and not _is_private(here):
                found[here] = False
        return found

    def is_used_up(self, now: "HeldContent") -> bool:
        """Whether a number of a field is zero now, or a text shorter; else it counts something, or says how it went."""
        if isinstance(self.own, int | float) and not isinstance(self.own, bool):
            return bool(self.own) and now.own == 0
        return isinstance(self.own, str | bytes) and isinstance(now.own, str | bytes) and len(now.own) < len(self.own)


def look(values: Mapping[str, object]) -> Mapping[str, HeldContent]:
    """Return what each of the values holds."""
    looker = _Looker()
    return {name: looker.look(value, 0) for name, value in values.items()}


def is_made_of_fields(value: object) -> bool:
    """Whether a value is an object with fields, which may keep something from call to call."""
    return _form_of(value) == "fields"


def is_counted(value: object) -> bool:
    """Whether a value is an array, a frame or a list, whose items are counted without a call of the user's code."""
    has_items = isinstance(value, Sized) and getattr(value, "shape", None) != ()
    return has_items and is_data(value) and not is_made_of_fields(value)


def is_data(value: object) -> bool:
    """Whether a value holds rows, alone or in its fields: no plain value, which tells a state, and no table of names.

    Tables of names that a module or a class keeps are mostly caches.
    """
    return _form_of(value) not in ("plain", "closed", "mapping", "set")


def _form_of(value: object) -> Form | Literal["frame", "column"]:  # noqa: PLR0911 - one for each form
    if isinstance(value, _PLAIN):
        return "plain"
    if isinstance(value, _NO_DATA) or type(value).__module__.partition(".")[0] in _NO_DATA_OF:
        return "closed"
    if isinstance(value, list | tuple | deque):
        return "sequence"
    if isinstance(value, dict):
        return "mapping"
    if isinstance(value, set | frozenset):
        return "set"
    kind = type(value)
    if hasattr(kind, "iloc") and hasattr(kind, "items"):
        return "frame" if hasattr(kind, "columns") or hasattr(value, "columns") else "column"
    if isinstance(value, _BUFFERS) or hasattr(kind, "__array__"):
        return "array"
    return "fields" if _fields_of(value) else "closed"


class _Looker:
    """Looks at values until its time is over; what is left then is closed to it."""

    def __init__(self) -> None:
        self._deadline_ns = thread_time_ns() + _LOOK_NS
        self._inside = set[int]()  # objects that are being looked into: they may hold themselves

    def look(self, value: Any, depth: int) -> HeldContent:
        form = _form_of(value)
        kind = type(value)
        if form == "plain":
            return HeldContent(form="plain", kind=kind, own=value)
        is_over = depth > _DEEPEST or id(value) in self._inside or self._is_over()
        if form == "closed" or is_over:
            return HeldContent(form="closed", kind=kind, own=value)
        self._inside.add(id(value))
        try:
            return self._look_into(value, form, depth)
        except Exception:  # noqa: BLE001 - tensors of another device, frames of other libraries: theirs cannot be read
            return HeldContent(form="closed", kind=kind, own=value)
        finally:
            self._inside.discard(id(value))

    def _is_over(self) -> bool:
        return thread_time_ns() > self._deadline_ns

    def _look_into(  # noqa: PLR0911 - one for each form
        self, value: Any, form: Form | Literal["frame", "column"], depth: int
    ) -> HeldContent:
        kind = type(value)
        match form:
            case "sequence":
                return self._sequence(value, depth)
            case "mapping":
                return self._mapping(value, dict(islice(value.items(), _MOST_ITEMS)), len(value), depth)
            case "set":
                own = dict.fromkeys(value) if len(value) <= _MOST_ITEMS else {}  # which have no order to take some by
                return HeldContent(form="set", kind=kind, own=own, size=len(value))
            case "frame":
                columns: dict[object, Any] = {
                    number: column for number, (_, column) in enumerate(islice(value.items(), _MOST_PARTS))
                }
                columns["index"] = value.index
                parts = {key: self._column(column, depth + 1) for key, column in columns.items()}
                parts["names"] = _names_of(value.columns)
                return HeldContent(form="sequence", kind=kind, own=(), size=len(value), parts=parts)
            case "column":
                parts = {"index": self._column(value.index, depth + 1), "values": self._column(value, depth + 1)}
                parts["names"] = _names_of([getattr(value, "name", None)])
                return HeldContent(form="sequence", kind=kind, own=(), size=len(value), parts=parts)
            case "array":
                return self._array(value, depth)
        fields = _fields_of(value)
        parts = {name: self.look(one, depth + 1) for name, one in islice(fields.items(), _MOST_PARTS)}
        return HeldContent(form="fields", kind=kind, own=value, size=len(fields), parts=parts)

    def _sequence(self, value: Any, depth: int) -> HeldContent:
        step = math.ceil(len(value) / _MOST_ITEMS)
        items = value[::step] if step > 1 and isinstance(value, list | tuple) else [*islice(value, 0, None, step or 1)]
        own = [one if isinstance(one, _PLAIN) else None for one in items]
        step = max(1, len(items) // _MOST_PARTS)
        parts = {
            number: self.look(one, depth + 1)
            for number, one in enumerate(items)
            if number % step == 0 and not isinstance(one, _PLAIN)
        }
        return HeldContent(form="sequence", kind=type(value), own=own, size=len(value), parts=parts)

    def _mapping(self, value: Any, items: Mapping[Any, Any], size: int, depth: int) -> HeldContent:
        own = {key: one if isinstance(one, _PLAIN) else None for key, one in items.items()}
        open_ones = ((key, one) for key, one in items.items() if not isinstance(one, _PLAIN))
        parts = {key: self.look(one, depth + 1) for key, one in islice(open_ones, _MOST_PARTS)}
        return HeldContent(form="mapping", kind=type(value), own=own, size=size, parts=parts)

    def _column(self, column: Any, depth: int) -> HeldContent:
        """Look at a column of a frame or at its index; one of categories by their numbers, one of texts in places."""
        if self._is_over():
            return HeldContent(form="closed", kind=type(column), own=column)
        held = column.array
        if hasattr(held, "codes"):
            parts = {"codes": self._array(held.codes, depth), "categories": self._column(held.categories, depth + 1)}
            return HeldContent(form="sequence", kind=type(held), own=(), size=len(held), parts=parts)
        if getattr(getattr(held, "dtype", None), "kind", "O") in "OUST":
            held = held[:: max(1, len(held) // _MOST_PARTS)]
        return self._array(held, depth)

    def _array(self, value: Any, depth: int) -> HeldContent:
        kind = type(value)
        if isinstance(value, _BUFFERS):
            view = memoryview(value)
            place = (view.format, view.shape)
            view = view if view.contiguous else memoryview(view.tobytes())
            content = view.cast("B")[:: max(1, view.nbytes // _MOST_BYTES)].tobytes()
            return HeldContent(form="array", kind=kind, own=(place, zlib.crc32(content)), is_blank=_repeats(content, 1))
        shape = tuple(getattr(value, "shape", ()))
        found = _in_places(value, shape)
        plain = found if hasattr(found, "tobytes") else _array_of(found)
        if plain.dtype.hasobject:
            held = self._sequence([*plain.reshape(-1)], depth)
            return HeldContent(form="sequence", kind=kind, own=held.own, size=math.prod(shape), parts=held.parts)
        content = plain.tobytes()
        own = (shape, plain.shape, str(plain.dtype), zlib.crc32(content))
        return HeldContent(form="array", kind=kind, own=own, is_blank=_repeats(content, plain.dtype.itemsize))


def _names_of(columns: Any) -> HeldContent:
    """Return the names of a frame's columns, as texts, and how many there are."""
    own = [str(name) for name in islice(columns, _MOST_PARTS)]
    return HeldContent(form="sequence", kind=list, own=own, size=len(columns))


def _in_places(value: Any, shape: tuple[int, ...]) -> Any:
    """Return an array, of a large one items that are evenly apart: first of its rows, then within them."""
    surplus = getattr(value, "nbytes", 0) / _MOST_BYTES
    if surplus <= 1 or not shape:
        return value
    step = min(math.ceil(surplus), max(1, shape[0] // 2))
    value = value[::step]
    return value[..., :: math.ceil(surplus / step)] if step < surplus and len(shape) > 1 else value


def _array_of(tensor: Any) -> Any:
    """Return the plain array of what can be converted to one; of a tensor that records gradients without these."""
    return (tensor.detach() if hasattr(tensor, "detach") else tensor).__array__()


def _repeats(content: bytes, size: int) -> bool:
    """Whether the bytes are those of one value all along."""
    return bool(size) and content == content[:size] * (len(content) // size)


def _is_kept(before: object, now: object) -> bool:
    """Whether an item is the same; None is a free place, or stands for what is looked into."""
    return before is None or _are_equal(before, now)


def _are_equal(one: object, other: object) -> bool:
    """Whether plain values are the same: other objects are compared by what they hold."""
    return one is other or (type(one) is type(other) and (one == other or (one != one and other != other)))  # noqa: PLR0124 - not a number


def _fields_of(value: object) -> dict[str, Any]:
    """Return the fields of an object, without a call of its own code."""
    found = dict[str, Any]()
    for kind in reversed(type(value).__mro__):
        for name in _slots_of(kind):
            descriptor = vars(kind).get(name)
            try:
                found[name] = descriptor.__get__(value)  # type: ignore[union-attr] # a slot has one
            except AttributeError:
                continue
    try:
        found.update(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        return found
    return found


def _slots_of(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else slots
    hidden = (f"_{kind.__name__.lstrip('_')}{name}" for name in names if name.startswith("__") and name[-2:] != "__")
    return [*(name for name in names if name not in {"__dict__", "__weakref__"}), *hidden]


def _is_private(path: tuple[object, ...]) -> bool:
    return bool(path) and str(path[-1]).startswith("_")
