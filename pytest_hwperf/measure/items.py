"""Items of the streams that calls return: when they arrived, and how a timed call takes them."""

import sys
from array import array
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from inspect import isasyncgenfunction, isawaitable, isfunction, isgeneratorfunction
from io import IOBase
from itertools import chain, count, cycle, islice, pairwise, repeat, starmap
from statistics import median
from subprocess import Popen
from threading import Thread
from time import perf_counter_ns
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from pytest_hwperf.records.errors import MeasurementError

if TYPE_CHECKING:
    from pytest_hwperf.records.run import Values

    Instants = array[int]
else:
    Instants = array  # not subscriptable at run time before Python 3.12

_SECOND = 1_000_000_000  # ns
_MOST_ITEMS = 1_000_000  # whose times are kept: 8 MB; all are counted
_MOST_OF_A_CALL = 1_000_000  # items of the first call, and the seconds in which they come: more seems endless
_LONGEST_S = 60
_LAZY = (GeneratorType, map, filter, zip, enumerate, chain, islice, starmap)
# Methods by which a result that is still to come is waited for: of futures, and of results of multiprocessing.
_PROMISES = (("add_done_callback", "result"), ("ready", "wait", "get"))
_LEVELS = 3  # levels of containers in which an object may hold what it gives
_INSTEAD = (
    "take what you need within the call, such as hwperf(lambda: list(islice(rows(), 1000))); to time only its making, "
    "return it in a list"
)

Clock = Callable[[], int]


class ItemTimes:
    """When the items of calls arrived; within the timed calls nothing but the readings of the clock is kept."""

    def __init__(self) -> None:
        self.first_s: Values = array("d")  # seconds from the beginning of a call to its first item
        self.item_s: Values = array("d")  # seconds from an item to the next one
        self._calls = list[Instants]()
        self.keep = self._calls.append  # takes the instants of one call: its beginning, then each item

    def forget(self) -> None:
        """Forget all, as after a warm-up."""
        del self._calls[:], self.first_s[:], self.item_s[:]

    def settle(self) -> int:
        """Turn the instants of the latest calls into seconds; return how many items they had."""
        items = 0
        for instants in self._calls:
            items += len(instants) - 1
            if len(instants) > 1:
                self.first_s.append((instants[1] - instants[0]) / _SECOND)
            if len(self.item_s) < _MOST_ITEMS:
                self.item_s.extend((after - before) / _SECOND for before, after in pairwise(instants[1:]))
        del self._calls[:]
        return items

    def medians(self) -> dict[str, float]:
        found = {"first_item": self.first_s, "item": self.item_s}
        return {metric: median(values) for metric, values in found.items() if values}


def is_stream(value: object) -> bool:
    """Whether a value gives its items only when they are asked for: its work is done then, not in the call.

    That is an iterator, such as a generator, a `map` or a cursor, unless it is a file. It is an iterable too whose
    `__iter__` is a generator function and which has no length, unless its items are what it holds already, or it is a
    resource that is entered, as a connection is. Containers are no streams.
    """
    if _is_iterator(value):
        return not _is_file(value) and _has_rows(value)
    kind = type(value)
    if hasattr(kind, "__len__") or hasattr(kind, "__enter__") or hasattr(kind, "__aenter__"):
        return False
    if isasyncgenfunction(getattr(kind, "__aiter__", None)):
        return True
    return _iterates_lazily(value) and not _gives_what_it_holds(value)


def _iterates_lazily(value: Any) -> bool:
    """Whether the code of an iterable computes its items one by one: as a generator, or through a `map` or the like."""
    method = getattr(type(value), "__iter__", None)
    if isgeneratorfunction(method):
        return True
    if not isfunction(method):
        return False
    try:
        return isinstance(method(value), _LAZY)
    except Exception:  # noqa: BLE001 - classes forbid iteration by any error; these have no items
        return False


def refuse_unfinished(value: object) -> None:
    """Refuse a result that is still to come, such as a future or a running thread: its work lies outside of the call.

    Raises:
        MeasurementError: it names how to wait for such a result.
    """
    waiting = _how_to_wait(value)
    if not waiting:
        return
    name = type(value).__name__
    article = "an" if name[0] in "AEIO" else "a"
    raise MeasurementError(
        f"the call returned {article} {name}, whose work is not done when the call ends: wait for it within the call, "
        f"such as hwperf(lambda: {waiting})"
    )


def _how_to_wait(value: Any) -> str:
    """Return the code that waits for a result that is still to come; "" of any other result."""
    kind = type(value)
    processes = getattr(sys.modules.get("multiprocessing.process"), "BaseProcess", ())
    if isinstance(value, Thread | processes) if processes else isinstance(value, Thread):
        return "start().join()" if value.is_alive() else ""
    if isinstance(value, Popen):
        return "start().wait()" if value.poll() is None else ""
    if not isawaitable(value) and not any(all(hasattr(kind, name) for name in names) for names in _PROMISES):
        return ""
    return "work().compute()" if hasattr(kind, "compute") else "pool.submit(work).result()"


