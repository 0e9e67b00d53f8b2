"""The statistics that pytest-benchmark computes of the times of rounds, by its names and definitions.

They are for bodies of tests and other programs that look at them, and decide nothing here.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from statistics import median

_FENCE = 1.5  # interquartile ranges beyond a quartile: what lies further out is an outlier


class Stats:
    """Statistics of the times of calls, in seconds, with the names and definitions of pytest-benchmark."""

    def __init__(self, data: Sequence[float]) -> None:
        """Of at least one time."""
        self.data = list(data)
        self.sorted_data = sorted(self.data)

    @property
    def rounds(self) -> int:
        """How many times there are; calls that were timed in batches share one."""
        return len(self.data)

    @property
    def min(self) -> float:
        """Shortest time."""
        return self.sorted_data[0]

    @property
    def max(self) -> float:
        """Longest time."""
        return self.sorted_data[-1]

    @cached_property
    def total(self) -> float:
        """Sum of the times."""
        return math.fsum(self.data)

    @cached_property
    def mean(self) -> float:
        """Arithmetic mean."""
        return self.total / self.rounds

    @cached_property
    def stddev(self) -> float:
        """Standard deviation of a sample; 0 of a single time."""
        if self.rounds == 1:
            return 0.0
        return math.sqrt(math.fsum((value - self.mean) ** 2 for value in self.data) / (self.rounds - 1))

    @cached_property
    def median(self) -> float:
        """Median."""
        return median(self.data)

    @cached_property
    def q1(self) -> float:
        """Lower quartile, by Tukey's hinges of even numbers and the third method of odd ones."""
        return _quartile(self.sorted_data)

    @cached_property
    def q3(self) -> float:
        """Upper quartile."""
        return -_quartile([-value for value in reversed(self.sorted_data)])

    @property
    def iqr(self) -> float:
        """Interquartile range."""
        return self.q3 - self.q1

    @property
    def ld15iqr(self) -> float:
        """Shortest time within 1.5 interquartile ranges below the lower quartile."""
        return self.sorted_data[bisect_left(self.sorted_data, self.q1 - _FENCE * self.iqr)]

    @property
    def hd15iqr(self) -> float:
        """Longest time within 1.5 interquartile ranges above the upper quartile."""
        return self.sorted_data[bisect_right(self.sorted_data, self.q3 + _FENCE * self.iqr) - 1]

    @property
    def stddev_outliers(self) -> int:
        """How many times differ from the mean by more than a standard deviation."""
        return sum(abs(value - self.mean) > self.stddev for value in self.data)

    @property
    def iqr_outliers(self) -> int:
        """How many times lie beyond 1.5 interquartile ranges from the quartiles."""
        low, high = self.q1 - _FENCE * self.iqr, self.q3 + _FENCE * self.iqr
        return sum(not low <= value <= high for value in self.data)

    @property
    def outliers(self) -> str:
        """Both numbers of outliers."""
        return f"{self.stddev_outliers};{self.iqr_outliers}"

    @property
    def ops(self) -> float:
        """Calls a second."""
        return self.rounds / self.total if self.total else 0.0


def _quartile(data: Sequence[float]) -> float:
    """Return the lower quartile of sorted numbers.

    References:
        en.wikipedia.org/wiki/Quartile, methods 2 (of even numbers) and 3 (of odd ones), as pytest-benchmark takes it.
    """
    count = len(data)
    if count == 1:
        return data[0]
    if count % 2 == 0:
        return median(data[: count // 2])
    n = count // 4
    if count % 4 == 1:
        return 0.25 * data[n - 1] + 0.75 * data[n]
    return 0.75 * data[n] + 0.25 * data[n + 1]
