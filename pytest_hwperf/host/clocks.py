"""What this machine's own clocks are good for: the smallest step they show, and what reading them costs."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

_READINGS = 10_000  # some milliseconds in all
_STEPS = 50  # of CPU time
_MOST_SPINS = 1_000_000  # until a counter moves; one that does not by then has no step to tell
_NANO = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A clock, watched for a moment."""

    step_s: float | None  # smallest difference that was seen, None where it never moved
    cost_s: float  # median time from one reading to the next


def watch_clock(now_ns: Callable[[], int] = time.perf_counter_ns) -> Clock:
    """Read a clock many times in a row: what timings are taken with, unless another is given."""
    gaps = [after - before for before, after in pairwise([now_ns() for _ in range(_READINGS)])]
    moved = [gap for gap in gaps if gap > 0]
    # A clock that moves less often than it is read has a median gap of 0: then the mean tells what a reading costs.
    cost_ns = median(gaps) or sum(gaps) / len(gaps)
    return Clock(step_s=min(moved) * _NANO if moved else None, cost_s=cost_ns * _NANO)


def cpu_seconds() -> float:
    """Return user and system seconds of this process, its threads and the children it has waited for.

    The kernel accounts in nanoseconds, but what another thread is running at this instant is added only at its next
    scheduler tick: steps of 3 to 4 ms were seen. Sleeping threads are complete.

    Source: getrusage(2), RUSAGE_SELF and RUSAGE_CHILDREN.
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
    """Return what Linux takes time from, as "tsc"; None where it does not say.

    Source: Documentation/timers/timekeeping.rst; "hpet" and "acpi_pm" take about a microsecond to read.
    """
    file = Path(root, "sys/devices/system/clocksource/clocksource0/current_clocksource")
    try:
        return file.read_text(encoding="ascii").strip() or None
    except OSError:  # another system, or hidden: unknown either way
        return None
