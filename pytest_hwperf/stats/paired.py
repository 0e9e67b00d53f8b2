"""Comparisons in pairs of fresh processes: one number a pair, and an exact test of these numbers."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pytest_hwperf.records.evidence import FixedSample, Hypothesis, Observation
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.metrics import Metric, metric_of
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.units import counted, relative, relative_change
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, baseline_of_nothing, uncompared
from pytest_hwperf.stats.exact import compare_accuracy, compare_exact
from pytest_hwperf.stats.ranks import (
    MOST_FLIPPED,
    QUARTILES,
    SPREAD,
    fewest_pairs,
    hodges_lehmann,
    nearest_rank,
    quantile,
    sign_flip_bounds,
    sign_flip_p,
    signed_rank_p,
    walsh_bounds,
)

MOST_PAIRS = 60  # of processes that a build may ask for

_CALLS_BEYOND = 20  # calls a side a pair that lie beyond a percentile, on average: its own noise stays below the pairs'

Bounds = tuple[float | None, float | None]


def pair_value(observation: Observation) -> float:
    """Return the one number of a pair: the median over its blocks of log(candidate) - log(baseline)."""
    if min(*observation.baseline, *observation.candidate) <= 0:
        raise ValueError("a value that is not positive has no ratio to another one")
    blocks = zip(observation.baseline, observation.candidate, strict=True)
    return median(math.log(new) - math.log(old) for old, new in blocks)


def is_ratio(observation: Observation) -> bool:
    """Say whether every value of a pair is positive and finite, as a ratio of the sides needs."""
    return all(0 < value < math.inf for side in (observation.baseline, observation.candidate) for value in side)


def compare_pairs(
    hypothesis: Hypothesis, values: Sequence[float], level: float, *, baseline: float, interference: float | None = None
) -> Comparison:
    """Decide a hypothesis by its pair values: exact signed-rank test against the margin, Hodges-Lehmann effect.

    The margin is log(1 + size) on both sides, so that swapping the sides mirrors the outcome.

    References:
        Pratt, JASA 54 (1959); Hodges & Lehmann, Annals of Mathematical Statistics 34 (1963).
        Example: eight pairs all beyond the margin have p = 2^-8 = 0.0039 and are called at a level of 0.004.
    """
    size = max(hypothesis.margin.size, relative(hypothesis.margin.floor, baseline))
    found = _tested(hypothesis, values, math.log1p(size), level, _SIGNED_RANK, relative_change)
    return replace(found, margin=size, baseline=baseline, interference=interference)


def compare_observations(hypothesis: Hypothesis, observations: Sequence[Observation], level: float) -> Comparison:
    """Decide a hypothesis by what its pairs observed; see `compare_pairs`."""
    known = [one.preempted for one in observations if one.preempted is not None]
    found = compare_pairs(
        hypothesis,
        [pair_value(one) for one in observations],
        level,
        baseline=median(median(one.baseline) for one in observations),
        interference=fmean(known) if known else None,
    )
    if any(one.apart for one in observations):
        found = replace(found, method=state("signed-rank, apart", pairs=len(observations)))
        return replace(found, warnings=(str(state("apart")), *_noticed(observations)))
    return replace(found, warnings=_noticed(observations))


def _noticed(observations: Sequence[Observation]) -> tuple[str, ...]:
    """Return what was noticed in at least half of the pairs: in fewer it has moved no median far."""
    counts = Counter(text for one in observations for text in one.warnings)
    count = len(observations)
    return tuple(
        f"{text} (in {some} of {counted(count, 'pair')})" for text, some in counts.items() if 2 * some >= count
    )


def compare_processes(
    hypothesis: Hypothesis, baseline: Sequence[float], candidate: Sequence[float], level: float
) -> Comparison:
    """Decide by fresh processes of both sides, in pairs: exact sign-flip test of the sum of their differences.

    Made for values that differ from process to process but are often the same, as peaks of memory are; where each
    side has one value only there is nothing to test, and `exact.compare_exact` compares exactly. The differences
    are absolute, the margin is `size` of the smaller side's median and at least its floor, so that swapping the sides
    mirrors the outcome. The interval inverts the same test (`ranks.sign_flip_bounds`): a margin is rejected exactly
    where the bound lies beyond it.

    References:
        Fisher, The Design of Experiments (1935), section 21; Hartigan, JASA 64 (1969), for the bounds.
        Example: seven processes that all need more, by more than the margin, have p = 2^-7 = 0.0078.
    """
    before, now = median(baseline), median(candidate)
    margin = max(hypothesis.margin.size * min(abs(before), abs(now)), hypothesis.margin.floor)
    if len(baseline) != len(candidate) or len(candidate) > MOST_FLIPPED:
        counts = {"baseline": len(baseline), "candidate": len(candidate), "most": MOST_FLIPPED}
        return uncompared(hypothesis.margin, "not comparable", state("unequal processes", **counts))
    changes = [new - old for old, new in zip(baseline, candidate, strict=True)]
    whole = abs(before)
    found = _tested(hypothesis, changes, margin, level, _SIGN_FLIP, lambda change: relative(change, whole or 1.0))
    if not whole:
        cause = baseline_of_nothing(now, metric_of(hypothesis.margin.metric).unit)
        return replace(found, change=None, detectable=None, baseline=before, cause=cause)
    return replace(found, margin=relative(margin, whole), baseline=before)


def pairs_needed(values: Sequence[float], change: float, level: float, margin: float) -> int | None:
    """Return how many pairs as noisy as these a change for the worse takes, to be called in about half of all builds.

    The observed values, moved onto the change, are called where their lower bound exceeds the margin. The distance
    between their centre and that bound shrinks as 1 / sqrt(n), whatever the distribution; so it is scaled from the
    observed one, and nothing is drawn by chance.
    """
    low, _ = walsh_bounds(values, level)
    room = math.log1p(change) - math.log1p(margin)
    if low is None or room <= 0:
        return None
    needed = math.ceil(len(values) * ((hodges_lehmann(values) - low) / room) ** 2)
    needed = max(needed, fewest_pairs(level))
    return needed if needed <= MOST_PAIRS else None


def pooled_percentile(calls: Sequence[float], statistic: str) -> float:
    """Return a percentile of one side's calls of one pair, pooled over its blocks, or the distance of the quartiles."""
    ordered = sorted(calls)
    if statistic != SPREAD:
        return ordered[nearest_rank(quantile(statistic), len(calls)) - 1]
    low, high = (ordered[nearest_rank(quantile(one), len(calls)) - 1] for one in QUARTILES)
    return high - low


