"""A load whose calls are made in this process: in the calling thread, or in threads where several run at once.

Runtimes release the interpreter's lock while they compute. When each call was due, issued and ended is noted.
"""

import math
import threading
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

from pytest_hwperf.host.fakes import RealClock, RealRandom
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import LONGEST_S, Load
from pytest_hwperf.records.messages import Remark, Statement
from pytest_hwperf.records.run import OF_A_LOAD, Sample, Served, Values, replace
from pytest_hwperf.stats.service.loads import rates, why_degrading, why_not_served, why_slower, why_unsteady, why_unsure

if TYPE_CHECKING:
    import asyncio

_LATE_S = 0.0002  # a sleep may end so much late, on an idle machine


class Times:
    """When the calls of a load were due, issued and ended; several threads note at once."""

    def __init__(self) -> None:
        self.failed = 0
        self.error: Exception | None = None  # the first
        self._times = dict[int, tuple[float, float, float]]()  # by the number of the call
        self._lock = threading.Lock()

    def served(self) -> Served:
        """Return what is known now, in the order in which the calls were due."""
        with self._lock:
            noted = [self._times[number] for number in sorted(self._times)]
            due, issued, ended = (array("d", [times[column] for times in noted]) for column in range(3))
            return Served(due=due, issued=issued, ended=ended, failed=self.failed)

    def note(self, number: int, due: float, issued: float, ended: float) -> None:
        """Keep the times of a call that succeeded, in s since the beginning of the load."""
        with self._lock:
            self._times[number] = (due, issued, ended)

    @property
    def made(self) -> int:
        """Calls that are over."""
        return len(self._times) + self.failed

    def note_failure(self, error: Exception) -> None:
        with self._lock:
            self.failed += 1
            self.error = self.error or error


def wait_until(moment: float) -> None:
    """Sleep, and at the end only let others run: a plain loop would hold the interpreter's lock, which calls need."""
    while (left := moment - RealClock.perf_counter()) > 0:
        RealClock.sleep(max(0.0, left - _LATE_S))


def schedule(load: Load) -> Values:
    """Draw when the calls of an open load are due, in s since its beginning; the same seed draws the same times.

    Gaps of a server load are gamma distributed: of shape 1 they are those of a Poisson process.
    """
    if load.kind == "offline":
        return array("d", [0.0] * load.calls)
    chance, due, now = RealRandom(load.seed), array("d"), 0.0
    while (now := now + chance.gammavariate(load.shape, 1 / (load.qps * load.shape))) < load.seconds:
        due.append(now)
        if len(due) == load.most:
            break
    return due


def doubts_of(load: Load, served: Served, within_s: float | None) -> tuple[Statement, ...]:
    """Say what is to be doubted of a load; with most of it no budget passes."""
    late = why_not_served(load, served)
    found = (
        None if late is not None and late.kind == "late calls" else late,  # that is what a budget answers
        why_unsure(served, within_s) or why_slower(served),
        why_unsteady(load, served),
        why_degrading(load, served),
    )
    return tuple(filter(None, found))


def load_samples(
    load: Load, served: Served, source: str, *, rows: int | None, within_s: float | None, warnings: Sequence[Remark]
) -> Iterator[Sample]:
    noted = (*warnings, *doubts_of(load, served, within_s))
    yield Sample(metric="latency", values=served.latencies, per=OF_A_LOAD, source=source, warnings=noted)
    one = _throughput(served, source, tuple(one for one in noted if not _of_generator(one)))
    yield one
    if rows is not None:
        yield replace(one, metric="sample_throughput", values=array("d", (rate * rows for rate in one.values)))
    if within_s is not None:
        good, _ = rates(served, within_s)
        yield Sample(metric="goodput", values=good, per="window", source=source, warnings=noted)


def _of_generator(remark: Remark) -> bool:
    """Whether a remark is about the moment when calls were issued, which changes no rate."""
    return isinstance(remark, Statement) and remark.kind in {"generator late", "generator adds"}


def _throughput(served: Served, source: str, warnings: tuple[Remark, ...]) -> Sample:
    """Completed calls over wall time, window by window; over the whole where a window has none."""
    values, counts = rates(served)
    weights: Values | None = counts
    if not min(counts):
        values, weights = array("d", [len(served.ended) / max(*served.ended, math.ulp(0.0))]), None
    return Sample(metric="throughput", values=values, per="window", source=source, warnings=warnings, weights=weights)


