"""Clocks of this machine: the smallest step they show, what reading them costs, and CPU time of this process."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from pytest_hwperf.host.files import read_text

_READINGS = 10_000  # some milliseconds in all
_STEPS = 50  # of CPU time
_MOST_SPINS = 1_000_000  # until a counter moves; one that does not by then has no known step
_NANO = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPrecision:
    """Precision of a clock, as observed."""

    step_s: float | None  # smallest difference that was seen, None where it never moved
    cost_s: float  # median time from one reading to the next


def observe_clock(now_ns: Callable[[], int] = time.perf_counter_ns) -> ClockPrecision:
    """Read a clock many times in a row: the one that timings are taken with, unless another is given."""
    gaps = [after - before for before, after in pairwise([now_ns() for _ in range(_READINGS)])]
    moved = [gap for gap in gaps if gap > 0]
    # A clock that moves less often than it is read has a median gap of 0: then the mean is the cost of a reading.
    cost_ns = median(gaps) or sum(gaps) / len(gaps)
    return ClockPrecision(step_s=min(moved) * _NANO if moved else None, cost_s=cost_ns * _NANO)


def cpu_seconds() -> float:
    """Return user and system seconds of this process, its threads and the children it has waited for.

    getrusage(2) counts in microseconds; psutil reads clock ticks of 10 ms. The kernel accounts in nanoseconds, but what
    another thread is running at this instant is added only at its next scheduler tick: steps of 3 to 4 ms were seen.
    Sleeping threads are complete.
    """
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def cpu_time_step(read: Callable[[], float] = cpu_seconds) -> float | None:
    """Return the smallest step in seconds by which CPU time was seen to grow while working; None where it never did."""
    steps, last, spins = list[float](), read(), 0
    while len(steps) < _STEPS and spins < _MOST_SPINS:
        now = read()
        spins += 1
        if now > last:
            steps.append(round(now - last, 9))  # seconds as floats: the difference of two is off in the last digits
            last = now
    return min(steps, default=None)


def clock_source(root: str | Path = "/") -> str | None:
    """Return the kernel's source of time, as "tsc"; None where Linux does not name it.

    Source: Documentation/timers/timekeeping.rst; "hpet" and "acpi_pm" take about a microsecond to read.
    """
    return read_text(Path(root, "sys/devices/system/clocksource/clocksource0/current_clocksource")) or None
