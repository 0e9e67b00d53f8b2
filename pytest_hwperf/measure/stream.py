"""Endless calls of one function, each awaited or its items taken where its value asks for it, on their loop."""

import math
import sys
import threading
from array import array
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from itertools import cycle, islice, repeat
from queue import SimpleQueue
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_hwperf.host.fakes import RealClock, fakes_in_place
from pytest_hwperf.host.nvidia import allocations, is_on_gpu, waiter
from pytest_hwperf.host.tracing import untraced_wait
from pytest_hwperf.measure.inputs import Inputs
from pytest_hwperf.measure.items import (
    Clock,
    Ending,
    ItemTimes,
    consuming,
    consuming_async,
    is_read_again,
    is_stream,
    items_of,
    refuse_unfinished,
)
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import Values

if TYPE_CHECKING:
    import asyncio  # which takes longer to import than most sessions need of it
    from types import CodeType

T = TypeVar("T")


class OwnLoop:
    """An asyncio loop of the measurement's own, made when the first call turns out to be async."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self.thread = threading.current_thread()  # in which calls are made

    def open(self) -> None:
        """Make the loop, unless there is one."""
        if self._runner is None:
            import asyncio

            _refuse_within_a_loop()
            self._runner = asyncio.Runner()
            with suppress(AttributeError):  # of a loop that is not Python's, and reads no clock of Python
                self._runner.get_loop().time = RealClock.monotonic  # type: ignore[method-assign]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` and return its value."""
        self.open()
        assert self._runner is not None  # noqa: S101 - for the type checker
        with fakes_in_place():
            return self._runner.run(work)

    def call(self, work: Callable[[], T]) -> T:
        """Call a plain function in the thread in which calls are made, and return its value."""
        with fakes_in_place():
            return work()

    def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


