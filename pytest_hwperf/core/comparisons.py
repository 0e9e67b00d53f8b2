"""Comparisons whose stored values stay valid: memory and sizes exactly, accuracy paired by example."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from operator import gt, lt
from statistics import fmean, median

from pytest_hwperf.core.metrics import Better, Metric, metric_of
from pytest_hwperf.core.records import Classes, Comparison, ComparisonOutcome, Estimate, Margin, replace, uncompared
from pytest_hwperf.core.shares import lost_classes
from pytest_hwperf.core.statements import Statement, baseline_of_nothing, state
from pytest_hwperf.core.units import relative

_CLOSE = 1e-13  # of two points, as changes of a share, after which no third one is tried


def outcome_of(low: float | None, high: float | None, margin: float, better: Better) -> ComparisonOutcome:
    """Decide by where the whole interval of a change lies; a bound on the margin is within it."""
    down, up = -math.inf if low is None else low, math.inf if high is None else high
    if better == "higher":  # the mirror image: a loss of x counts as a gain of x
        down, up = -up, -down
    if down > margin:
        return "regressed"
    if up < -margin:
        return "improved"
    return "equivalent" if -margin <= down and up <= margin else "inconclusive"


def compare_exact(metric: Metric, baseline: Sequence[float], candidate: Sequence[float], margin: Margin) -> Comparison:
    """Compare every value of one side with every value of the other: memory of fresh processes, sizes of files.

    A side is called worse only where each of its values is, by the margin, so that one outlier raises no alarm.
    Among n + m exchangeable processes a given side lies wholly above the other with probability 1 / C(n + m, n): even
    a margin of nothing alarms once in 20 for three processes a side.
    """
    base, cand = sorted(baseline), sorted(candidate)
    before, now = median(base), median(cand)
    low, high = cand[0] - base[-1], cand[-1] - base[0]
    slack = max(margin.size * min(abs(before), abs(now)), margin.floor)
    constant = base[0] == base[-1] and cand[0] == cand[-1]
    found = Comparison(
        metric=metric.name,
        statistic=margin.statistic,
        outcome=outcome_of(low, high, slack, metric.better),
        scale="relative",
        margin=margin.size,
        pairs=len(cand),
        method=state("stored, equal" if constant else "stored, spread", baseline=len(base), candidate=len(cand)),
        baseline=before,
    )
    if not before:
        return replace(found, cause=baseline_of_nothing(now, metric.unit))
    whole = abs(before)
    room, sign = (now - before - low, 1) if metric.better == "lower" else (high - now + before, -1)
    return replace(
        found,
        change=_shift(base, cand, whole),
        margin=max(margin.size, relative(margin.floor, whole)),
        detectable=relative(sign * (max(margin.size * whole, margin.floor) + room), whole),
    )


def compare_accuracy(
    baseline: Sequence[float],
    candidate: Sequence[float],
    margin: Margin,
    alpha: float,
    classes: Classes | None = None,
) -> Comparison:
    """Compare two models on the same examples: accuracy, or any other metric of 0 and 1 per example.

    Only examples on which the two differ carry information. With a margin of 0 McNemar's exact test decides: of those
    examples half would be for the worse if nothing had changed. With a margin the bounds of Tango's score interval
    do. Examples are the units: where several share a source they are no longer independent and the level is lost.

    References:
        McNemar, Psychometrika 12 (1947); Tango, Statistics in Medicine 17 (1998).
        Example: 30 examples of 2000 lost and 12 won give P(Bin(42, 1/2) >= 30) = 0.0040.
    """
    if cause := _why_unpaired(baseline, candidate):
        return uncompared(margin, "not comparable", cause)
    n, better, size = len(baseline), metric_of(margin.metric).better, margin.size
    rose, fell = sum(map(lt, baseline, candidate)), sum(map(gt, baseline, candidate))
    worse, other = (fell, rose) if better == "higher" else (rose, fell)
    low, high = tango_interval(rose, fell, n, alpha)
    p_worse, p_better = _p_value(worse, other, n, size), _p_value(other, worse, n, size)
    if not rose + fell:
        outcome: ComparisonOutcome = "equivalent"
    elif size:
        outcome = outcome_of(low, high, size, better)
    else:
        outcome = "regressed" if p_worse <= alpha else "improved" if p_better <= alpha else "inconclusive"
    drop = _detectable(rose + fell, n, size, alpha)
    return Comparison(
        metric=margin.metric,
        statistic=margin.statistic,
        outcome=outcome,
        scale="absolute",
        margin=size,
        pairs=n,
        method=state("equal examples" if not rose + fell else "tango" if size else "mcnemar", examples=n),
        change=Estimate(
            value=(rose - fell) / n, low=low, high=high, confidence=1 - 2 * alpha, n=n, method="Tango score interval"
        ),
        p_value=p_better if outcome == "improved" else p_worse,
        detectable=-drop if drop is not None and better == "higher" else drop,
        baseline=sum(baseline) / n,
        moved=lost_classes(baseline, candidate, classes),
    )


def is_worse_in_all(
    baseline: Sequence[Sequence[float]], candidate: Sequence[Sequence[float]], margin: Margin, per: str
) -> bool:
    """Whether the candidate is worse in every process than the baseline in any, by more than the margin.

    If all processes come from one distribution, they are so divided with a probability of 1 / C(n + m, n) at most:
    `can_part` holds that against a level.
    """
    metric = metric_of(margin.metric)
    if per != "example":
        return compare_exact(metric, [*chain(*baseline)], [*chain(*candidate)], margin).outcome == "regressed"
    base, cand = ([fmean(values) for values in side] for side in (baseline, candidate))
    return outcome_of(min(cand) - max(base), max(cand) - min(base), margin.size, metric.better) == "regressed"


def can_part(baseline: int, candidate: int, level: float) -> bool:
    """Whether so many equal processes of each side are divided by chance at most at this level."""
    return level * math.comb(baseline + candidate, candidate) >= 1


def tango_score(ups: int, downs: int, n: int, change: float) -> float:
    """Return the score statistic of a paired change of shares; normal where the true change is `change`.

    z(D) = (ups - downs - nD) / sqrt(n (2q + D(1 - D))), with q the larger root of
    2n q^2 + (-ups - downs + (2n - ups + downs) D) q - downs D(1 - D) = 0.

    References:
        Tango, Statistics in Medicine 17 (1998) 891-908.
    """
    b = -ups - downs + (2 * n - ups + downs) * change
    root = math.sqrt(max(0.0, b * b + 8 * n * downs * change * (1 - change)))
    variance = n * ((root - b) / (2 * n) + change * (1 - change))
    excess = ups - downs - n * change
    if variance <= 0:
        return math.copysign(math.inf, excess) if excess else 0.0
    return excess / math.sqrt(variance)


@lru_cache(maxsize=1000)  # mostly no example has changed, and the tests of one data set share n
def tango_interval(ups: int, downs: int, n: int, alpha: float) -> tuple[float, float]:
    """Return the changes at which `tango_score` is plus and minus the normal quantile of 1 - alpha."""
    from scipy.special import ndtri

    z = float(ndtri(1 - alpha))
    point = (ups - downs) / n
    low = _root(-1.0, point, lambda change: tango_score(ups, downs, n, change) - z)
    high = _root(point, 1.0, lambda change: tango_score(ups, downs, n, change) + z)
    return low, high


def _root(left: float, right: float, height: Callable[[float], float]) -> float:
    """Return where a falling function is 0, or the end that is nearest: false position, Illinois variant.

    An end that stays twice in a row counts half, so that both ends close in.

    References:
        Dowell and Jarratt, BIT 11 (1971) 168-174.
    """
    above, below, moved = height(left), height(right), 0
    if above <= 0 or below >= 0:
        return left if above <= 0 else right
    middle, last = left, right
    while abs(middle - last) > _CLOSE:
        last = middle
        middle = right - below * (right - left) / (below - above) if above < math.inf > -below else (left + right) / 2
        found = height(middle)
        if found > 0:
            left, above, below, moved = middle, found, below / 2 if moved > 0 else below, 1
        else:
            right, below, above, moved = middle, found, above / 2 if moved < 0 else above, -1
    return middle


def _p_value(worse: int, other: int, n: int, margin: float) -> float:
    """One-sided p of a change for the worse beyond `margin`: McNemar exact at 0, else Tango's score."""
    from scipy.special import bdtr, ndtr

    if margin:
        return float(ndtr(-tango_score(worse, other, n, margin)))
    return float(bdtr(other, worse + other, 0.5)) if worse + other else 1.0


