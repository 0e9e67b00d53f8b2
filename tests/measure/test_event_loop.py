"""The loop of an async test: its thread makes the calls, another one measures."""

import asyncio
import threading
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

import pytest

from pytest_hwperf.measure.stream import Stream, TestLoop


async def where(*values: Any) -> tuple[Any, ...]:
    """Return the thread and the loop of a call, and its values."""
    await asyncio.sleep(0)
    return threading.current_thread(), asyncio.get_running_loop(), *values


def test_calls_are_made_on_the_loop_that_runs_and_measuring_elsewhere() -> None:
    async def test() -> None:
        loop = TestLoop()

        def measure() -> list[Any]:
            loop.open()
            made = [loop.run(where(number)) for number in range(2)]
            loop.close()
            return [threading.current_thread(), *made]

        measuring, *made = await loop.serve(measure)
        here = (threading.current_thread(), asyncio.get_running_loop())
        assert [(*here, 0), (*here, 1)] == made
        assert loop.thread is here[0] is not measuring

    asyncio.run(test())


@pytest.mark.parametrize("kind", ["plain", "generator", "async"])
def test_every_call_is_made_in_the_thread_of_the_loop(kind: str) -> None:
    """Also the first one, and those of plain functions: a client may belong to it."""
    seen = set[threading.Thread]()

    def plain() -> None:
        seen.add(threading.current_thread())
        asyncio.get_running_loop()

    def generator() -> Iterator[int]:
        plain()
        yield 1

    async def coroutine() -> None:
        plain()

    async def test() -> None:
        loop = TestLoop()
        stream = Stream({"plain": plain, "generator": generator, "async": coroutine}[kind], None, loop)

        def measure() -> int:
            stream.first()
            return len(stream.times(2, perf_counter_ns)) + (stream.batch(2, perf_counter_ns) > 0)

        assert await loop.serve(measure) == 3

    asyncio.run(test())
    assert seen == {threading.main_thread()}


async def broken() -> None:
    raise ValueError("no such row")


def test_what_a_call_raises_ends_the_measurement_and_then_the_test() -> None:
    seen = list[str]()

    async def test() -> None:
        loop = TestLoop()

        def measure() -> None:
            try:
                loop.run(broken())
            except ValueError as error:
                seen.append(str(error))
                raise

        await loop.serve(measure)

    with pytest.raises(ValueError, match="no such row"):
        asyncio.run(test())
    assert seen == ["no such row"]


def test_a_cancelled_test_ends_its_measurement() -> None:
    """As a timeout of the test does."""
    ended = list[str]()

    async def test() -> None:
        loop = TestLoop()

        def measure() -> None:
            try:
                loop.run(asyncio.sleep(3600))
            finally:
                ended.append("measurement")

        async with asyncio.timeout(0.001):
            await loop.serve(measure)

    with pytest.raises(TimeoutError):
        asyncio.run(test())
    assert ended == ["measurement"]


def test_an_interrupted_wait_lets_the_measurement_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the loop's thread waits for work; what is asked for after it is refused with it."""
    loop, over, seen = TestLoop(), threading.Event(), list[BaseException]()
    interrupted = threading.Event()

    def get() -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "_asked", _Queue(get))

    def measure() -> None:
        interrupted.wait(10)
        try:
            loop.run(where())
        except KeyboardInterrupt as error:
            seen.append(error)
            over.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        loop.serve(measure).send(None)
    interrupted.set()
    assert over.wait(10)
    assert len(seen) == 1


class _Queue:
    def __init__(self, get: Any) -> None:
        self.get = get

    def put(self, work: Any) -> None:
        """Take it."""
