"""Items of the streams that calls return: when they arrived, and how a timed call takes them."""

from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_hwperf.records.run import Values

    Instants = array[int]
else:
    Instants = array  # not subscriptable at run time before Python 3.12

_SECOND = 1_000_000_000  # ns
_MOST_ITEMS = 1_000_000  # whose times are kept: 8 MB; all are counted

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
    """Whether a value is a stream of items; other iterators may hold what was computed already."""
    return isinstance(value, Generator | AsyncIterator)


def consuming(function: Callable[..., Any], items: ItemTimes, clock_ns: Clock) -> Callable[..., Any]:
    """Return what calls `function`, whose value is a generator, and takes each item of it."""

    def consumed(*arguments: Any) -> None:
        instants: Instants = array("q", [clock_ns()])
        note = instants.append
        for _ in function(*arguments):
            note(clock_ns())
        items.keep(instants)

    return consumed


def consuming_async(
    function: Callable[..., Any], items: ItemTimes, clock_ns: Clock, *, awaited: bool
) -> Callable[..., Awaitable[None]]:
    """Return the same on an event loop, where the value, awaited if it has to be, is a stream of either kind."""

    async def consumed(*arguments: Any) -> None:
        instants: Instants = array("q", [clock_ns()])
        note = instants.append
        made = function(*arguments)
        if awaited:
            made = await made
        if isinstance(made, AsyncIterator):
            async for _ in made:
                note(clock_ns())
        else:
            for _ in made:
                note(clock_ns())
        items.keep(instants)

    return consumed
