"""Medians with order-statistic intervals, and the rows that the overhead table prints."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle:
    """A median with an interval about it, in the unit of its values."""

    value: float
    low: float
    high: float
    n: int

    def show(self, factor: float, unit: str, digits: int = 2) -> str:
        """Return `0.61 (0.52 .. 0.70) ms`, every number multiplied by `factor`."""
        value, low, high = (f"{factor * end:.{digits}f}" for end in (self.value, self.low, self.high))
        return f"{value} ({low} .. {high}) {unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    quantity: str
    target: str  # "" where the figure only explains another one
    hwperf: str
    benchmark: str  # of pytest-benchmark
    met: str = ""  # whether hwperf keeps the target; "" without one


def answer(found: float, limit: float) -> str:
    """Say whether one figure keeps an upper limit."""
    return "yes" if found <= limit else "NO"


def answer_about(found: Middle, least: float, most: float) -> str:
    """Say whether a median lies between two limits, and whether its whole interval does."""
    if not least <= found.value <= most:
        return "NO"
    return "yes" if least <= found.low and found.high <= most else "median only"


def middle(values: Sequence[float], confidence: float = 0.95) -> Middle:
    """Return the median of `values` between two order statistics that hold the true one with `confidence`.

    The interval assumes only that the values are independent. Fewer than six values cannot give 95 %: then it is their
    range.
    """
    ordered, n = sorted(values), len(values)
    tail, rank = 0.0, 0
    for below in range(n // 2):
        tail += math.comb(n, below) / 2**n
        if tail > (1 - confidence) / 2:
            break
        rank = below
    return Middle(value=median(ordered), low=ordered[rank], high=ordered[n - 1 - rank], n=n)