def least_calls(statistic: str) -> int:
    """Return how many calls a side needs in a pair: 20 beyond the percentile, 400 for p95 and 80 for the quartiles.

    The median, the mean and the maximum need none in particular.
    """
    q = quantile(QUARTILES[-1] if statistic == SPREAD else statistic)
    return math.ceil(_CALLS_BEYOND / (1 - q)) if 2 * q > 1 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """An exact test of the changes of pairs, with the effect and the bounds that belong to it."""

    p_value: Callable[[Sequence[float], float], float]  # of changes above a margin
    centre: Callable[[Sequence[float]], float]
    bounds: Callable[[Sequence[float], float], Bounds]  # at a one-sided level
    kind: str
    method: str  # of the estimate


_SIGNED_RANK = _Test(
    p_value=signed_rank_p, centre=hodges_lehmann, bounds=walsh_bounds, kind="signed-rank", method="Walsh averages"
)
_SIGN_FLIP = _Test(
    p_value=sign_flip_p,
    centre=fmean,
    bounds=sign_flip_bounds,
    kind="sign-flip",
    method="mean of the differences, inverted sign-flip test",
)


def _tested(
    hypothesis: Hypothesis,
    changes: Sequence[float],
    margin: float,
    level: float,
    test: _Test,
    share: Callable[[float], float],
) -> Comparison:
    """Test changes against a margin of their unit, which `share` turns into changes relative to the baseline."""
    centre, bounds, rises = test.centre(changes), test.bounds(changes, level), hypothesis.better == "lower"
    rising, falling = test.p_value(changes, margin), test.p_value([-change for change in changes], margin)
    worse, other = (rising, falling) if rises else (falling, rising)
    bound, sign = (bounds[0], 1) if rises else (bounds[1], -1)
    low, high = (None if end is None else share(end) for end in bounds)
    within = all(end is not None and -margin < end < margin for end in bounds)
    outcome: ComparisonOutcome = "equivalent" if within else "inconclusive"
    if min(worse, other) <= level:
        outcome = "regressed" if worse <= level else "improved"
    return Comparison(
        metric=hypothesis.margin.metric,
        statistic=hypothesis.margin.statistic,
        outcome=outcome,
        change=Estimate(
            value=share(centre), low=low, high=high, confidence=1 - 2 * level, n=len(changes), method=test.method
        ),
        scale="relative",
        margin=hypothesis.margin.size,
        p_value=worse,
        pairs=len(changes),
        method=state(test.kind, pairs=len(changes)),
        detectable=None if bound is None else share(sign * (margin + abs(centre - bound))),
    )


