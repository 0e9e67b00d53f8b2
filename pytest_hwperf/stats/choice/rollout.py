"""The decision whether a new version of a model is rolled out: go, no-go or inconclusive, with a reason for each doubt.

No-go needs evidence: something regressed by more than its margin, a requirement is missed by the whole interval, or
requests fail more often beyond chance. Whatever is neither shown to be well nor shown to be bad is inconclusive, and
says how many examples or pairs would be needed.
"""

import math
import operator
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Literal

from pytest_hwperf.records.evidence import Evidence, Side
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import ACCURACY, MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.run import Estimate, Figure, Key, Sample
from pytest_hwperf.records.structs import Count, Record, Size
from pytest_hwperf.records.verdict import Budget, Comparison
from pytest_hwperf.stats.choice.tradeoffs import Requirement, answers
from pytest_hwperf.stats.figures.estimates import REPORTED_CONFIDENCE, clear_of, estimate
from pytest_hwperf.stats.figures.exact import by_class, share_interval
from pytest_hwperf.stats.figures.ranks import hodges_lehmann, walsh_bounds

Outcome = Literal["go", "no-go", "inconclusive"]

LOSS_THAT_MATTERS = 0.03  # of accuracy, where no margin is given: `go` needs examples enough to exclude it
MOST_PAIRS = 60  # that a comparison takes, as in stats/pairs/paired.py
FEWEST_PAIRS = 6  # of a screen, as in stats/pairs/sequence.py
_MOST_LOSSES = 1_000_000
_REQUESTS_CONFIDENCE = 0.98  # two-sided, of the share of requests that fail


