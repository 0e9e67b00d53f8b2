"""Comparisons in pairs of fresh processes: one number a pair, and an exact test of these numbers."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pytest_hwperf.records.evidence import FixedSample, Hypothesis, Observation
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.metrics import CALL_FAILURES, METRICS, metric_of
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.units import counted, relative, relative_change
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, baseline_of_nothing, uncompared
from pytest_hwperf.stats.figures.exact import compare_accuracy, compare_exact
from pytest_hwperf.stats.figures.ranks import (
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
    found = _tested(hypothesis, values, math.log1p(size), level, "signed-rank", relative_change)
    return replace(found, margin=size, baseline=baseline, interference=interference)


@dataclass(frozen=True, slots=True)
class Paired:
    """What pairs have observed of a hypothesis: its method `compare` picks the test, effect, interval and words."""

    hypothesis: Hypothesis
    observations: Sequence[Observation]

    @property
    def sides(self) -> tuple[list[float], list[float]]:
        baseline = [value for one in self.observations for value in one.baseline]
        return baseline, [value for one in self.observations for value in one.candidate]

    @property
    def exact(self) -> tuple[str, str] | None:
        """The methods, of a screen and of fresh pairs, for a metric of the user's own that needs no ratios."""
        if self.hypothesis.margin.metric in METRICS:
            return None
        if is_constant(*self.sides):
            return "equal pairs", "equal fresh pairs"
        return ("lost pairs", "lost fresh pairs") if _is_lost(*self.sides) else None

    @property
    def is_comparable(self) -> bool:
        return bool(self.exact) or all(map(is_ratio, self.observations))

    @property
    def baseline(self) -> float:
        return median(median(one.baseline) for one in self.observations)

    def worsened(self) -> tuple[list[float], float]:
        """Return the changes for the worse and the margin, as log ratios."""
        sign, asked = 1 if self.hypothesis.better == "lower" else -1, self.hypothesis.margin
        margin = math.log1p(max(asked.size, relative(asked.floor, self.baseline)))
        return [sign * pair_value(one) for one in self.observations], margin

    def compare(self, level: float, method: str = "") -> Comparison:
        """Compare by fresh pairs, which alone may fail a hypothesis, or by those of a screen if `method` says so."""
        asked, pairs, seen = self.hypothesis, len(self.observations), self.observations
        if not self.is_comparable:
            return uncompared(asked.margin, "not comparable", state("no ratio"))
        if self.exact:
            exact = compare_exact(metric_of(asked.margin.metric, asked.better), *self.sides, asked.margin)
            exact = replace(exact, pairs=pairs, method=state(method or self.exact[1], pairs=pairs))
            return exact if method else _signed(exact, pairs, level)
        known = [one.preempted for one in seen if one.preempted is not None]
        interference, values = fmean(known) if known else None, [pair_value(one) for one in seen]
        found = compare_pairs(asked, values, level, baseline=self.baseline, interference=interference)
        apart, counts = any(one.apart for one in seen), Counter(text for one in seen for text in one.warnings)
        # What was noticed in less than half of the pairs has moved no median far.
        noticed = [f"{text} (in {n} of {counted(pairs, 'pair')})" for text, n in counts.items() if 2 * n >= pairs]
        return replace(
            found,
            method=state(method or ("signed-rank, apart" if apart else "signed-rank"), pairs=pairs),
            warnings=(*[str(state("apart"))] * apart, *noticed),
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
    found = _tested(hypothesis, changes, margin, level, "sign-flip", lambda change: relative(change, whole or 1.0))
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


# Kind of an exact test → its p-value of changes above a margin, the effect and the bounds at a one-sided level that
# belong to it, and the method of the estimate.
_Test = tuple[
    Callable[[Sequence[float], float], float],
    Callable[[Sequence[float]], float],
    Callable[[Sequence[float], float], Bounds],
    str,
]
_TESTS: Mapping[str, _Test] = {
    "signed-rank": (signed_rank_p, hodges_lehmann, walsh_bounds, "Walsh averages"),
    "sign-flip": (sign_flip_p, fmean, sign_flip_bounds, "mean of the differences, inverted sign-flip test"),
}


def _tested(
    hypothesis: Hypothesis,
    changes: Sequence[float],
    margin: float,
    level: float,
    kind: str,
    share: Callable[[float], float],
) -> Comparison:
    """Test changes against a margin of their unit, which `share` turns into changes relative to the baseline."""
    p_value_of, centre_of, bounds_of, method = _TESTS[kind]
    centre, bounds, rises = centre_of(changes), bounds_of(changes, level), hypothesis.better == "lower"
    rising, falling = p_value_of(changes, margin), p_value_of([-change for change in changes], margin)
    worse, other = (rising, falling) if rises else (falling, rising)
    bound, sign = (bounds[0], 1) if rises else (bounds[1], -1)
    within = all(end is not None and -margin < end < margin for end in bounds)
    outcome: ComparisonOutcome = "equivalent" if within else "inconclusive"
    if min(worse, other) <= level:
        outcome = "regressed" if worse <= level else "improved"
    n = len(changes)
    return replace(
        uncompared(hypothesis.margin, outcome),
        change=Estimate.of(centre, bounds, 1 - 2 * level, n, method).mapped(share),
        p_value=worse,
        pairs=n,
        method=state(kind, pairs=n),
        detectable=None if bound is None else share(sign * (margin + abs(centre - bound))),
    )


@dataclass(frozen=True, slots=True)
class Exact:
    """What no pair measures: values of files, of fresh processes, of examples."""

    fixed: FixedSample

    def is_testable(self, found: Comparison, alpha: float) -> bool:
        """Say whether it can be rejected by chance at all, whatever else is rejected."""
        if found.p_value is None:
            return False
        units = len(self.fixed.candidate)
        if self.fixed.per == "example":
            units = sum(old != new for old, new in zip(self.fixed.baseline, self.fixed.candidate, strict=True))
            if self.fixed.hypothesis.margin.size:
                return units > 0
        return 2.0**-units <= alpha  # the smallest p-value, of signs that all point the same way

    def compare(self, level: float) -> Comparison:
        fixed, hypothesis = self.fixed, self.fixed.hypothesis
        sides = fixed.baseline, fixed.candidate
        if fixed.per == "example":
            found = compare_accuracy(*sides, hypothesis.margin, level, fixed.classes)
            return replace(found, warnings=(*found.warnings, *fixed.warnings))
        counts = {"baseline": len(fixed.baseline), "candidate": len(fixed.candidate)}
        constant, pairs, kind = is_constant(*sides), min(map(len, sides)), "equal values"
        found = compare_exact(metric_of(hypothesis.margin.metric, hypothesis.better), *sides, hypothesis.margin)
        if fixed.per == "fresh process" and 2.0**-pairs <= level:
            kind = "equal processes" if constant else ""
            found = _signed(found, pairs, level) if constant else compare_processes(hypothesis, *sides, level)
        elif fixed.per == "fresh process" and (found.outcome == "regressed" or not constant):
            # Too few to fail anything; they may still show that nothing is worse.
            kind = "screened values"
            found = replace(found, outcome="inconclusive") if found.outcome == "regressed" else found
        method = state(kind, per=fixed.per, **counts) if kind else found.method
        if hypothesis.margin.metric == CALL_FAILURES:  # whose notes say what was raised
            why = state("calls fail", processes=pairs, why="; ".join(fixed.warnings))
            return replace(found, method=method, cause=why)
        return replace(found, method=method, warnings=(*found.warnings, *fixed.warnings))


def is_constant(*sides: Sequence[float]) -> bool:
    return all(len(set(side)) == 1 for side in sides)


def _is_lost(*sides: Sequence[float]) -> bool:
    """Whether one side is 0 throughout, and the other above it: a model that has broken, or an error that is new."""
    least, most = sorted(sides, key=max)
    return min(least) == max(least) == 0 < min(most) and math.isfinite(max(most))


def _signed(exact: Comparison, pairs: int, level: float) -> Comparison:
    """Test what all of so many pairs show alike: that none of them points the other way, as a coin would have it."""
    if exact.outcome not in ("regressed", "improved"):  # whatever the coin did
        return exact
    p_value = 2.0**-pairs if exact.outcome == "regressed" else 1.0
    return replace(exact, p_value=p_value, outcome=exact.outcome if 2.0**-pairs <= level else "inconclusive")
