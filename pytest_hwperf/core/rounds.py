"""Figures of something that was measured in several rounds, between which others had their turn."""

from array import array
from collections.abc import Collection, Iterator, Sequence
from statistics import median

from pytest_hwperf.core.estimates import estimate
from pytest_hwperf.core.metrics import ENERGY
from pytest_hwperf.core.records import Estimate, Figure, Sample, Values
from pytest_hwperf.core.structs import Count, Number, Record, Size

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
