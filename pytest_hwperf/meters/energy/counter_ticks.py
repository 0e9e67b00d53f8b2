"""What counters do when they are watched closely: how often they move, and which of them tell nonsense."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pytest_hwperf.core.errors import MeterUnavailable
from pytest_hwperf.core.units import show
from pytest_hwperf.meters.energy.registers import Counters, Register

MOST_W = 2000.0  # what no package, memory or board draws; Atom packages read with a wrong unit told 3763 W
_CHANGES = 50  # of each counter, then its step is known
_LEAST_S = 0.2  # a counter that has not moved by then is stuck: an idle package moves every millisecond
_MOST_S = 1.0
_FEWEST_GAPS = 2
_TICKS = 100  # a window holds as many: an error of one of them is 1 %
_SHORTEST_S = 0.5  # where twelve windows of a steady load agree within 1 %
_SHORTEST_NOISY_S = 1.0  # with SGX the firmware adds noise against side channels
_LONGEST_S = 10.0  # of a window that a test can wait for; five are needed
_PATIENCE = 5  # ticks to wait for the next change


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a short look at the counters has shown."""

    tick_s: float  # median time between two changes, of the slowest counter
    spins: int  # readings that take as long as a few ticks: whoever waits for a change gives up then
    seconds: float = 0.0  # that it took
    stuck: tuple[Register, ...] = ()  # did not move
    absurd: tuple[tuple[Register, float], ...] = ()  # with the watts that nothing draws


def calibrate(counters: Counters, clock: Callable[[], float] = time.perf_counter) -> Calibration:
    """Watch the counters for 0.2 to 1 s.

    Args:
        counters: held open.
        clock: seconds, monotonic.

    Raises:
        MeasurementError: one of them gave no number.
    """
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
    pairs = list(zip(counters.registers, changes, watts, strict=True))
    good = [times for _, times, power in pairs if times and power <= MOST_W]
    tick_s = max((_gap(times, elapsed) for times in good), default=elapsed)
    return Calibration(
        tick_s=tick_s,
        seconds=elapsed,
        spins=round(_PATIENCE * tick_s / (elapsed / readings)),
        stuck=tuple(register for register, times, _ in pairs if not times),
        absurd=tuple((register, power) for register, _, power in pairs if power > MOST_W),
    )


def shortest_window(tick_s: float, least_s: float) -> float:
    """Return the length, in s, from which a window is exact within 1 %, but not less than `least_s`.

    Raises:
        MeterUnavailable: the counter moves so seldom that no test would wait for it.
    """
    if _TICKS * tick_s > _LONGEST_S:
        raise MeterUnavailable(
            f"The counters move every {show(tick_s, 's')} only: a window exact within 1 % would take "
            f"{show(_TICKS * tick_s, 's')}, more than {show(_LONGEST_S, 's')}."
        )
    return max(least_s, _TICKS * tick_s)


def package_window(tick_s: float, flags: Collection[str]) -> tuple[float, tuple[str, ...]]:
    """Return the shortest window over a processor's own counters, in s, and what to warn of.

    Args:
        tick_s: step of the counters.
        flags: of the processor, as /proc/cpuinfo gives them.

    Raises:
        MeterUnavailable: as `shortest_window`.
    """
    if "sgx" in flags:
        noisy = "this processor has SGX: its firmware may add noise to the energy counters"
        return shortest_window(tick_s, _SHORTEST_NOISY_S), (noisy,)
    return shortest_window(tick_s, _SHORTEST_S), ()


def _gap(times: Sequence[float], elapsed: float) -> float:
    """Return the usual time between two changes; of a counter that hardly moved, the most that it can be."""
    gaps = [after - before for before, after in pairwise(times)]
    return median(gaps) if len(gaps) >= _FEWEST_GAPS else elapsed
