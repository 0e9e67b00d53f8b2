"""Async calls and streams of items, on a fake clock that only what is called moves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest
from fakes.streams import FakeClock, at_once

from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.samples import samples_of
from pytest_hwperf.measure.sampling import RawSamples, Sampler
from pytest_hwperf.measure.stream import FirstCall, OwnLoop, Stream
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import Sample

T = TypeVar("T")
MS = 1_000_000  # ns
PACE = SamplingLimits(max_time_s=2.0)
CLOCK = FakeClock()


class SlowLoop(OwnLoop):
    """Takes a second to be made, and before and after each piece of work."""

    def open(self) -> None:
        CLOCK.now_ns += 1000 * MS
        super().open()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        CLOCK.now_ns += 1000 * MS
        value = super().run(work)
        CLOCK.now_ns += 1000 * MS
        return value


def spend(milliseconds: float) -> None:
    CLOCK.now_ns += round(milliseconds * MS)


async def awaited(*rows: int) -> int:
    spend(1)
    await asyncio.sleep(0)
    spend(1)
    return sum(rows)


def streamed() -> Iterator[int]:
    """Five items: the first after 5 ms, each other after 2 ms, and 1 ms until the end."""
    spend(5)
    yield 0
    for item in range(1, 5):
        spend(2)
        yield item
    spend(1)


async def streamed_async() -> AsyncIterator[int]:
    for item in streamed():
        await asyncio.sleep(0)
        yield item


async def stream_when_awaited() -> AsyncIterator[int]:
    return streamed_async()


async def generator_when_awaited() -> Iterator[int]:
    return streamed()


def measured(function: Callable[..., object], inputs: list[Any] | None = None, **given: Any) -> RawSamples:
    with closing(OwnLoop()) as loop:
        return Sampler(Stream(function, inputs, given.pop("loop", loop), **given), PACE, CLOCK).measure([], at_once)


def samples(raw: RawSamples) -> dict[str, Sample]:
    return {sample.metric: sample for sample in samples_of(raw, [], rows=None, cores=1)[0]}


def test_an_async_call_takes_what_it_is_awaited_for() -> None:
    """Neither the making of the loop nor what the loop does between blocks of calls is in it."""
    with closing(SlowLoop()) as loop:
        raw = measured(awaited, [1, 2], loop=loop)
    assert raw.result == 1
    assert raw.first_call_s == 0.002
    assert {*raw.latency_s} == {0.002}


def test_all_calls_are_awaited_on_one_loop() -> None:
    loops = set[int]()

    async def call() -> None:
        loops.add(id(asyncio.get_running_loop()))
        spend(1)

    measured(call)
    assert len(loops) == 1


def test_short_async_calls_are_timed_in_batches() -> None:
    async def call() -> None:
        CLOCK.now_ns += 1000

    raw = measured(call)
    assert raw.calls_per_value == 100
    assert {1e-6} == {round(value, 12) for value in raw.latency_s}


def test_a_loop_that_is_closed_cancels_what_still_runs() -> None:
    ended = list[str]()

    async def background() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("cancelled")

    async def call() -> None:
        tasks.append(asyncio.create_task(background()))
        await asyncio.sleep(0)

    tasks = list[asyncio.Task[None]]()
    with closing(OwnLoop()) as loop:
        Stream(call, None, loop).first(CLOCK)
        assert not ended
    assert ended == ["cancelled"]


@pytest.mark.parametrize("function", [awaited, streamed_async])
def test_an_async_callable_within_a_running_loop_is_refused(function: Callable[[], object]) -> None:
    """With what to write instead; and nothing is left that was never awaited."""

    async def test() -> None:
        Stream(function, None).first(CLOCK)

    with pytest.raises(UsageProblem, match=r"await hwperf\.awaitable\(predict, X\)"):
        asyncio.run(test())


@pytest.mark.parametrize("function", [streamed, streamed_async, stream_when_awaited, generator_when_awaited])
def test_a_stream_is_taken_item_by_item(function: Callable[[], object]) -> None:
    """The call lasts as long as its stream: 14 ms."""
    raw = measured(function)
    found = samples(raw)
    assert raw.result == [0, 1, 2, 3, 4]
    assert raw.first_call_s == 0.014
    assert {*found["latency"].values} == {0.014}
    assert {*found["first_item"].values} == {0.005}
    assert {*found["item"].values} == {0.002}
    assert len(found["first_item"].values) == len(found["latency"].values)
    assert len(found["item"].values) == 4 * len(found["latency"].values)
    assert {round(rate, 6) for rate in found["item_throughput"].values} == {round(5 / 0.014, 6)}


def test_streams_without_items_have_no_times_of_items() -> None:
    def empty() -> Iterator[int]:
        spend(1)
        yield from ()

    found = samples(measured(empty))
    assert {"latency", "first_call", "throughput"} == {*found}


def test_a_stream_of_one_item_has_no_time_between_items() -> None:
    def one() -> Iterator[int]:
        spend(1)
        yield 1

    assert {"first_item", "item_throughput"} == {*samples(measured(one))} - {"latency", "first_call", "throughput"}


def test_items_of_the_warm_up_are_not_kept() -> None:
    """The first three calls are slow to give their first item."""
    calls = list[int]()

    def warming() -> Iterator[int]:
        calls.append(1)
        spend(50 if len(calls) <= 3 else 1)
        yield 1

    assert {*samples(measured(warming))["first_item"].values} == {0.001}


def test_only_a_million_items_are_kept_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.measure.items._MOST_ITEMS", 10)
    found = samples(measured(streamed))
    assert len(found["item"].values) < 10 + 4
    assert {round(rate, 6) for rate in found["item_throughput"].values} == {round(5 / 0.014, 6)}


def test_the_time_of_a_call_is_divided_by_the_length_of_its_input() -> None:
    """Each character takes 2 ms, whichever input a window begins with."""
    raw = measured(lambda text: spend(2 * len(text)), ["a", "bcd", "ef"], lengths=[1, 3, 2])
    assert {0.002} == {round(value, 9) for value in samples(raw)["latency_per_length"].values}
    assert len(raw.length_s) == len(raw.latency_s)


def test_what_a_call_returns_is_not_written_out() -> None:
    """Asyncio formats the result of its task, which of a large value takes time and memory."""

    class Large:
        def __repr__(self) -> str:
            raise AssertionError("written out")

    async def call() -> Large:
        return Large()

    with closing(OwnLoop()) as loop:
        assert isinstance(Stream(call, None, loop).first().value, Large)
    assert "Large" not in repr(FirstCall(value=Large(), seconds=1.0, items=None))


def test_a_result_of_another_loop_is_awaited_too() -> None:
    """What is awaited need not be a coroutine."""

    class Answer:
        def __await__(self) -> Any:
            spend(3)
            return asyncio.sleep(0, "answer").__await__()

    def call() -> Awaitable[str]:
        return Answer()

    raw = measured(call)
    assert raw.result == "answer"
    assert {*raw.latency_s} == {0.003}
