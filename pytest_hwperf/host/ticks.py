"""Ticks that show what the main thread does: of a timer of POSIX systems, elsewhere of a thread that looks at it."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from time import perf_counter
from types import FrameType

from pytest_hwperf.records.errors import MeasurementError

SAMPLED_BY = "stacks sampled every {milliseconds:g} ms"
if sys.platform == "win32":
    SAMPLED_BY = "stacks sampled by a thread, at most every {milliseconds:g} ms"
IN_MAIN_THREAD = sys.platform != "win32"  # whether it takes the samples itself, so that its clock tells their time
_SOON_S = 0.001  # for a timer whose time is over: 0 would stop it

Take = Callable[[FrameType | None], object]  # is given the frame that runs


@contextmanager
def ticking(interval_s: float, take: Take, clock: Callable[[], float] = perf_counter) -> Iterator[None]:
    """Call `take` every `interval_s` on average while the block lasts."""
    if threading.current_thread() is not threading.main_thread():
        raise MeasurementError("functions are sampled in the main thread alone")
    drawn = Random(0)  # noqa: S311 - intervals are no secret

    def interval() -> float:
        return interval_s * drawn.uniform(0.5, 1.5)

    if sys.platform == "win32":
        with _of_thread(interval, take):
            yield
    else:
        with _of_timer(interval_s, interval, take, clock):
            yield


if sys.platform != "win32":

    @contextmanager
    def _of_timer(
        first_s: float, interval: Callable[[], float], take: Take, clock: Callable[[], float]
    ) -> Iterator[None]:
        """Let another user of the timer, such as pytest-timeout, wait, and go on with the time that it had left."""
        is_over = False  # whether a tick that comes late, after the end of the block, is none

        def on_tick(_: int, frame: FrameType | None) -> None:
            if not is_over:
                take(frame)
                signal.setitimer(signal.ITIMER_REAL, interval())

        handler = signal.signal(signal.SIGALRM, on_tick)
        began, (left_s, every_s) = clock(), signal.setitimer(signal.ITIMER_REAL, first_s)
        try:
            yield
        finally:
            is_over = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            if callable(handler):  # by default the signal ends the process, also one that is under way
                signal.signal(signal.SIGALRM, handler)
            if left_s:
                signal.setitimer(signal.ITIMER_REAL, max(left_s - (clock() - began), _SOON_S), every_s)


@contextmanager
def _of_thread(interval: Callable[[], float], take: Take) -> Iterator[None]:
    """Let a thread look; it is let in as often as it wants, and sees a frame only where Python changes threads."""
    over, main, before = threading.Event(), threading.main_thread().ident or 0, sys.getswitchinterval()

    def look() -> None:
        while not over.wait(interval()):
            take(sys._current_frames().get(main))  # noqa: SLF001 - there is no public way

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        sys.setswitchinterval(interval())
        yield
    finally:
        over.set()
        looking.join()
        sys.setswitchinterval(before)