def is_read_again(value: object) -> bool:
    """Whether a stream can be gone through again, so that the result of its call stays what it is."""
    return not _is_iterator(value)


def _is_iterator(value: Any) -> bool:
    """Whether a value is gone through once only, being its own iterator; a mock has all methods and is none."""
    if isinstance(value, AsyncIterator):
        return aiter(value) is value
    if isinstance(value, Iterator):
        return iter(value) is value
    return hasattr(type(value), "__next__")


def _is_file(value: object) -> bool:
    return isinstance(value, IOBase) or (hasattr(value, "read") and hasattr(value, "write"))


def _has_rows(value: object) -> bool:
    """Whether a cursor has a result: without one, as after an insertion, it must not be iterated over (PEP 249)."""
    return not hasattr(value, "execute") or getattr(value, "description", ()) is not None


def _gives_what_it_holds(value: Any) -> bool:
    """Whether the items of an iterable are objects that it holds, alone or in pairs with their names."""
    held = _held(value)
    given = 0
    for item in value:
        given += 1
        parts = item if isinstance(item, tuple) else (item,)
        if id(item) not in held and not all(id(part) in held for part in parts):
            return False
        if given > _MOST_OF_A_CALL:
            return False
    return given > 0


def _held(value: object) -> set[int]:
    """Return the identities of what an object holds, also in its containers."""
    level: list[object] = [value]
    found = set[int]()
    for _ in range(_LEVELS):
        level = [part for one in level for part in _parts(one)]
        found.update(map(id, level))
    return found


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return chain(value.keys(), value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return value
    own = getattr(value, "__dict__", {})
    slots = (name for one in type(value).__mro__ for name in _slots_of(one))
    return chain(own.keys(), own.values(), (getattr(value, name) for name in slots if hasattr(value, name)))


def _slots_of(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


def items_of(value: Any) -> Iterable[Any]:
    """Return what gives the items of a stream in a loop; an object with `__next__` alone is no iterable."""
    return value if hasattr(type(value), "__iter__") else _nexts(value)


def _nexts(value: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            item = next(value)
        except StopIteration:
            return
        yield item


class Ending:
    """Watches the first call's stream for its end: one that has none would never let the call return."""

    def __init__(self, value: object, clock_ns: Clock = perf_counter_ns) -> None:
        """Refuse what is known to be endless before any item is taken."""
        self._kind = type(value).__name__
        self._clock_ns = clock_ns
        self._deadline_ns = clock_ns() + _LONGEST_S * _SECOND
        self._items = 0
        if isinstance(value, count | cycle) or _repeats_for_ever(value):
            raise MeasurementError(f"the call returned an endless iterator ({self._kind}): {_INSTEAD}")

    def note(self) -> None:
        """Count an item; refuse the stream where it seems endless."""
        self._items += 1
        if self._items > _MOST_OF_A_CALL or self._clock_ns() > self._deadline_ns:
            raise MeasurementError(
                f"the call returned an iterator ({self._kind}) that gave {self._items - 1:,} items within "
                f"{_LONGEST_S} s and did not end: {_INSTEAD}"
            )


def _repeats_for_ever(value: object) -> bool:
    if not isinstance(value, repeat):
        return False
    try:
        value.__length_hint__()
    except TypeError:
        return True
    return False


def refuse_empty(function: Callable[..., Any]) -> None:
    """Refuse a second call without items after a first one that had some: both draw from one source."""
    name = getattr(function, "__qualname__", type(function).__name__)
    raise MeasurementError(
        f"the second call of {name} gave no items, and the first one did: its result draws from what the first has "
        "used up. Make it anew in the call, or with hwperf(call, setup=...)"
    )


def consuming(
    function: Callable[..., Any], items: ItemTimes, clock_ns: Clock, *, had_items: bool
) -> Callable[..., Any]:
    """Return what calls `function`, whose value is a stream, and takes each item of it.

    `had_items` says that the first call, whose input the next one gets too, had some.
    """
    is_second = had_items

    def consumed(*arguments: Any) -> None:
        nonlocal is_second
        instants: Instants = array("q", [clock_ns()])
        note = instants.append
        for _ in items_of(function(*arguments)):
            note(clock_ns())
        if is_second:
            is_second = False
            if len(instants) == 1:
                refuse_empty(function)
        items.keep(instants)

    return consumed


def consuming_async(
    function: Callable[..., Any], items: ItemTimes, clock_ns: Clock, *, awaited: bool, had_items: bool
) -> Callable[..., Awaitable[None]]:
    """Return the same on an event loop, where the value, awaited if it has to be, is a stream of either kind."""
    is_second = had_items

    async def consumed(*arguments: Any) -> None:
        nonlocal is_second
        instants: Instants = array("q", [clock_ns()])
        note = instants.append
        made = function(*arguments)
        if awaited:
            made = await made
        if isinstance(made, AsyncIterable):
            async for _ in made:
                note(clock_ns())
        else:
            for _ in items_of(made):
                note(clock_ns())
        if is_second:
            is_second = False
            if len(instants) == 1:
                refuse_empty(function)
        items.keep(instants)

    return consumed
