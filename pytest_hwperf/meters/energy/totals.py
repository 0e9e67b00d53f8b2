"""Counts that only grow, made of counters that start again at 0: wraps are folded in at every reading."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.units import show
from pytest_hwperf.meters.energy.registers import Counters

_SLEPT_S = 0.1  # the two clocks are read one after the other, not at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """All totals at one moment."""

    counts: tuple[int, ...]  # in the order of the registers, since the meter was opened
    at_s: float  # midpoint of the reading
    voids: int  # how often something went wrong so far: a window within which it grew tells nothing


def seconds_asleep() -> float:
    """Return for how long this machine has been suspended since it started; 0.0 where the system does not tell."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class Totals:
    """Folds readings of counters, from whichever thread.

    Args:
        counters: to be read.
        longest_s: between two readings; after more a counter may have started again at 0 twice.
        clock: seconds, monotonic.
        asleep: seconds that the machine has been suspended.
        wait: sleeps for so many seconds unless the event comes first, and tells whether it came.
    """

    def __init__(
        self,
        counters: Counters,
        *,
        longest_s: float,
        clock: Callable[[], float] = time.monotonic,
        asleep: Callable[[], float] = seconds_asleep,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._counters = counters
        self._longest_s = longest_s
        self._clock = clock
        self._asleep = asleep
        self._wait = wait
        self._lock = threading.Lock()
        self._totals = [0] * len(counters.registers)
        self._last: tuple[int, ...] | None = None  # raw counts of the last reading
        self._last_s = clock()
        self._slept_s = asleep()
        self._voids = 0
        self.reason = ""  # what went wrong last

    def read(self) -> Instant:
        """Read all counters now.

        Raises:
            MeasurementError: one of them gave no number; windows that are open are void.
        """
        with self._lock:
            try:
                self._fold()
            except MeasurementError as error:
                self._void(str(error))
                raise
            return Instant(counts=tuple(self._totals), at_s=self._last_s, voids=self._voids)

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Read now and then from a thread, so that windows longer than `longest_s` lose nothing."""
        if self._longest_s == float("inf"):
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._attend, args=(ended,), name="hwperf-energy", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _attend(self, ended: threading.Event) -> None:
        while not self._wait(ended, self._longest_s / 2):
            with self._lock:
                try:
                    self._fold()
                except MeasurementError as error:
                    self._void(str(error))  # whoever has a window open is told at its end

    def _fold(self) -> None:
        before_s = self._clock()
        counts = self._counters.read()
        at_s = (before_s + self._clock()) / 2
        slept_s = self._asleep()
        if slept_s - self._slept_s > _SLEPT_S:
            self._void(f"the machine was suspended for {show(slept_s - self._slept_s, 's')} during the window")
        if at_s - self._last_s > self._longest_s:
            self._void(
                f"the counters were not read for {show(at_s - self._last_s, 's')}, longer than "
                f"{show(self._longest_s, 's')}: one of them may have started again at 0 unseen"
            )
        last, self._last = self._last or counts, counts
        self._last_s, self._slept_s = at_s, slept_s
        for position, register in enumerate(self._counters.registers):
            self._totals[position] += register.spent(last[position], counts[position])

    def _void(self, reason: str) -> None:
        self._voids += 1
        self.reason = reason
