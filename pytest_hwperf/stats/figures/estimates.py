"""Statistics of one run, each with an interval, and the rule by which sampling may stop."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING

from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.messages import Remark, Statement, is_lacking, state
from pytest_hwperf.records.metrics import MEMORY_PRESSURE, Better, Metric, metric_of
from pytest_hwperf.records.run import OF_A_LOAD, Estimate, Figure, Run, Sample, figure_of, replace
from pytest_hwperf.records.structs import LARGEST
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.figures.exact import by_class, share_interval
from pytest_hwperf.stats.figures.ranks import (
    CONFIDENCE,
    QUARTILES,
    SPREAD,
    fewest_calls,
    nearest_rank,
    quantile,
    rank_from_above,
)

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


# Stopping asks at every doubling of n. With bounds at 99.5 % ten such looks together err as often as one bound at the
# 95 % that is reported: see docs/statistics.md.
STOPPING_CONFIDENCE = 0.99
REPORTED_CONFIDENCE = 0.90
_MB = 1e6
# Doubts about a load with which no budget passes.
_VOIDING: frozenset[str] = frozenset(
    {"no steady state", "empty window", "few calls", "backlog grows", "calls failed", "generator late"}
)


def estimate(sample: Sample, statistic: str, *, confidence: float = REPORTED_CONFIDENCE) -> Estimate:
    """Estimate one statistic of a sample, with the interval that fits its unit of replication."""
    return _estimates(sample, (statistic,), confidence)[0]


def figures(run: Run) -> tuple[Figure, ...]:
    """Estimate every statistic that is shown of every sample of a run, and what is made of several of them.

    The memory pressure index is MB over rows per second, between the most distant ends: 4.2 MB at 160 rows a second
    are 0.026.
    """
    found = [
        Figure(
            metric=sample.metric, statistic=statistic, estimate=estimated, source=sample.source, per=sample.per,
            estimated=sample.estimated,
        )
        for sample in run.samples
        for statistics in [metric_of(sample.metric).statistics]
        for statistic, estimated in zip(statistics, _estimates(sample, statistics, REPORTED_CONFIDENCE), strict=True)
    ]  # fmt: skip
    memory = figure_of(found, ("memory", "p50"))
    rate = figure_of(found, ("sample_throughput", "mean")) or figure_of(found, ("throughput", "mean"))
    if memory is not None and rate is not None:
        index, source = pressure_of(memory.estimate, rate.estimate), f"{memory.source} over {rate.source}"
        found.append(Figure(metric=MEMORY_PRESSURE, statistic="p50", estimate=index, source=source, per=memory.per))
    return (*found, *(one for sample in run.samples for one in by_class(sample, REPORTED_CONFIDENCE)))


def pressure_of(held: Estimate, done: Estimate) -> Estimate:
    """Return the index of a memory in bytes, and of a rate above 0."""
    return Estimate(
        value=held.value / _MB / done.value,
        low=None if held.low is None or done.high is None else held.low / _MB / done.high,
        high=None if held.high is None or not done.low else held.high / _MB / done.low,
        confidence=max(0.0, held.confidence + done.confidence - 1),
        n=held.n,
        method="memory over throughput, between the ends of both intervals",
        warnings=(*held.warnings, *done.warnings),
    )


def clear_of(estimate: Estimate, limit: float, better: Better) -> bool | None:
    """Say whether the whole interval keeps the limit (True) or breaks it (False); None where it holds both.

    A bound equal to the limit keeps it.
    """
    low, high = estimate.low, estimate.high
    if better == "higher":  # the mirror image: -x has to stay below -limit
        low, high = (None if end is None else -end for end in (high, low))
        limit = -limit
    if high is not None and high <= limit:
        return True
    return False if low is not None and low > limit else None


def enough(samples: Sequence[Sample], budgets: Sequence[Budget]) -> bool:
    """Say whether every budget on a metric among `samples` is clear of its limit; others are measured elsewhere.

    What is made of such a metric and of others that are measured later is not known to be clear before.
    Made to be asked whenever n has doubled: it is stricter than what is reported (`STOPPING_CONFIDENCE`).
    """
    measured = {sample.metric: sample for sample in samples}
    for budget in budgets:
        metric, sample = metric_of(budget.metric), measured.get(budget.metric)
        if sample is None and not measured.keys().isdisjoint(metric.made_of):
            return False
        if sample is not None:
            found = estimate(sample, budget.statistic, confidence=STOPPING_CONFIDENCE)
            if clear_of(found, budget.limit, metric.better) is None:
                return False
    return True


@lru_cache
def needed_for_bound(q: float | Fraction, confidence: float) -> int:
    """Return the smallest n with a finite upper order-statistic bound of quantile `q`: q^n <= (1 - confidence) / 2.

    59 calls for p95 and 299 for p99 at a confidence of 0.90.
    """
    tail = (1 - confidence) / 2
    return math.ceil(round(math.log(tail) / math.log(q), 9))  # .5^n = 1/32 is n = 5, not 5.000000000000001


def _estimates(sample: Sample, statistics: Sequence[str], confidence: float) -> list[Estimate]:
    """Sort once, then take each statistic; a mean of windows with different numbers of calls is total over total."""
    import numpy as np

    if not sample.values:
        raise MeasurementError(f"{sample.metric} has no values: measure at least one {sample.per}")
    values, metric, found = np.frombuffer(sample.values), metric_of(sample.metric), list[Estimate]()
    ordered = np.sort(values)
    _check(sample, metric, ordered)
    for statistic in statistics:
        if statistic != "mean" or not sample.weights:
            found.append(_estimate(sample, metric, ordered, statistic, confidence))
            continue
        weights = np.frombuffer(sample.weights)
        rate = metric.is_rate  # of which it is completed over wall
        found.append(
            _inverted(_ratio(1 / values, weights, confidence)) if rate else _ratio(values, weights, confidence)
        )
    if ordered[0] >= 0 and metric.taken == "windows" and not metric.signed:
        found = [replace(one, low=0.0) if one.low is not None and one.low < 0 else one for one in found]
    if doubts := tuple(one for one in sample.warnings if voids(one)):
        # A budget does not pass by the bound that is taken away; the other one may still fail it.
        good = "high" if metric.better == "lower" else "low"
        found = [replace(one, **{good: None}, warnings=(*one.warnings, *doubts)) for one in found]
    return found


def voids(remark: Remark) -> bool:
    """Whether a remark is a doubt about a load with which no budget passes."""
    return isinstance(remark, Statement) and remark.kind in _VOIDING


def _check(sample: Sample, metric: Metric, ordered: "NDArray[float64]") -> None:
    """Refuse sorted values that the metric cannot have."""
    if metric.is_rate and ordered[0] < 1 / LARGEST:
        raise MeasurementError(f"{sample.metric} holds {ordered[0]:g}: a rate is positive")
    if metric.taken == "examples" and not 0 <= ordered[0] <= ordered[-1] <= 1:
        raise MeasurementError(f"{sample.metric} holds {ordered[0]:g} .. {ordered[-1]:g}: shares lie between 0 and 1")
    if sample.weights and (len(sample.weights) != len(ordered) or min(sample.weights) < 1 / LARGEST):
        raise MeasurementError(f"{sample.metric} has {len(ordered)} values: each window has calls")


def _estimate(
    sample: Sample, metric: Metric, ordered: "NDArray[float64]", statistic: str, confidence: float
) -> Estimate:
    if metric.taken == "file":  # one file has one size
        return _exactly(ordered, confidence, "deterministic value")
    if statistic == "max":
        return _exactly(ordered, confidence, "observed maximum, no claim beyond this run")
    if statistic == "mean":
        return _mean_of(metric, ordered, confidence)
    if statistic == "p50" and (metric.in_processes or (metric.taken == "counts" and len(ordered) > 1)):
        return _median_and_range(ordered, confidence, processes=metric.in_processes)
    if len(ordered) == 1 and metric.statistics == (statistic,):
        return _result(ordered, (float(ordered[0]), None, None), confidence, "single reading, no interval")
    is_spread, of_a_load = statistic == SPREAD, sample.per == OF_A_LOAD
    return (
        _spread(ordered, confidence) if is_spread else _percentile(ordered, statistic, confidence, of_a_load=of_a_load)
    )


def _mean_of(metric: Metric, ordered: "NDArray[float64]", confidence: float) -> Estimate:
    if metric.taken != "examples":  # of a rate, windows hold equally many calls: it is their harmonic mean
        return _inverted(_mean(1 / ordered[::-1], confidence)) if metric.is_rate else _mean(ordered, confidence)
    if not metric.binary:
        value = float(ordered.mean())
        return _result(ordered, (value, value, value), confidence, "mean of these rows, no claim beyond them")
    ones, n = int(ordered.sum()), len(ordered)
    ends = share_interval(ones, n, confidence)
    return _result(ordered, (ones / n, *ends), confidence, "share of examples, Clopper-Pearson interval")


def middle(metric: Metric, ordered: Sequence[float]) -> float:
    """Return p50 of sorted values: between the middle two of fresh processes and counts, which are few; else a rank."""
    if metric.in_processes or metric.taken == "counts":
        return float(median(ordered))
    return float(ordered[nearest_rank(Fraction(1, 2), len(ordered)) - 1])


def _exactly(ordered: "NDArray[float64]", confidence: float, method: str) -> Estimate:
    value = float(ordered[-1])
    return _result(ordered, (value, value, value), confidence, method)


def _percentile(ordered: "NDArray[float64]", statistic: str, confidence: float, *, of_a_load: bool = False) -> Estimate:
    """Nearest rank with the order-statistic interval, which assumes nothing but that the calls are exchangeable.

    Of a load the upper bound is that of early stopping, whose confidence is at least that asked for.
    """
    n, confidence = len(ordered), max(confidence, 2 * CONFIDENCE - 1) if of_a_load else confidence
    rank, low, high, warnings = _ranks(n, statistic, confidence)
    method = "nearest rank, order-statistic interval, this process only"
    if of_a_load:
        q, method = float(quantile(statistic)), "nearest rank, early stopping"
        high, warnings = n + 1 - rank_from_above(n, q), tuple(one for one in warnings if not is_lacking(one))
        if high > n:
            facts = {"level": 100 * CONFIDENCE, "needed": fewest_calls(q), "n": n}
            warnings = (*warnings, state("no bound", statistic=statistic, side="upper", **facts))
    bounds = (
        float(ordered[rank - 1]),
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= n else None,
    )
    return _result(ordered, bounds, confidence, method, *warnings)


def _spread(ordered: "NDArray[float64]", confidence: float) -> Estimate:
    """Distance of the quartiles; half of the error for each makes it hold for both."""
    lower, upper = (_percentile(ordered, quartile, (1 + confidence) / 2) for quartile in QUARTILES)
    bounds = (
        upper.value - lower.value,
        None if upper.low is None or lower.high is None else max(0.0, upper.low - lower.high),
        None if upper.high is None or lower.low is None else upper.high - lower.low,
    )
    method = "between the quartiles, order-statistic intervals of both, this process only"
    return _result(ordered, bounds, confidence, method, *lower.warnings, *upper.warnings)


@lru_cache  # the tests of a run of pytest take equally many calls
def _ranks(n: int, statistic: str, confidence: float) -> tuple[int, int, int, tuple[Remark, ...]]:
    """Return the rank of a percentile, ranks ppf(a/2) and ppf(1 - a/2) + 1 of Binom(n, q), and what they lack.

    Ranks 0 and n + 1 mean no bound.
    """
    from scipy.special import bdtr

    q, tail = quantile(statistic), (1 - confidence) / 2
    if not q:
        raise UsageProblem(
            f"unknown statistic {statistic!r}. Allowed: mean, max, iqr, and percentiles such as p50 or p99_9"
        )
    share = float(q)
    low, high = (bisect_left(range(n + 1), level, key=lambda k: float(bdtr(k, n, share))) for level in (tail, 1 - tail))
    warnings = list[Remark]()
    if n < (needed := math.ceil(1 / (1 - q))):
        warnings.append(state("maximum", statistic=statistic, n=n, needed=needed))
    if n < (needed := needed_for_bound(max(q, 1 - q), confidence)):
        level, side = 50 * (1 + confidence), "upper" if 2 * q >= 1 else "lower"
        warnings.append(state("no bound", statistic=statistic, side=side, level=level, needed=needed, n=n))
    return nearest_rank(q, n), low, high + 1, tuple(warnings)


def _mean(ordered: "NDArray[float64]", confidence: float) -> Estimate:
    """Take both from sums: `mean()` and `std()` of NumPy take four times as long for a handful of windows."""
    import numpy as np
    from scipy.special import stdtrit

    n, method = len(ordered), "mean, t interval, this process only"
    if n == 1:
        return _result(ordered, (float(ordered[0]), None, None), confidence, "single reading", state("mean of one"))
    if ordered[0] == ordered[-1]:
        return _exactly(ordered, confidence, method)
    value = float(np.add.reduce(ordered)) / n
    apart = ordered - value
    deviation = math.sqrt(np.add.reduce(apart * apart) / (n - 1))
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * deviation / math.sqrt(n)
    return _result(ordered, (value, value - half, value + half), confidence, method)


def _inverted(seconds: Estimate) -> Estimate:
    """Return the rate that belongs to an estimate of seconds per call: completed over wall of the whole."""
    return replace(
        seconds,
        value=1 / seconds.value,
        low=None if seconds.high is None else 1 / seconds.high,
        high=None if seconds.low is None or seconds.low <= 0 else 1 / seconds.low,
        method="completed / wall, inverted t interval of the windows' seconds, this process only",
    )


def _ratio(values: "NDArray[float64]", weights: "NDArray[float64]", confidence: float) -> Estimate:
    """Weighted mean, with the t interval of a ratio of two totals.

    With equal weights it is the interval of a mean.

    References:
        Cochran, Sampling Techniques, 3rd ed. (1977), section 6.4: the variance of a ratio by linearisation.
    """
    import numpy as np
    from scipy.special import stdtrit

    n, total = len(values), float(np.add.reduce(weights))
    value = float(weights @ values) / total
    if n == 1:
        return _result(values, (value, None, None), confidence, "single reading", state("mean of one"))
    apart = weights * (values - value)
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * math.sqrt(apart @ apart * n / (n - 1)) / total
    method = "total / calls, t interval of a ratio, this process only"
    return _result(values, (value, value - half, value + half), confidence, method)


def _median_and_range(ordered: "NDArray[float64]", confidence: float, *, processes: bool) -> Estimate:
    """Take both of counts, or of fresh processes: the range of n holds their median with probability 1 - 2^(1 - n)."""
    n, value = len(ordered), float(median(ordered.tolist()))
    ends = (value, float(ordered[0]), float(ordered[-1]))
    if not processes:
        return _result(ordered, ends, confidence, "median and range of counts, this process only")
    if n == 1:
        return _result(ordered, (value, None, None), confidence, "one fresh process", state("lone process"))
    return _result(ordered, ends, 1 - 2.0 ** (1 - n), f"median and range of {n} fresh processes")


def _result(
    ordered: "NDArray[float64]",
    value_low_high: tuple[float, float | None, float | None],
    confidence: float,
    method: str,
    *warnings: Remark,
) -> Estimate:
    value, low, high = value_low_high
    return Estimate(
        value=value, low=low, high=high, confidence=confidence, n=len(ordered), method=method, warnings=warnings
    )