Call = Callable[[int], object]  # makes the n-th call of a load, from 0
_Make = Callable[[int, float, float], None]  # number, due, issued: makes that call and notes it


def drive(load: Load, call: Call, times: Times) -> None:
    """Make the calls of a load, at most `in_flight` at once, and wait for the last."""
    began, at_once = RealClock.perf_counter(), load.at_once(waiting=False)
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
            times.note(number, due, issued, RealClock.perf_counter() - began)

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
        late = max(
            0.0, RealClock.perf_counter() - began - max(due, free)
        )  # beyond the calls before, whose queue is no lag
        make(number, due, due + late)
        free = RealClock.perf_counter() - began


def _follow(load: Load, make: _Make, began: float, first: int, step: int, stopped: Callable[[], bool]) -> None:
    """Make every `step`-th call, each when the one before has ended."""
    number = first
    while (
        (now := RealClock.perf_counter() - began) < load.seconds and number < (load.most or math.inf) and not stopped()
    ):
        make(number, now, now)
        number += step


def _side_by_side(load: Load, make: _Make, began: float, at_once: int) -> None:
    pool, stop = ThreadPoolExecutor(at_once, thread_name_prefix="hwperf-load"), threading.Event()
    work = list[Future[None]]()
    try:
        if load.is_open:
            for number, due in enumerate(schedule(load)):
                wait_until(began + due)
                work.append(pool.submit(make, number, due, RealClock.perf_counter() - began))
        else:
            work += [pool.submit(_follow, load, make, began, first, at_once, stop.is_set) for first in range(at_once)]
        for one in work:
            one.result()  # raises what ends a test and not a call alone, such as `pytest.fail`
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
    began, free = RealClock.perf_counter(), asyncio.Semaphore(load.at_once(waiting=True))
    ends = asyncio.get_running_loop().time() + _longest_s(load) if load.timeout_s else None

    async def make(number: int, due: float | None = None) -> None:
        # What waits for others does so in its own time, else a server that never answers would hold the load for hours.
        until = ends if ends is None or load.kind != "server" else ends - load.seconds + (due or 0.0)
        try:
            async with asyncio.timeout_at(until) as given, free:
                issued = RealClock.perf_counter() - began
                await call(number)
                times.note(number, issued if due is None else due, issued, RealClock.perf_counter() - began)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise  # it is the load that is cancelled, and not what the call waits for
            times.note_failure(MeasurementError("what it waits for was cancelled"))
        except Exception as error:  # noqa: BLE001 - whatever fails a call is counted, and the load goes on
            late = MeasurementError(f"not answered within {load.timeout_s:g} s from when it was due")
            times.note_failure(late if given.expired() else error)

    async def follow(first: int, step: int) -> None:
        number = first
        while RealClock.perf_counter() - began < load.seconds and number < (load.most or math.inf):
            await make(number)
            number += step

    if load.is_open:
        await _issued(load, make, began)
    else:
        at_once = load.at_once(waiting=True)
        tasks = [asyncio.ensure_future(follow(first, at_once)) for first in range(at_once)]
        try:
            await asyncio.gather(*tasks)
        finally:
            await _ended(tasks)


async def _ended(tasks: "Iterable[asyncio.Task[None]]") -> None:
    """End tasks, and wait for them."""
    import asyncio

    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _longest_s(load: Load) -> float:
    """Return after how long the last call of a load is over: calls of `offline` are due at once, however many."""
    return (LONGEST_S if load.kind == "offline" else load.seconds) + load.timeout_s


async def _issued(load: Load, make: Callable[[int, float], Any], began: float) -> None:
    """Begin each call when it is due, and wait for all; nothing is left running where this is cancelled."""
    import asyncio

    loop, stop, tasks = asyncio.get_running_loop(), threading.Event(), set[asyncio.Task[None]]()
    over, ends = asyncio.Event(), list[BaseException]()  # what ends a test and not a call alone, such as `pytest.fail`

    def ended(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            ends.append(error)
            over.set()

    def begin(number: int, due: float) -> None:
        if not stop.is_set():
            task = loop.create_task(make(number, due))
            tasks.add(task)
            task.add_done_callback(ended)

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
        while tasks and not ends:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        await _ended([*tasks])
    if ends:
        raise ends[0]
