"""A load whose calls are made in this process: in the calling thread, or in threads where several run at once.

Runtimes release the interpreter's lock while they compute.
"""

import math
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from time import perf_counter
from typing import Any

from pytest_hwperf.loads.times import Times, schedule, wait_until
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.load import LONGEST_S, Load

Call = Callable[[int], object]  # makes the n-th call of a load, from 0
_Make = Callable[[int, float, float], None]  # number, due, issued: makes that call and notes it


def drive(load: Load, call: Call, times: Times) -> None:
    """Make the calls of a load, at most `in_flight` at once, and wait for the last."""
    began, at_once = perf_counter(), load.at_once(waiting=False)
    make = _noted(call, times, began)
    if at_once == 1:
        _alone(load, make, began, count())
    else:
        _side_by_side(load, make, began, at_once)


def drive_share(load: Load, call: Call, times: Times, began: float, numbers: Iterator[int]) -> None:
    """Make the calls of a load that fall to this process, one after the other."""
    wait_until(began)
    _alone(load, _noted(call, times, began), began, numbers)


def _noted(call: Call, times: Times, began: float) -> _Make:
    def make(number: int, due: float, issued: float) -> None:
        try:
            call(number)
        except Exception as error:  # noqa: BLE001 - whatever fails a call is counted, and the load goes on
            times.note_failure(error)
        else:
            times.note(number, due, issued, perf_counter() - began)

    return make


def _alone(load: Load, make: _Make, began: float, numbers: Iterator[int]) -> None:
    """Make one call after the other in this thread, which costs no call a hand-over to another one."""
    if not load.is_open:
        _follow(load, make, began, 0, 1, lambda: False)
        return
    dues, free = schedule(load), 0.0
    for number in numbers:
        if number >= len(dues):
            return
        due = dues[number]
        wait_until(began + due)
        late = max(0.0, perf_counter() - began - max(due, free))  # beyond the calls before, whose queue is no lag
        make(number, due, due + late)
        free = perf_counter() - began


def _follow(load: Load, make: _Make, began: float, first: int, step: int, stopped: Callable[[], bool]) -> None:
    """Make every `step`-th call, each when the one before has ended."""
    number = first
    while (now := perf_counter() - began) < load.seconds and number < (load.most or math.inf) and not stopped():
        make(number, now, now)
        number += step


def _side_by_side(load: Load, make: _Make, began: float, at_once: int) -> None:
    pool, stop = ThreadPoolExecutor(at_once, thread_name_prefix="hwperf-load"), threading.Event()
    try:
        if load.is_open:
            for number, due in enumerate(schedule(load)):
                wait_until(began + due)
                pool.submit(make, number, due, perf_counter() - began)
        else:
            loops: list[Future[None]] = [
                pool.submit(_follow, load, make, began, first, at_once, stop.is_set) for first in range(at_once)
            ]
            for loop in loops:
                loop.result()
    except BaseException:  # such as Ctrl-C
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


AsyncCall = Callable[[int], Awaitable[object]]  # makes the n-th call of a load, from 0


async def drive_tasks(load: Load, call: AsyncCall, times: Times) -> None:
    """Make the calls of a load on the running loop of asyncio, at most `in_flight` at once, and wait for the last.

    A call counts as issued when it begins: where as many as may run at once do, the load waits for itself.
    """
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise UsageProblem("a load of async calls needs an event loop of asyncio, and another one runs here") from None
    began, free = perf_counter(), asyncio.Semaphore(load.at_once(waiting=True))
    ends = asyncio.get_running_loop().time() + _longest_s(load) if load.timeout_s else None

    async def make(number: int, due: float | None = None) -> None:
        # What waits for others does so in its own time, else a server that never answers would hold the load for hours.
        until = ends if ends is None or load.kind != "server" else ends - load.seconds + (due or 0.0)
        try:
            async with asyncio.timeout_at(until) as given, free:
                issued = perf_counter() - began
                await call(number)
                times.note(number, issued if due is None else due, issued, perf_counter() - began)
        except Exception as error:  # noqa: BLE001 - whatever fails a call is counted, and the load goes on
            late = MeasurementError(f"not answered within {load.timeout_s:g} s from when it was due")
            times.note_failure(late if given.expired() else error)

    async def follow(first: int, step: int) -> None:
        number = first
        while perf_counter() - began < load.seconds and number < (load.most or math.inf):
            await make(number)
            number += step

    if load.is_open:
        await _issued(load, make, began)
    else:
        at_once = load.at_once(waiting=True)
        await asyncio.gather(*(follow(first, at_once) for first in range(at_once)))


def _longest_s(load: Load) -> float:
    """Return after how long the last call of a load is over: calls of `offline` are due at once, however many."""
    return (LONGEST_S if load.kind == "offline" else load.seconds) + load.timeout_s


async def _issued(load: Load, make: Callable[[int, float], Any], began: float) -> None:
    """Begin each call when it is due, and wait for all; nothing is left running where this is cancelled."""
    import asyncio

    loop, stop, tasks = asyncio.get_running_loop(), threading.Event(), set[asyncio.Task[None]]()
    over = asyncio.Event()

    def begin(number: int, due: float) -> None:
        if not stop.is_set():
            task = loop.create_task(make(number, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def issue() -> None:
        for number, due in enumerate(schedule(load)):
            wait_until(began + due)
            if stop.is_set():
                return
            loop.call_soon_threadsafe(begin, number, due)
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=issue, daemon=True, name="hwperf-load").start()
    try:
        await over.wait()
        while tasks:
            await asyncio.wait(tasks)
    finally:
        stop.set()
        for task in tasks:
            task.cancel()
