"""A load of tasks on an event loop makes the calls that it was asked for; nothing is left running where it ends."""

import asyncio

import pytest

from pytest_hwperf.loads.local import Times, drive_tasks, schedule
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import Load
from pytest_hwperf.stats.service.loads import piece_of


def test_every_call_of_a_schedule_is_made() -> None:
    load, times, made = Load(kind="server", qps=2000, seconds=0.03, seed=1), Times(), list[int]()

    async def call(number: int) -> None:
        await asyncio.sleep(0)
        made.append(number)

    asyncio.run(drive_tasks(load, call, times))
    served = times.served()
    assert schedule(load) == served.due
    assert [*range(len(served.due))] == sorted(made)
    assert all(
        due <= issued <= ended for due, issued, ended in zip(served.due, served.issued, served.ended, strict=True)
    )


@pytest.mark.parametrize(
    ("load", "most"),
    [
        (Load(kind="offline", calls=20, in_flight=3), 3),
        (Load(kind="offline", calls=20), 20),
        (piece_of(Load(kind="concurrency", in_flight=2), 21), 2),
        (piece_of(Load(kind="single_stream"), 20), 1),
    ],
)
def test_at_most_so_many_calls_run_at_once(load: Load, most: int) -> None:
    running, seen, times = set[int](), list[int](), Times()

    async def call(number: int) -> None:
        running.add(number)
        seen.append(len(running))
        while len(seen) < most:  # noqa: ASYNC110 - as many as may are let begin before any ends
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.remove(number)

    asyncio.run(drive_tasks(load, call, times))
    assert most == max(seen)
    assert len(times.served().due) >= 20


def test_another_loop_than_asyncios_is_a_usage_error() -> None:
    """As trio's, on which a coroutine runs without any loop of asyncio."""
    work = drive_tasks(Load(kind="offline", calls=1), lambda _: asyncio.sleep(0), Times())
    with pytest.raises(UsageProblem, match="needs an event loop of asyncio"):
        work.send(None)


def test_a_failed_call_is_counted_and_does_not_end_the_load() -> None:
    async def call(number: int) -> None:
        if number == 3:
            raise KeyError(number)

    times = Times()
    asyncio.run(drive_tasks(Load(kind="offline", calls=10), call, times))
    assert (1, 9) == (times.failed, len(times.served().due))


LOADS = [Load(kind="offline", calls=10, in_flight=2), Load(kind="concurrency", in_flight=2, seconds=5)]


@pytest.mark.parametrize("load", LOADS)
def test_what_ends_a_test_ends_its_load_and_leaves_no_call_running(load: Load) -> None:
    left = list[int]()

    async def call(number: int) -> None:
        if number == 1:
            pytest.fail("a wrong answer")
        await asyncio.sleep(0.001)

    async def driven() -> None:
        try:
            await drive_tasks(load, call, Times())
        finally:
            left.append(len(asyncio.all_tasks() - {asyncio.current_task()}))

    with pytest.raises(pytest.fail.Exception, match="a wrong answer"):
        asyncio.run(driven())
    assert [0] == left


@pytest.mark.parametrize("load", LOADS[:1])
def test_a_call_whose_work_is_cancelled_has_failed(load: Load) -> None:
    """As by a batcher that gives up; the load itself is not cancelled."""
    times = Times()

    async def call(number: int) -> None:
        if number % 2:
            raise asyncio.CancelledError

    asyncio.run(drive_tasks(load, call, times))
    assert (5, 5) == (times.failed, len(times.served().due))
    assert "what it waits for was cancelled" == str(times.error)


def test_an_interrupt_ends_it_and_keeps_what_was_measured() -> None:
    times, first = Times(), asyncio.Event()

    async def call(number: int) -> None:
        if number:
            first.set()
            await asyncio.sleep(60)

    async def interrupted() -> None:
        work = asyncio.ensure_future(drive_tasks(Load(kind="server", qps=1000, seconds=60), call, times))
        await first.wait()
        await asyncio.sleep(0)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    assert times.served().due
