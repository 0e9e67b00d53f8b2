"""A short check of counters when they are opened: how often they move, and which of them report nonsense."""

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TypeVar

from pytest_hwperf.meters.counters import MOST_W, CounterMeter, Counters, Register, Share, Traits
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.records.units import show

_CHANGES = 50  # of each counter, then its step is known
_LEAST_S = 0.2  # a counter that has not moved by then is stuck: an idle package moves every millisecond
_MOST_S = 1.0
_FEWEST_GAPS = 2
_TICKS = 100  # in a window: an error of one of them is 1 %
_SHORTEST_S = 0.5  # where twelve windows of a steady load agree within 1 %
_SHORTEST_NOISY_S = 1.0  # with SGX the firmware adds noise against side channels
_LONGEST_S = 10.0  # of a window that a test can wait for; five are needed
_PATIENCE = 5  # ticks to wait for the next change

S = TypeVar("S")


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


def open_checked(
    sources: Sequence[S],
    open_counters: Callable[[Sequence[S]], Counters],
    check: Check,
    *,
    ids_of: Callable[[S], Collection[str]],
) -> tuple[Counters, CounterCheck, tuple[str, ...]]:
    """Open the counters of `sources` and check them; open them again without those that report nonsense.

    A source counts if the registers that `ids_of` names are sound: its own, and that of what contains it. Returned are
    the open counters, the check of them, and why others are left out.
    """
    counters = open_counters(sources)
    seen = _checked(counters, check)
    if not (faults := seen.faults()):
        return counters, seen, ()
    counters.close()
    left = [source for source in sources if not faults.keys() & set(ids_of(source))]
    counters = open_counters(left)
    if not any(register.never_idle for register in counters.registers):
        counters.close()
        raise MeterUnavailable(f"{' '.join(faults.values())} Nothing is left to read.")
    return counters, _checked(counters, check), tuple(faults.values())


def processor_meter(
    kind: str,
    counters: Counters,
    seen: CounterCheck,
    *,
    flags: Collection[str],
    longest_window_s: float = math.inf,
    warnings: Sequence[str],
) -> CounterMeter:
    """Return the meter of a processor's checked counters; `flags` are those of /proc/cpuinfo."""
    noisy = "sgx" in flags
    try:
        shortest_s = shortest_window(seen.tick_s, _SHORTEST_NOISY_S if noisy else _SHORTEST_S)
    except MeterUnavailable:
        counters.close()
        raise
    sgx = ["this processor has SGX: its firmware may add noise to the energy counters"] if noisy else []
    traits = Traits(
        kind=kind,
        tick_s=seen.tick_s,
        spins=seen.spins,
        shortest_window_s=shortest_s,
        longest_window_s=longest_window_s,
        warnings=(*warnings, *sgx),
    )
    return CounterMeter(counters, traits, share=Share())


def shortest_window(tick_s: float, least_s: float) -> float:
    """Return the length, in s, from which a window is exact within 1 %, but not less than `least_s`."""
    if _TICKS * tick_s > _LONGEST_S:
        raise MeterUnavailable(
            f"The counters move every {show(tick_s, 's')} only: a window exact within 1 % would take "
            f"{show(_TICKS * tick_s, 's')}, more than {show(_LONGEST_S, 's')}."
        )
    return max(least_s, _TICKS * tick_s)


def _checked(counters: Counters, check: Check) -> CounterCheck:
    try:
        return check(counters)
    except MeasurementError as error:
        counters.close()
        raise MeterUnavailable(f"The counters could be opened and not be read: {error}.") from error


def _gap(times: Sequence[float], elapsed: float) -> float:
    """Return the usual time between two changes; of a counter that hardly moved, the most that it can be."""
    gaps = [after - before for before, after in pairwise(times)]
    return median(gaps) if len(gaps) >= _FEWEST_GAPS else elapsed
