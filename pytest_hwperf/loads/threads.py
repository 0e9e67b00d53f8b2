"""A load whose calls are made in this process: in the calling thread, or in threads where several run at once.

Runtimes release the interpreter's lock while they compute.
"""

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from time import perf_counter

from pytest_hwperf.core.loads import Load
from pytest_hwperf.loads.schedule import schedule
from pytest_hwperf.loads.times import Times, wait_until

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
