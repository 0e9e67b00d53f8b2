"""A load whose calls are threads of this process: runtimes release the interpreter's lock while they compute."""

import threading
from array import array
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter, sleep

from pytest_hwperf.core.loads import Load, Served
from pytest_hwperf.loads.schedule import schedule

Call = Callable[[int], object]  # makes the n-th call of a load, from 0

_LATE_S = 0.0002  # a sleep may end so much late, on an idle machine


class Times:
    """When the calls of a load were due, issued and ended; several threads note at once."""

    def __init__(self) -> None:
        """Begin without calls."""
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

    def note_failure(self, error: Exception) -> None:
        """Count a call that failed."""
        with self._lock:
            self.failed += 1
            self.error = self.error or error


def drive(load: Load, call: Call, times: Times) -> None:
    """Make the calls of a load, at most `in_flight` at once, and wait for the last.

    Args:
        load: when they are due.
        call: makes one.
        times: filled while the load runs, so that what was measured is kept where it is interrupted.
    """
    began, stop = perf_counter(), threading.Event()

    def make(number: int, due: float, issued: float) -> None:
        try:
            call(number)
        except Exception as error:  # noqa: BLE001 - whatever fails a call is counted, and the load goes on
            times.note_failure(error)
        else:
            times.note(number, due, issued, perf_counter() - began)

    def follow(first: int) -> None:
        """Make every `in_flight`-th call, each when the one before has ended."""
        number = first
        while (now := perf_counter() - began) < load.seconds and not stop.is_set():
            make(number, now, now)
            number += load.in_flight

    pool = ThreadPoolExecutor(load.in_flight, thread_name_prefix="hwperf-load")
    try:
        if load.is_open:
            for number, due in enumerate(schedule(load)):
                _wait_until(began + due)
                pool.submit(make, number, due, perf_counter() - began)
        else:
            loops: list[Future[None]] = [pool.submit(follow, first) for first in range(load.in_flight)]
            for loop in loops:
                loop.result()
    except BaseException:  # such as Ctrl-C
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _wait_until(moment: float) -> None:
    """Sleep, and at the end only let others run: a plain loop would hold the interpreter's lock, which calls need."""
    while (left := moment - perf_counter()) > 0:
        sleep(max(0.0, left - _LATE_S))
