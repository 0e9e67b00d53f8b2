"""A short check of counters when they are opened: how often they move, and which of them report nonsense."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pytest_hwperf.meters.counters import MOST_W, Counters, Register
from pytest_hwperf.records.units import show

_CHANGES = 50  # of each counter, then its step is known
_LEAST_S = 0.2  # a counter that has not moved by then is stuck: an idle package moves every millisecond
_MOST_S = 1.0
_FEWEST_GAPS = 2
_PATIENCE = 5  # ticks to wait for the next change


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterCheck:
    """Results of a check."""

    tick_s: float  # median time between two changes, of the slowest counter
    spins: int  # readings that take as long as a few ticks: a wait for a change ends then
    seconds: float = 0.0  # that it took
    stuck: tuple[Register, ...] = ()  # did not move
    absurd: tuple[tuple[Register, float], ...] = ()  # with their power in W, which nothing draws

    def faults(self) -> dict[str, str]:
        """Return register id → why it is left out."""
        stuck = {r.id: f"{r} did not move in {show(self.seconds, 's')}: it is left out." for r in self.stuck}
        absurd = {
            r.id: f"{r} reads {watts:.0f} W, above {MOST_W:.0f} W: wrong unit; it is left out."
            for r, watts in self.absurd
        }
        return stuck | absurd


Check = Callable[[Counters], CounterCheck]


def check_counters(counters: Counters, clock: Callable[[], float] = time.perf_counter) -> CounterCheck:
    """Watch the counters for 0.2 to 1 s."""
    first = last = counters.read()
    changes: list[list[float]] = [[] for _ in counters.registers]
    totals = [0] * len(first)
    started = clock()
    elapsed, readings = 0.0, 0
    while elapsed < _LEAST_S or (elapsed < _MOST_S and any(len(times) < _CHANGES for times in changes)):
        counts, now = counters.read(), clock()
        readings += 1
        elapsed = now - started
        for position, (register, before, after) in enumerate(zip(counters.registers, last, counts, strict=True)):
            if after != before:
                changes[position].append(now)
                totals[position] += register.spent(before, after)
        last = counts
    watts = [total * r.joules / elapsed for total, r in zip(totals, counters.registers, strict=True)]
    seen = list(zip(counters.registers, changes, watts, strict=True))
    good = [times for _, times, power in seen if times and power <= MOST_W]
    tick_s = max((_gap(times, elapsed) for times in good), default=elapsed)
    return CounterCheck(
        tick_s=tick_s,
        seconds=elapsed,
        spins=round(_PATIENCE * tick_s / (elapsed / readings)),
        stuck=tuple(register for register, times, _ in seen if not times),
        absurd=tuple((register, power) for register, _, power in seen if power > MOST_W),
    )


def _gap(times: Sequence[float], elapsed: float) -> float:
    """Return the usual time between two changes; of a counter that hardly moved, the most that it can be."""
    gaps = [after - before for before, after in pairwise(times)]
    return median(gaps) if len(gaps) >= _FEWEST_GAPS else elapsed