@lru_cache(maxsize=1000)  # the tests of one data set ask for the same few
def _detectable(disagreeing: int, n: int, margin: float, alpha: float) -> float | None:
    """Return the smallest drop that is called with as many disagreements as were seen, or with more where it takes."""
    losses = range(n + 1)
    worse = bisect_left(losses, 1, key=lambda lost: _p_value(lost, max(0, disagreeing - lost), n, margin) <= alpha)
    return None if worse > n else (worse - max(0, disagreeing - worse)) / n


def _why_unpaired(baseline: Sequence[float], candidate: Sequence[float]) -> Statement | None:
    if len(baseline) != len(candidate):
        return state("unequal examples", baseline=len(baseline), candidate=len(candidate))
    if not baseline:
        return state("no examples")
    return None if {*baseline, *candidate} <= {0.0, 1.0} else state("no correctness")


def _shift(base: Sequence[float], cand: Sequence[float], whole: float) -> Estimate:
    """Return the change between the medians of sorted values, relative to `whole`."""
    constant = base[0] == base[-1] and cand[0] == cand[-1]
    return Estimate(
        value=relative(median(cand) - median(base), whole),
        low=relative(cand[0] - base[-1], whole),
        high=relative(cand[-1] - base[0], whole),
        # of a shift between exchangeable processes; equal ones leave nothing to chance
        confidence=1.0 if constant else max(0.0, 1 - 2 / math.comb(len(base) + len(cand), len(base))),
        n=len(cand),
        method="between the medians; bounds between the most distant values",
    )
