"""Memory leaks: a robust slope of what a process holds per call, and the rule by which growth is a leak."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from pytest_hwperf.records.errors import MeasurementError

FEWEST_CALLS = 10  # readings below which no slope is given
_CONFIDENCE = 0.90  # two-sided, of a slope


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Growth per call with its interval, in the unit of the readings."""

    value: float
    low: float | None  # None: so few readings have no such bound
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Growth of one process, by three measures that all rise in a leak."""

    whole: Slope  # B per call, over all calls
    later: Slope  # B per call, over their second half alone
    base: float  # B per call, from the least held in the first half to the least held in the second
    rise: float  # the same of a low tenth, which a single outlier does not move
    mean: float  # B per call, from the first reading to the last, steady or not
    calls: int

    @property
    def lasting(self) -> float:
        """Growth per call that goes on, in B: the least of the three, so that what ends or comes back counts less."""
        return min(self.whole.value, self.later.value, self.rise)

    def exceeds(self, floor: float) -> bool:
        """Whether the base, and the lower bounds of both slopes, lie above `floor` (B per call)."""
        return all(low is not None and low > floor for low in (self.whole.low, self.later.low, self.base))


def growth(readings: Sequence[float]) -> Growth:
    calls = len(readings)
    if calls < FEWEST_CALLS:
        raise MeasurementError(f"growth per call takes {FEWEST_CALLS} calls, there were {calls}")
    middle = calls // 2
    early, late = readings[:middle], readings[middle:]
    return Growth(
        whole=slope(readings),
        later=slope(late),
        base=(min(late) - min(early)) / middle,
        rise=(_low(late) - _low(early)) / middle,
        mean=(readings[-1] - readings[0]) / (calls - 1),
        calls=calls,
    )


def _low(readings: Sequence[float]) -> float:
    """Return a low value that a single outlier among ten does not move."""
    return sorted(readings)[len(readings) // 10]


def least(page: int, lag: int, calls: int) -> float:
    """Return the growth per call, in B, up to which nothing is called a leak.

    One page per call: an allocator's own bookkeeping grows by less. Readings that may be off by `lag` bytes either
    way can appear to grow by 2 lag over the second half of `calls`; of exact ones that is nothing.
    """
    return page + 2 * lag / (calls - calls // 2)


def is_leak(processes: Sequence[Growth], floor: float) -> bool:
    """Say whether growth is a leak: above the floor in every process, by both slopes and by the base.

    What a process holds grows in steps whose errors are correlated, so that the interval of one slope alone would
    promise too much. A cache that fills up leaves the second half level, as a single step does that falls before it;
    a step within it leaves the first half level, and with that the lower bound of the whole. What is given back within
    half of the calls leaves the base where it was. What one process does by chance the others do not.
    """
    return bool(processes) and all(process.exceeds(floor) for process in processes)


def slope(values: Sequence[float]) -> Slope:
    """Return the median of the slopes between all pairs of values, which are one call apart, and its interval.

    A quarter of the values may be anything before the slope follows them. The interval takes the ranks that Kendall's
    statistic leaves open, its variance corrected for ties, and rounds them outwards. It holds for independent errors.

    References:
        Theil, Proc. Kon. Ned. Akad. v. Wetensch. A 53 (1950); Sen, JASA 63 (1968), sections 3 and 6.
        Example: 1.26, 1.27, 1.12, 1.16, 1.03 has -0.05625.
    """
    n = len(values)
    slopes = sorted((values[j] - values[i]) / (j - i) for i in range(n) for j in range(i + 1, n))
    ties = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    deviation = math.sqrt((n * (n - 1) * (2 * n + 5) - ties) / 18)
    open_ranks = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2) * deviation
    cut = math.floor((len(slopes) - open_ranks) / 2)  # slopes that may be left out on either side, and one more
    return Slope(
        value=median(slopes), low=slopes[cut - 1] if cut >= 1 else None, high=slopes[-cut] if cut >= 1 else None
    )
