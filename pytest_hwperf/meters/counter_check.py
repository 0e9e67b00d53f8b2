"""A short look at energy counters: their step, and which of them count nothing, nonsense or the same as another."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise
from statistics import median

from pytest_hwperf.meters.counters import MOST_W, Counters, Register
from pytest_hwperf.records.units import show

_CHANGES = 50  # of each counter, then its step is known
_LEAST_S = 0.2  # a counter that has not moved by then is stuck: an idle package moves every millisecond
_MOST_S = 1.0
_FEWEST_GAPS = 2
_PATIENCE = 5  # ticks to wait for the next change
_FEWEST_VALUES = 10  # of two counters, to tell that they are one
_SAME = 0.9  # of the readings: one register may move on between the two that a reading takes of it
_MOST_KEPT = 10_000  # readings; a counter that moves every millisecond gives a thousand


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterCheck:
    """Results of a check."""

    tick_s: float  # median time between two changes, of the slowest counter
    spins: int  # readings that take as long as a few ticks: a wait for a change ends then
    seconds: float = 0.0  # that it took
    stuck: tuple[Register, ...] = ()  # did not move
    absurd: tuple[tuple[Register, float], ...] = ()  # with their power in W, which nothing draws
    mirrors: tuple[tuple[Register, Register], ...] = ()  # each with an earlier counter whose register it shows too

    def faults(self) -> dict[str, str]:
        """Return register id → why it is left out."""
        stuck = {r.id: f"{r} did not move in {show(self.seconds, 's')}: it is left out." for r in self.stuck}
        absurd = {
            r.id: f"{r} reads {watts:.0f} W, above {MOST_W:.0f} W: wrong unit; it is left out."
            for r, watts in self.absurd
        }
        return stuck | absurd

    def copies(self) -> dict[str, str]:
        """Return register id → why it is not added to the one that it repeats."""
        return {
            copy.id: f"{copy} shows the counts of {first}: both read one register, which is counted once."
            for copy, first in self.mirrors
        }


Check = Callable[[Counters], CounterCheck]


def check_counters(counters: Counters, clock: Callable[[], float] = time.perf_counter) -> CounterCheck:
    first = last = counters.read()
    changes: list[list[float]] = [[] for _ in counters.registers]
    totals = [0] * len(first)
    different = deque([first], maxlen=_MOST_KEPT)
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
        if counts != last:
            different.append(counts)
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
        mirrors=tuple(_mirrors(counters.registers, different)),
    )


def _mirrors(registers: Sequence[Register], readings: Iterable[Sequence[int]]) -> list[tuple[Register, Register]]:
    """Return each counter that repeats an earlier one, with that one."""
    shown = list(zip(*readings, strict=True))
    first_of = dict[int, int]()
    for first, second in combinations(range(len(registers)), 2):
        is_known = first in first_of or second in first_of
        if not is_known and _is_one_register(shown[first], shown[second]):
            first_of[second] = first
    return [(registers[second], registers[first]) for second, first in first_of.items()]


def _is_one_register(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two counters go through the same counts together, to the last digit and from the same start on.

    Two packages with the same load do not: they have been counting since the machine started. Between the two parts of
    one reading the register may move on, so that one of them shows the count before or after that of the other.
    """
    if min(len(set(first)), len(set(second))) < _FEWEST_VALUES:
        return False
    both = [pair for pair, _ in groupby(zip(first, second, strict=True))]
    beside = zip([both[0], *both], both, [*both[1:], both[-1]], strict=False)
    same = sum(now[1] in {before[0], now[0], after[0]} for before, now, after in beside)
    return same >= _SAME * len(both)


def _gap(times: Sequence[float], elapsed: float) -> float:
    """Return the usual time between two changes; of a counter that hardly moved, the most that it can be."""
    gaps = [after - before for before, after in pairwise(times)]
    return median(gaps) if len(gaps) >= _FEWEST_GAPS else elapsed
