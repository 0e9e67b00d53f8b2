"""Figures of something that was measured in several rounds, between which others had their turn."""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from statistics import median

from pytest_hwperf.records.metrics import ENERGY
from pytest_hwperf.records.run import Estimate, Figure, Sample, Values
from pytest_hwperf.records.structs import Count, Number, Record, Size
from pytest_hwperf.stats.estimates import estimate

_CLOCK = "perf_counter"
_MEDIAN = "p50"


class Round(Record, frozen=True, kw_only=True):
    """Calls in a row."""

    latency_s: Values  # of each call
    calls: Count
    wall_s: Size
    rows: Count = 0  # of a call; 0: not known
    joules: Number | None = None  # of all calls; None: not measured
    energy_source: str = ""
    energy_estimated: bool = False


def figures_of(rounds: Sequence[Round], statistics: Collection[str]) -> tuple[Figure, ...]:
    """Return the figures of all rounds together, none without a round.

    Medians and rates have one value a round: what drifts between rounds is part of their interval. Other statistics
    of the latency are of all calls, since a round has too few of them.
    """
    others = [statistic for statistic in statistics if statistic != _MEDIAN]
    return (*_of_rounds(rounds), *figures_of_calls(rounds, others)) if rounds else ()


def _of_rounds(rounds: Sequence[Round]) -> Iterator[Figure]:
    yield _figure("latency", _MEDIAN, [median(one.latency_s) for one in rounds])
    yield _figure("throughput", "mean", [one.calls / one.wall_s for one in rounds])
    if all(one.rows for one in rounds):
        yield _figure("sample_throughput", "mean", [one.calls * one.rows / one.wall_s for one in rounds])
    joules = [one.joules / one.calls / (one.rows or 1) for one in rounds if one.joules is not None]
    if len(joules) == len(rounds):
        first = rounds[0]
        yield _figure(ENERGY, "mean", joules, source=first.energy_source, estimated=first.energy_estimated)


def figures_of_calls(rounds: Sequence[Round], statistics: Collection[str]) -> Iterator[Figure]:
    """Yield statistics of the latency of all calls, as if there were no rounds: a drift between them is not seen."""
    values = array("d")
    for one in rounds:
        values.extend(one.latency_s)
    sample = Sample(metric="latency", values=values, per="call", source=_CLOCK)
    for statistic in statistics:
        found = estimate(sample, statistic)
        yield Figure(metric="latency", statistic=statistic, estimate=found, source=_CLOCK, per="call")


def _figure(
    metric: str, statistic: str, values: Sequence[float], *, source: str = _CLOCK, estimated: bool = False
) -> Figure:
    at = over_rounds(values)
    return Figure(metric=metric, statistic=statistic, estimate=at, source=source, per="round", estimated=estimated)


def over_rounds(values: Sequence[float]) -> Estimate:
    """Return median and range: that of n rounds holds the median with probability 1 - 2^(1 - n), 97 % for six."""
    n = len(values)
    low, high = (None, None) if n == 1 else (min(values), max(values))
    return Estimate(
        value=median(values),
        low=low,
        high=high,
        confidence=1 - 2.0 ** (1 - n),
        n=n,
        method=f"median and range of {n} rounds, this process only",
    )


_FENCE = 1.5  # interquartile ranges beyond a quartile: what lies further out is an outlier


class Stats:
    """Statistics of the times of calls, in seconds, with the names and definitions of pytest-benchmark."""

    def __init__(self, data: Sequence[float]) -> None:
        self.data = list(data)
        self.sorted_data = ordered = sorted(self.data)
        self.rounds = len(ordered)  # how many times there are; calls that were timed in batches share one
        self.min, self.median, self.max = ordered[0], median(ordered), ordered[-1]
        self.total = math.fsum(ordered)
        self.mean = self.total / self.rounds
        squares = math.fsum((value - self.mean) ** 2 for value in ordered)
        self.stddev = math.sqrt(squares / (self.rounds - 1)) if self.rounds > 1 else 0.0
        self.q1, self.q3 = _quartile(ordered), -_quartile([-value for value in reversed(ordered)])
        self.iqr = self.q3 - self.q1
        low, high = self.q1 - _FENCE * self.iqr, self.q3 + _FENCE * self.iqr
        self.ld15iqr = ordered[bisect_left(ordered, low)]
        self.hd15iqr = ordered[bisect_right(ordered, high) - 1]
        self.stddev_outliers = sum(abs(value - self.mean) > self.stddev for value in ordered)
        self.iqr_outliers = sum(not low <= value <= high for value in ordered)
        self.outliers = f"{self.stddev_outliers};{self.iqr_outliers}"
        self.ops = self.rounds / self.total if self.total else 0.0  # calls a second


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