class Requests(Record, frozen=True, kw_only=True):
    """What became of the requests to an address."""

    made: Count
    failed: Count  # no answer in time, no connection, or a status that is no success
    why: str = ""  # of the first that failed

    @property
    def share(self) -> float:
        return self.failed / self.made if self.made else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper-Pearson interval of this share; each end holds at 99 %."""
        return share_interval(self.failed, self.made, _REQUESTS_CONFIDENCE) if self.made else (0.0, 1.0)


class Contender(Record, frozen=True, kw_only=True):
    """One of the two versions, with what was measured of it in this comparison."""

    target: str  # as it was named, without passwords
    kind: str  # "ONNX file", "estimator", "function" or "address"
    sha256: str  # of the file, or of the module's source; "" where there is nothing to hash
    size: Size | None  # B; None: not known
    figures: tuple[Figure, ...]
    requests: Requests | None = None  # to an address

    def estimate(self, key: Key) -> Estimate | None:
        return next((one.estimate for one in self.figures if one.key == key), None)


class FailedRequests(Record, frozen=True, kw_only=True, tag=True):
    """Requests that failed, of both versions."""

    old: Requests | None  # None: no address
    new: Requests


class Reason(Record, frozen=True, kw_only=True):
    """Why a version cannot be rolled out, or not yet."""

    effect: Literal["no-go", "inconclusive"]
    subject: Comparison | Requirement | FailedRequests
    needed: Statement | None = None  # what would decide it


class Decision(Record, frozen=True, kw_only=True):
    """Whether a version is rolled out."""

    outcome: Outcome
    reasons: tuple[Reason, ...]  # what is worse first; () of a go


def requirements_of(new: Contender, budgets: Sequence[Budget]) -> tuple[Requirement, ...]:
    return answers({one.key: one.estimate for one in new.figures}, budgets)


def decide(
    comparisons: Sequence[Comparison],
    requirements: Sequence[Requirement] = (),
    old: Contender | None = None,
    new: Contender | None = None,
) -> Decision:
    """Decide by everything that was compared and required."""
    same = bool(old and new and old.sha256 and (old.sha256, old.kind) == (new.sha256, new.kind))
    same = same and new is not None and new.kind != "function"  # a function may depend on other files
    found = [one for comparison in comparisons if (one := _of_comparison(comparison, same=same))]
    for asked in requirements:
        if asked.outcome == "failed":
            found.append(Reason(effect="no-go", subject=asked))
        elif asked.outcome != "passed":
            found.append(Reason(effect="inconclusive", subject=asked, needed=_needed_for_limit(asked)))
    before, now = old.requests if old else None, new.requests if new else None
    if now and now.failed and not (before and now.share <= before.share):
        beyond = now.interval[0] > (before.interval[1] if before else 0.0)  # what is no request does not fail
        subject = FailedRequests(old=before, new=now)
        found.append(Reason(effect="no-go" if beyond else "inconclusive", subject=subject))
    found.sort(key=lambda one: one.effect != "no-go")
    outcome: Outcome = "inconclusive" if found or not comparisons else "go"
    return Decision(outcome="no-go" if found and found[0].effect == "no-go" else outcome, reasons=tuple(found))


def _of_comparison(comparison: Comparison, *, same: bool) -> Reason | None:
    """Return what a comparison says against the new version: a change for the worse that is shown, or not excluded."""
    if comparison.outcome == "regressed":
        return Reason(effect="no-go", subject=comparison)
    better, change = metric_of(comparison.metric).better, comparison.change
    if comparison.outcome not in ("equivalent", "improved"):
        most = comparison.margin if better == "lower" else -comparison.margin
        if change is not None and comparison.cause is None and clear_of(change, most, better):
            return None  # an improvement may be open
        return Reason(effect="inconclusive", subject=comparison, needed=needed(comparison))
    most = comparison.margin or LOSS_THAT_MATTERS
    if comparison.metric != ACCURACY or comparison.outcome == "improved" or same:
        return None
    if change is None or change.low is None or change.low >= -most:
        return None
    # Of equal examples Tango's interval ends at z²/(n + z²).
    wanted = math.ceil(round(-change.low * change.n / (1 + change.low) * (1 - most) / most, 6))
    lacking = state("few equal examples", n=change.n, needed=wanted, loss=most, low=change.low)
    return Reason(effect="inconclusive", subject=comparison, needed=lacking)


def needed(comparison: Comparison) -> Statement | None:
    """Say what would decide a comparison that is inconclusive, by how its interval shrinks with the root of n."""
    change = comparison.change
    if comparison.metric == ACCURACY:
        return _examples_needed(comparison, change) if change is not None else None
    if change is None:
        late = comparison.cause is not None and comparison.cause.kind == "out of time"
        return state("few pairs", n=comparison.pairs, needed=FEWEST_PAIRS) if late else None
    if comparison.per != "pair" or change.low is None or change.high is None:
        return None
    # More is worse, as logarithms, in which intervals are symmetric.
    sign = 1 if metric_of(comparison.metric).better == "lower" else -1
    value, *ends = (sign * math.log1p(max(end, -0.999999)) for end in (change.value, change.low, change.high))
    margin = math.log1p(comparison.margin)
    reach, apart = (value - min(ends), value - margin) if value > margin else (max(ends) - value, margin - value)
    return _wanted(change.n, reach, apart)


def _wanted(n: int, reach: float, apart: float, *, examples: bool = False) -> Statement | None:
    """Say how many pairs or examples let an interval that reaches so far end before what lies so far apart."""
    if apart <= 0 or reach <= 0:
        return None
    wanted = max(n + 1, math.ceil(round(n * (reach / apart) ** 2, 6)))
    if wanted > MOST_PAIRS and not examples:
        return state("many pairs", n=n, needed=wanted, most=MOST_PAIRS)
    return state("few examples" if examples else "few pairs", n=n, needed=wanted)


def _examples_needed(comparison: Comparison, change: Estimate) -> Statement | None:
    """Say how many examples decide an accuracy: to call a loss, or to exclude one that matters."""
    if change.low is None or change.high is None:
        return None
    if change.value < 0 and not comparison.margin:
        return _examples_for_a_loss(change, comparison.p_value or 0.0)
    if change.value < -comparison.margin:
        return _wanted(change.n, change.high - change.value, -comparison.margin - change.value, examples=True)
    if not comparison.margin:  # a loss of nothing is never excluded where examples differ
        return state("no margin", n=change.n, points=max(0.5, math.ceil(-200 * change.low) / 2))
    return _wanted(change.n, change.value - change.low, change.value + comparison.margin, examples=True)


def _examples_for_a_loss(change: Estimate, p_value: float) -> Statement | None:
    """Say how many examples call a loss by McNemar's test, where as many of a hundred are lost and won as now.

    How many of each there were follows from their difference and the p-value, which rises with both.
    """
    from scipy.special import bdtr

    net, level = round(-change.value * change.n), (1 - change.confidence) / 2
    won = bisect_left(range(change.n), p_value * (1 - 1e-9), key=lambda k: float(bdtr(k, net + 2 * k, 0.5)))
    lost = net + won

    def is_called(losses: int) -> bool:
        wins = math.ceil(won * losses / lost)
        return bool(bdtr(wins, wins + losses, 0.5) <= level)

    losses = bisect_left(range(_MOST_LOSSES), True, lo=lost, key=is_called)  # noqa: FBT003 - what is looked for
    return state("few examples", n=change.n, needed=max(change.n + 1, math.ceil(change.n * losses / lost)))


def _needed_for_limit(requirement: Requirement) -> Statement | None:
    """Say what puts an interval clear of its limit; the fresh processes for memory are as many in any time."""
    estimate, limit = requirement.estimate, requirement.budget.limit
    taken = metric_of(requirement.budget.metric).taken
    if estimate is None or estimate.low is None or estimate.high is None or taken == "memory":
        return None
    reach = (estimate.high - estimate.value) if estimate.value < limit else (estimate.value - estimate.low)
    return _wanted(estimate.n, reach, abs(estimate.value - limit), examples=taken == "examples")


MEAN, P95 = ("latency", "mean"), ("latency", "p95")
ALWAYS: tuple[Key, ...] = (MEAN, P95)  # taken in each pair, beside what is compared
_RATES = {"throughput": 1, "sample_throughput": 0}  # metric → whether it counts calls, or rows
_IN_PAIRS = ("p50", "p90", "p95", "p99", "p99_9", "mean", "iqr")
_SOURCE = "perf_counter, in turns"


def taken_for(budgets: Sequence[Budget]) -> tuple[Key, ...]:
    """Return the statistics that the pairs take for the sake of requirements, beside what is always taken."""
    timed = (one for one in budgets if metric_of(one.metric).in_turns in ("seconds", "CPU seconds"))
    asked = (one.key for one in timed if one.statistic in _IN_PAIRS and one.key != MEDIAN_LATENCY)
    return tuple(dict.fromkeys([*ALWAYS, *asked]))


def figures_of(evidence: Evidence, side: Side, rows: int) -> tuple[Figure, ...]:
    """Return the figures of one side: of its pairs, and what needs no clock: accuracy and the size of the file."""
    values, found = defaultdict[Key, list[float]](list), list[Figure]()
    for one in (one for pair in evidence.pairs for one in pair.observations):
        if (value := median(one.baseline if side == "baseline" else one.candidate)) > 0:
            values[one.metric, one.statistic].append(value)
    for (metric, statistic), seen in values.items():
        source = "process_time, in turns" if metric == "cpu_time" else _SOURCE
        estimated = _over_pairs(seen)
        found.append(Figure(metric=metric, statistic=statistic, estimate=estimated, source=source, per="pair"))
    for metric, of_calls in _RATES.items() if MEAN in values else ():
        count, method = 1 if of_calls else rows, "1 / mean time of a call, calls in a row"
        rate = _over_pairs(values[MEAN]).mapped(partial(operator.truediv, count), falls=True, method=method)
        found.append(Figure(metric=metric, statistic="mean", estimate=rate, source=_SOURCE, per="pair"))
    for fixed in evidence.fixed_samples:
        metric, statistic = fixed.hypothesis.margin.key
        readings = fixed.baseline if side == "baseline" else fixed.candidate
        source = "every example" if metric == ACCURACY else "the file"
        sample = Sample(metric=metric, values=readings, per=fixed.per, source=source, classes=fixed.classes)
        exact = estimate(sample, statistic)
        found.append(Figure(metric=metric, statistic=statistic, estimate=exact, source=source, per=fixed.per))
        found += by_class(sample, REPORTED_CONFIDENCE)
    return tuple(found)


def _over_pairs(values: Sequence[float]) -> Estimate:
    """Return the Hodges-Lehmann estimate of positive values, one a pair, with the bounds that belong to it."""
    logs = [math.log(value) for value in values]
    ends = walsh_bounds(logs, (1 - REPORTED_CONFIDENCE) / 2)
    method = "Walsh averages over pairs of fresh processes"
    return Estimate.of(hodges_lehmann(logs), ends, REPORTED_CONFIDENCE, len(values), method).mapped(math.exp)