def is_testable(fixed: FixedSample, found: Comparison, alpha: float) -> bool:
    """Say whether a fixed sample can be rejected by chance at all, whatever else is rejected."""
    if found.p_value is None:
        return False
    units = len(fixed.candidate)
    if fixed.per == "example":
        units = sum(old != new for old, new in zip(fixed.baseline, fixed.candidate, strict=True))
        if fixed.hypothesis.margin.size:
            return units > 0
    return 2.0**-units <= alpha  # the smallest p-value, of signs that all point the same way


def compare_fixed(fixed: FixedSample, level: float) -> Comparison:
    """Compare what no pair measures."""
    hypothesis, sides = fixed.hypothesis, (fixed.baseline, fixed.candidate)
    if fixed.per == "example":
        found = compare_accuracy(*sides, hypothesis.margin, level, fixed.classes)
        return replace(found, warnings=(*found.warnings, *fixed.warnings))
    counts = {"baseline": len(fixed.baseline), "candidate": len(fixed.candidate)}
    constant, pairs, kind = is_constant(*sides), min(map(len, sides)), "equal values"
    found = compare_exact(measured_metric(hypothesis), *sides, hypothesis.margin)
    if fixed.per == "fresh process" and 2.0**-pairs <= level:
        kind = "equal processes" if constant else ""
        found = signed(found, pairs, level) if constant else compare_processes(hypothesis, *sides, level)
    elif fixed.per == "fresh process" and (found.outcome == "regressed" or not constant):
        # Too few to fail anything; they may still show that nothing is worse.
        kind = "screened values"
        found = replace(found, outcome="inconclusive") if found.outcome == "regressed" else found
    method = state(kind, per=fixed.per, **counts) if kind else found.method
    return replace(found, method=method, warnings=(*found.warnings, *fixed.warnings))


def is_constant(*sides: Sequence[float]) -> bool:
    """Whether each side has one value only."""
    return all(len(set(side)) == 1 for side in sides)


def signed(exact: Comparison, pairs: int, level: float) -> Comparison:
    """Test what all of so many pairs show alike: that none of them points the other way, as a coin would have it."""
    if exact.outcome not in ("regressed", "improved"):  # whatever the coin did
        return exact
    p_value = 2.0**-pairs if exact.outcome == "regressed" else 1.0
    return replace(exact, p_value=p_value, outcome=exact.outcome if 2.0**-pairs <= level else "inconclusive")


def measured_metric(hypothesis: Hypothesis) -> Metric:
    """Return the metric of a hypothesis, also of one that the user records."""
    return metric_of(hypothesis.margin.metric, hypothesis.better)
