"""The event loop on which async calls are awaited: one of the measurement's own, or the one that runs their test."""

import sys
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_hwperf.host.tracing import untraced_wait
from pytest_hwperf.records.errors import UsageProblem

if TYPE_CHECKING:
    import asyncio  # which takes longer to import than most sessions need of it

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
            self._runner.get_loop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` and return its value."""
        self.open()
        assert self._runner is not None  # noqa: S101 - for the type checker
        return self._runner.run(work)

    def call(self, work: Callable[[], T]) -> T:
        """Call a plain function in the thread in which calls are made, and return its value."""
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
        self._asked.put((work, sys.gettrace() is not None))
        value: T
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
