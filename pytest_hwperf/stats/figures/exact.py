"""Comparisons whose stored values stay valid: memory and sizes exactly, accuracy paired by example."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import gt, lt
from statistics import fmean, median

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import BALANCED_ACCURACY, WORST_CLASS, Better, Metric, metric_of
from pytest_hwperf.records.run import Classes, Estimate, Figure, Sample, replace
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import relative, some_of
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Margin, baseline_of_nothing, uncompared

LOST_LEVEL = 0.01  # of all classes together
_LITTLE = 0.1  # of what was right: a class of which no more is right is lost
_MUCH_MORE = 0.1  # of accuracy, 10 points: by so much more than the other classes


def share_interval(ones: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact two-sided interval of a share of which `ones` of `n`, at least one, were seen.

    Example: 0 of 40 at 0.95: 0 .. 8.8 %.
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = 0.0 if ones == 0 else float(betaincinv(ones, n - ones + 1, tail))
    high = 1.0 if ones == n else float(betaincinv(ones + 1, n - ones, 1 - tail))
    return low, high


def by_class(sample: Sample, confidence: float) -> Iterator[Figure]:
    """Yield the accuracy of the worst class and the mean over all classes; nothing where the classes are not known.

    The worst is known as surely as all of them are: each interval has its part of the error.
    """
    if sample.classes is None:
        return
    ones = Counter(place for place, value in zip(sample.classes.of, sample.values, strict=True) if value == 1)
    sizes = sorted(Counter(sample.classes.of).items())  # of classes that have examples
    shares = [ones[place] / n for place, n in sizes]
    count, worst = len(sizes), min(range(len(sizes)), key=shares.__getitem__)
    each = [share_interval(ones[place], n, 1 - (1 - confidence) / count) for place, n in sizes]
    ends = min(low for low, _ in each), min(high for _, high in each)
    method = f"worst of {count} classes, Clopper-Pearson intervals, Bonferroni"
    of_worst = Estimate.of(shares[worst], ends, confidence, sizes[worst][1], method)
    source = f"class {visible(sample.classes.names[int(sizes[worst][0])])}, {sample.source}"
    yield Figure(metric=WORST_CLASS, statistic="mean", estimate=of_worst, source=source, per=sample.per)
    value = math.fsum(shares) / count
    below, above = (
        math.sqrt(math.fsum((end - share) ** 2 for share, end in zip(shares, side, strict=True))) / count
        for side in zip(*(share_interval(ones[place], n, confidence) for place, n in sizes), strict=True)
    )
    around, method = (max(0.0, value - below), min(1.0, value + above)), "from the Clopper-Pearson interval of each"
    balanced = Estimate.of(value, around, confidence, len(sample.values), f"mean of {count} classes, {method}")
    yield Figure(metric=BALANCED_ACCURACY, statistic="mean", estimate=balanced, source=sample.source, per=sample.per)


def lost_classes(baseline: Sequence[float], candidate: Sequence[float], classes: Classes | None) -> Statement | None:
    """Name the classes that a candidate loses, None where it loses none.

    A class is lost if McNemar's exact test on its examples says so, by Holm's rule over all classes at `LOST_LEVEL`,
    and if no more than a tenth of what was right is right, or the loss is 10 points above that of the other examples,
    whose gain counts as no loss.

    Example: of 45 examples 41 were right and 2 of these are: 39 lost, none won, p = 2^-39.
    """
    from scipy.special import bdtr

    if classes is None:
        return None
    counts, found = Counter(zip(classes.of, baseline, candidate, strict=True)), list[tuple[float, str, int, int, int]]()
    for place in sorted({place for place, *_ in counts}):
        both, lost, won, none = (counts[place, then, now] for then in (1.0, 0.0) for now in (1.0, 0.0))
        p_value = float(bdtr(won, lost + won, 0.5)) if lost else 1.0
        found.append((p_value, visible(classes.names[int(place)]), both + lost + won + none, both + lost, both + won))
    total, fewer = sum(n for _, _, n, _, _ in found), sum(then - now for *_, then, now in found)
    texts, largest = list[str](), 0.0
    for place, (p_value, name, n, then, now) in enumerate(sorted(found, key=lambda one: one[0])):
        if p_value > LOST_LEVEL / (len(found) - place):
            break
        beside = max(0.0, (fewer - then + now) / (total - n)) if total > n else 0.0
        if now <= _LITTLE * then or (then - now) / n >= beside + _MUCH_MORE:
            texts.append(f"class {name}: {then} of {n} → {now} of {n}")
            largest = p_value
    return state("class lost", classes=some_of(texts), p=largest, of=len(found)) if texts else None


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
    found = replace(
        uncompared(margin, outcome_of(low, high, slack, metric.better)),
        scale="relative",
        pairs=len(cand),
        method=state("stored, equal" if constant else "stored, spread", baseline=len(base), candidate=len(cand)),
        baseline=before,
    )
    if not before:
        return replace(found, cause=baseline_of_nothing(now, metric.unit))
    whole = abs(before)
    room, sign = (now - before - low, 1) if metric.better == "lower" else (high - now + before, -1)
    # of a shift between exchangeable processes; equal ones leave nothing to chance
    confidence = 1.0 if constant else max(0.0, 1 - 2 / math.comb(len(base) + len(cand), len(base)))
    change, least, most = (relative(end, whole) for end in (now - before, low, high))
    method = "between the medians; bounds between the most distant values"
    return replace(
        found,
        change=Estimate.of(change, (least, most), confidence, len(cand), method),
        margin=max(margin.size, relative(margin.floor, whole)),
        detectable=relative(sign * (max(margin.size * whole, margin.floor) + room), whole),
    )


def compare_accuracy(
    baseline: Sequence[float], candidate: Sequence[float], margin: Margin, alpha: float, classes: Classes | None = None
) -> Comparison:
    """Compare two models on the same examples: accuracy, or any other metric of 0 and 1 per example.

    Only examples on which the two differ carry information. With a margin of 0 McNemar's exact test decides: of those
    examples half would be for the worse if nothing had changed. With a margin the bounds of Tango's score interval
    do. Examples are the units: where several share a source they are no longer independent and the level is lost.

    References:
        McNemar, Psychometrika 12 (1947); Tango, Statistics in Medicine 17 (1998).
        Example: 30 examples of 2000 lost and 12 won give P(Bin(42, 1/2) >= 30) = 0.0040.
    """
    if len(baseline) != len(candidate):
        counts = {"baseline": len(baseline), "candidate": len(candidate)}
        return uncompared(margin, "not comparable", state("unequal examples", **counts))
    if not baseline or not {*baseline, *candidate} <= {0.0, 1.0}:
        return uncompared(margin, "not comparable", state("no correctness" if baseline else "no examples"))
    n, better, size = len(baseline), metric_of(margin.metric).better, margin.size
    rose, fell = sum(map(lt, baseline, candidate)), sum(map(gt, baseline, candidate))
    worse, other = (fell, rose) if better == "higher" else (rose, fell)
    low, high = tango_interval(rose, fell, n, alpha)
    p_worse, p_better = _p_value(worse, other, n, size), _p_value(other, worse, n, size)
    signed: ComparisonOutcome = "regressed" if p_worse <= alpha else "improved" if p_better <= alpha else "inconclusive"
    outcome = "equivalent" if not rose + fell else outcome_of(low, high, size, better) if size else signed
    drop = _detectable(rose + fell, n, size, alpha)
    return replace(
        uncompared(margin, outcome),
        scale="absolute",
        pairs=n,
        method=state("equal examples" if not rose + fell else "tango" if size else "mcnemar", examples=n),
        change=Estimate.of((rose - fell) / n, (low, high), 1 - 2 * alpha, n, "Tango score interval"),
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