class TestLoop:
    """The loop that runs an async test, asyncio's or another one: its thread awaits what the measuring thread asks for.

    Only one of the two threads is ever at work. The loop makes calls as it would in the test, with the clients and
    fixtures that belong to it; between blocks of calls it stands still.
    """

    __test__ = False  # no test, though its name begins like one

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self._asked: SimpleQueue[tuple[Coroutine[Any, Any, Any], bool] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._left: BaseException | None = None  # why the loop's thread answers no more

    def open(self) -> None:
        """Do nothing: the loop runs."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the loop's thread await `work`, observed by coverage.py as this one is, and return its value."""
        if self._left is not None:
            work.close()
            raise self._left
        value: T
        with fakes_in_place():
            self._asked.put((work, sys.gettrace() is not None))
            value, error = self._answers.get()
        if error is not None:
            raise error
        return value

    def call(self, work: Callable[[], T]) -> T:
        """Have the loop's thread call `work`, on its loop."""
        return self.run(_called(work))

    def close(self) -> None:
        """Do nothing: the loop is not the measurement's."""

    async def serve(self, measure: Callable[[], T]) -> T:
        """Measure in another thread, and await here what it asks for, until it is over; return its value."""
        ended = list[tuple[Any, BaseException | None]]()

        def measured() -> None:
            try:
                ended.append((measure(), None))
            except BaseException as error:  # noqa: BLE001 - raised again in the loop's thread
                ended.append((None, error))
            self._asked.put(None)

        threading.Thread(target=copy_context().run, args=(measured,), daemon=True, name="hwperf").start()
        try:
            while (asked := self._asked.get()) is not None:
                work, observed = asked
                self._answers.put(await _outcome(work if observed else untraced_wait(work)))
        except BaseException as error:
            self._left = error
            self._answers.put((None, error))
            raise
        value: T
        value, why = ended[0]
        if why is not None:
            raise why
        return value


Loop = OwnLoop | TestLoop  # which lives as long as a measurement


async def _called(work: Callable[[], T]) -> T:
    return work()


async def _outcome(work: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """Await `work`; a cancellation too goes through the measurement, which it ends."""
    try:
        return await work, None
    except BaseException as error:  # noqa: BLE001 - raised again by the measurement
        return None, error


def _refuse_within_a_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageProblem(
        "hwperf(...) was given an async function within an event loop that runs already. In an async test write "
        "run = await hwperf.awaitable(predict, X)"
    )


_SECOND = 1_000_000_000  # ns


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """A call that was made to see what its value is."""

    value: object = field(repr=False)  # awaited; of a stream the list of its items; asyncio may write results out
    seconds: float
    items: ItemTimes | None  # None: its value is no stream

    @property
    def parts(self) -> tuple[str, ...]:
        """Metrics of what the call consists of: those of the items of a stream."""
        return tuple(self.items.medians()) if self.items else ()


class Stream:
    """Endless calls of one function over prepared inputs, or without any.

    How calls are made is known by the value of the first: an awaitable is awaited, a generator's items are taken. A
    block of async calls is one piece of work for the loop, so that a call costs an `await` and nothing of the loop.
    Where the first call has used a GPU, each one waits at its end until the GPU has finished: it would end before.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any] | None,
        loop: Loop | None = None,
        lengths: Sequence[int] | None = None,
        modules: Mapping[str, Any] = sys.modules,
        watched: Inputs | None = None,
    ) -> None:
        """Take each of `inputs` in turn as the single argument; None calls without arguments.

        Of `watched` it is found out whether calls change it.
        """
        self._watched = watched
        self.function = function  # what a timed call calls; of an async one, a coroutine function
        self.items: ItemTimes | None = None
        self.length_s: Values = array("d")  # seconds of each single call over the length of its input
        self.awaits = False
        self.waits_for_gpu = False
        # Whether more is done between two calls than to call: what counts over several calls counts that too.
        self.is_interrupted = False
        self.caller: CodeType | None = None  # what makes each call then
        self._modules = modules
        self._given, self._loop = function, loop or OwnLoop()
        self._inputs = None if inputs is None else cycle(inputs)
        self._lengths = cycle(lengths) if lengths else None

    def first(self, clock_ns: Clock = perf_counter_ns) -> FirstCall:
        """Make one call, and from now on make calls as its value asks for.

        Raises:
            InputChangedError: it has changed what it was given.
        """
        if self._watched is None:
            return self._first(clock_ns)
        self._watched.begin()
        first = self._first(clock_ns)
        self._watched.check_first()
        return first

    def _first(self, clock_ns: Clock) -> FirstCall:
        self._next_lengths(1)
        first = self._loop.call(partial(self._first_called, self._arguments(1)[0], clock_ns))
        if isinstance(first, FirstCall):
            return first
        made, spent_ns = first
        self._open_loop(made)
        return self._loop.run(self._first_awaited(made, spent_ns, clock_ns))

    def _first_called(self, arguments: tuple[Any, ...], clock_ns: Clock) -> FirstCall | tuple[Any, int]:
        """Make the first call; return what is to be awaited, and the nanoseconds so far, where it is not over."""
        self._allocated = allocations(self._modules)
        began = clock_ns()
        made = self._given(*arguments)
        spent_ns = clock_ns() - began
        if isawaitable(made):
            return made, spent_ns
        is_lazy = is_stream(made)
        if is_lazy and isinstance(made, AsyncIterable):
            return made, spent_ns
        if not is_lazy:
            refuse_unfinished(made)
            began = clock_ns() - spent_ns  # to find out what the value is belongs to no call
            self._wait_for_gpu(made)
            return FirstCall(value=made, seconds=(clock_ns() - began) / _SECOND, items=None)
        ending = Ending(made, clock_ns)
        began = clock_ns() - spent_ns
        instants, value = array("q", [began]), list[object]()
        for item in items_of(made):
            instants.append(clock_ns())
            value.append(item)
            ending.note()
        ended_ns = clock_ns()
        self.items = ItemTimes()
        had_items = self._inputs is None and bool(value)
        self.function = consuming(self._given, self.items, clock_ns, had_items=had_items)
        return self._first_of_items(made if is_read_again(made) else value, instants, ended_ns)

    async def _first_awaited(self, made: Any, spent_ns: int, clock_ns: Clock) -> FirstCall:
        """Await what the first call has made in `spent_ns`; the time until the loop got to it belongs to no call."""
        began, awaited, value = clock_ns() - spent_ns, isawaitable(made), made
        self.awaits = True
        if awaited:
            value = await made
        if not is_stream(value):
            refuse_unfinished(value)
            self._wait_for_gpu(value)
            return FirstCall(value=value, seconds=(clock_ns() - began) / _SECOND, items=None)
        ending = Ending(value, clock_ns)
        instants, items = array("q", [began]), list[object]()
        if isinstance(value, AsyncIterable):
            async for item in value:
                instants.append(clock_ns())
                items.append(item)
                ending.note()
        else:
            for item in items_of(value):
                instants.append(clock_ns())
                items.append(item)
                ending.note()
        ended_ns = clock_ns()
        self.items = ItemTimes()
        had_items = self._inputs is None and bool(items)
        self.function = consuming_async(self._given, self.items, clock_ns, awaited=awaited, had_items=had_items)
        return self._first_of_items(value if is_read_again(value) else items, instants, ended_ns)

    def _wait_for_gpu(self, value: object) -> None:
        """Wait for the work of the first call, and from now on for that of each, if it has given any to a GPU."""
        if not is_on_gpu(value) and allocations(self._modules) == self._allocated:
            return
        self.waits_for_gpu, wait = True, waiter(self._modules)
        wait()
        self.function = (_waiting_async if self.awaits else _waiting)(self._given, wait)

    def _first_of_items(self, value: object, instants: Any, ended_ns: int) -> FirstCall:
        times = ItemTimes()
        times.keep(instants)
        times.settle()
        return FirstCall(value=value, seconds=(ended_ns - instants[0]) / _SECOND, items=times)

    def _open_loop(self, made: Any) -> None:
        try:
            self._loop.open()
        except BaseException:
            if isinstance(made, Coroutine):
                made.close()  # else Python warns that it was never awaited
            raise

    def run_here(self, work: Coroutine[Any, Any, None] | Callable[[], None]) -> None:
        """Run a load of such calls where they are made: on their loop, or in its thread."""
        if isinstance(work, Coroutine):
            self._loop.run(work)
        else:
            self._loop.call(work)

    def numbered(self) -> Callable[[int], Any]:
        """Return what makes the n-th call of a load, in any thread; of async calls it returns what is awaited."""
        function, inputs = self.function, self._inputs
        if inputs is None:
            return lambda _: function()
        return lambda _: function(next(inputs))

    def forget(self) -> None:
        """Forget what was noted of single calls, as after a warm-up."""
        del self.length_s[:]
        if self.items is not None:
            self.items.forget()

    def times(self, count: int, clock_ns: Clock, deadline_ns: float = math.inf) -> Values:
        """Make `count` calls, fewer once the clock has passed `deadline_ns`; return the nanoseconds of each."""
        lengths = self._next_lengths(count)
        if self.awaits:
            taken = self._loop.run(self._times_awaited(count, clock_ns, deadline_ns))
        else:
            taken = self._loop.call(partial(self._times, count, clock_ns, deadline_ns))
        if lengths:
            self.length_s.extend(ns / length / _SECOND for ns, length in zip(taken, lengths, strict=False))
        self._check_inputs()
        return taken

    def batch(self, count: int, clock_ns: Clock) -> int:
        """Make `count` calls; return the nanoseconds of all, the loop included."""
        self._next_lengths(count)
        if self.awaits:
            taken_ns = self._loop.run(self._batch_awaited(count, clock_ns))
        else:
            taken_ns = self._loop.call(partial(self._batch, count, clock_ns))
        self._check_inputs()
        return taken_ns

    def _check_inputs(self) -> None:
        """Find out once, after the calls that follow the first one, what they have changed."""
        if self._watched is not None and self._watched.is_awaited:
            self._watched.check_later()

    def _times(self, count: int, clock_ns: Clock, deadline_ns: float) -> Values:
        taken = array("d", bytes(8 * count))
        function = self.function
        if self._inputs is None:
            for index in range(count):
                before = clock_ns()
                function()
                after = clock_ns()
                taken[index] = after - before
                if after > deadline_ns:
                    return taken[: index + 1]
        else:
            for index, prepared in enumerate(list(islice(self._inputs, count))):
                before = clock_ns()
                function(prepared)
                after = clock_ns()
                taken[index] = after - before
                if after > deadline_ns:
                    return taken[: index + 1]
        return taken

    async def _times_awaited(self, count: int, clock_ns: Clock, deadline_ns: float) -> Values:
        taken = array("d", bytes(8 * count))
        function = self.function
        for index, arguments in enumerate(self._arguments(count)):
            before = clock_ns()
            await function(*arguments)
            after = clock_ns()
            taken[index] = after - before
            if after > deadline_ns:
                return taken[: index + 1]
        return taken

    def _batch(self, count: int, clock_ns: Clock) -> int:
        function = self.function
        if self._inputs is None:
            turns: Iterable[Any] = repeat(None, count)
            before = clock_ns()
            for _ in turns:
                function()
            return clock_ns() - before
        turns = list(islice(self._inputs, count))
        before = clock_ns()
        for prepared in turns:
            function(prepared)
        return clock_ns() - before

    async def _batch_awaited(self, count: int, clock_ns: Clock) -> int:
        function, turns = self.function, self._arguments(count)
        before = clock_ns()
        for arguments in turns:
            await function(*arguments)
        return clock_ns() - before

    def empty_batch(self, count: int, clock_ns: Clock) -> int:
        """Run the loop of `batch` without the call; return its nanoseconds."""
        turns: Iterable[Any] = repeat(None, count) if self._inputs is None else [None] * count
        before = clock_ns()
        for _ in turns:
            pass
        return clock_ns() - before

    @staticmethod
    def readings(count: int, clock_ns: Clock) -> Values:
        """Read the clock twice in a row, `count` times; return the nanoseconds between."""
        return array("d", (-(clock_ns() - clock_ns()) for _ in range(count)))

    def _arguments(self, count: int) -> list[tuple[Any, ...]]:
        return [()] * count if self._inputs is None else [(one,) for one in islice(self._inputs, count)]

    def _next_lengths(self, count: int) -> list[int]:
        """Return the lengths of the next `count` inputs; none where they do not differ."""
        return list(islice(self._lengths, count)) if self._lengths else []


def _waiting(function: Callable[..., Any], wait: Callable[[], object]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        value = function(*arguments)
        wait()
        return value

    return call


def _waiting_async(function: Callable[..., Any], wait: Callable[[], object]) -> Callable[..., Any]:
    async def call(*arguments: Any) -> Any:
        value = await function(*arguments)
        wait()
        return value

    return call
