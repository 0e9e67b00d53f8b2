"""Samples of the stack of the main thread, taken when a timer of the system says so.

No call of a function becomes slower, as it does under profilers that are told of each one: only samples cost time.
The interpreter runs the handler of a signal between two instructions, after a call out of Python has come back, so
that a sample stands for all the time since the one before. Intervals are drawn, lest they keep step with the calls.

Sources: setitimer(2); the chapter "Execution of Python signal handlers" of Python's documentation of `signal`.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from time import perf_counter
from types import CodeType, FrameType

from pytest_hwperf.core.errors import MeasurementError

_SOON_S = 0.001  # for a timer whose time is over: 0 would stop it
_DEEPEST = 500  # frames of a stack that are looked at, the innermost


class Samples:
    """What was sampled: stacks, the outermost function first, each with its seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without samples."""
        self.seconds: dict[tuple[CodeType, ...], float] = {}
        self.count = 0
        self.is_over = False  # whether a tick that comes late, after the end of the block, is no sample
        self._clock, self._last = clock, clock()

    def take(self, frame: FrameType | None) -> None:
        """Note the stack of a frame for the time since the last sample; what this takes itself is nobody's."""
        stack = list[CodeType]()
        now = self._clock()
        while frame is not None and len(stack) < _DEEPEST:
            stack.append(frame.f_code)
            frame = frame.f_back
        key = tuple(reversed(stack))
        self.seconds[key] = self.seconds.get(key, 0.0) + now - self._last
        self.count += 1
        self._last = self._clock()


@contextmanager
def sampling(interval_s: float, clock: Callable[[], float] = perf_counter) -> Iterator[Samples]:
    """Sample the main thread within the block, every `interval_s` on average.

    Another user of the timer, such as pytest-timeout, waits meanwhile and goes on with the time that it had left.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        raise MeasurementError("functions are sampled by a timer of POSIX systems, in the main thread alone")
    drawn, samples = Random(0), Samples(clock)  # noqa: S311 - intervals are no secret

    def on_tick(_: int, frame: FrameType | None) -> None:
        if not samples.is_over:
            samples.take(frame)
            signal.setitimer(signal.ITIMER_REAL, interval_s * drawn.uniform(0.5, 1.5))

    handler = signal.signal(signal.SIGALRM, on_tick)
    began, (left_s, every_s) = clock(), signal.setitimer(signal.ITIMER_REAL, interval_s)
    try:
        yield samples
    finally:
        samples.is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        if callable(handler):  # by default the signal ends the process, also one that is under way
            signal.signal(signal.SIGALRM, handler)
        if left_s:
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (clock() - began), _SOON_S), every_s)
