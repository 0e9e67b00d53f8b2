"""Figures of both versions from the pairs of their comparison: what each is by itself, beside how they differ.

A pair gives one value of each side: the median of its blocks, or what was taken of all its calls. Its interval is that
of the signed-rank test over the pairs, so that it holds the differences between processes, unlike one of single calls.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from pytest_hwperf.core.estimates import REPORTED_CONFIDENCE, estimate
from pytest_hwperf.core.evidence import Evidence, Side
from pytest_hwperf.core.metrics import ACCURACY, MEDIAN_LATENCY, metric_of
from pytest_hwperf.core.ranks import hodges_lehmann, walsh_bounds
from pytest_hwperf.core.records import Budget, Estimate, Figure, Key, Sample
from pytest_hwperf.core.shares import by_class

MEAN, P95 = ("latency", "mean"), ("latency", "p95")
ALWAYS: tuple[Key, ...] = (MEAN, P95)  # taken in each pair, beside what is compared
_RATES = {"throughput": 1, "sample_throughput": 0}  # metric → whether it counts calls, or rows
_IN_PAIRS = ("p50", "p90", "p95", "p99", "p99_9", "mean", "iqr")
_SOURCE = "perf_counter, in turns"


def taken_for(budgets: Sequence[Budget]) -> tuple[Key, ...]:
    """Return the statistics that the pairs take for the sake of requirements, beside what is always taken."""
    wanted = dict.fromkeys(ALWAYS)
    for budget in budgets:
        metric = metric_of(budget.metric)
        if (
            metric.in_turns in ("seconds", "CPU seconds")
            and budget.statistic in _IN_PAIRS
            and budget.key != MEDIAN_LATENCY
        ):
            wanted[budget.key] = None
    return tuple(wanted)


def figures_of(evidence: Evidence, side: Side, rows: int) -> tuple[Figure, ...]:
    """Return the figures of one side."""
    return (*_of_pairs(evidence, side, rows), *_fixed(evidence, side))


def _of_pairs(evidence: Evidence, side: Side, rows: int) -> Iterator[Figure]:
    values = defaultdict[Key, list[float]](list)
    for pair in evidence.pairs:
        for one in pair.observations:
            value = median(one.baseline if side == "baseline" else one.candidate)
            if value > 0:
                values[one.metric, one.statistic].append(value)
    for (metric, statistic), seen in values.items():
        yield _figure(metric, statistic, _over_pairs(seen))
    if MEAN in values:
        whole = _over_pairs(values[MEAN])
        for metric, of_calls in _RATES.items():
            yield _figure(metric, "mean", _rate(whole, 1 if of_calls else rows))


def _figure(metric: str, statistic: str, found: Estimate) -> Figure:
    source = "process_time, in turns" if metric == "cpu_time" else _SOURCE
    return Figure(metric=metric, statistic=statistic, estimate=found, source=source, per="pair")


def _over_pairs(values: Sequence[float]) -> Estimate:
    """Return the Hodges-Lehmann estimate of positive values, one a pair, with the bounds that belong to it."""
    logs = [math.log(value) for value in values]
    low, high = walsh_bounds(logs, (1 - REPORTED_CONFIDENCE) / 2)
    return Estimate(
        value=math.exp(hodges_lehmann(logs)),
        low=None if low is None else math.exp(low),
        high=None if high is None else math.exp(high),
        confidence=REPORTED_CONFIDENCE,
        n=len(values),
        method="Walsh averages over pairs of fresh processes",
    )


def _rate(seconds: Estimate, count: int) -> Estimate:
    """Return how many are completed per second where calls follow each other."""
    return Estimate(
        value=count / seconds.value,
        low=None if seconds.high is None else count / seconds.high,
        high=None if seconds.low is None else count / seconds.low,
        confidence=seconds.confidence,
        n=seconds.n,
        method="1 / mean time of a call, calls in a row",
    )


def _fixed(evidence: Evidence, side: Side) -> Iterator[Figure]:
    """Yield what needs no clock: accuracy, by class too, and the size of the model's file."""
    for one in evidence.fixed_samples:
        metric, statistic = one.hypothesis.margin.key
        values = one.baseline if side == "baseline" else one.candidate
        source = "every example" if metric == ACCURACY else "the file"
        sample = Sample(metric=metric, values=values, per=one.per, source=source, classes=one.classes)
        yield Figure(
            metric=metric, statistic=statistic, estimate=estimate(sample, statistic), source=source, per=one.per
        )
        yield from by_class(sample, REPORTED_CONFIDENCE)
