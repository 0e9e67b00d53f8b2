"""The decision whether a new version of a model is rolled out: go, no-go or inconclusive, with a reason for each doubt.

No-go needs evidence: something regressed by more than its margin, a requirement is missed by the whole interval, or
requests fail more often beyond chance. Whatever is neither shown to be well nor shown to be bad is inconclusive, and
says how many examples or pairs would be needed.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal

from pytest_hwperf.records.evidence import Evidence, Side
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import ACCURACY, MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.run import Estimate, Figure, Key, Sample
from pytest_hwperf.records.structs import Count, Record, Size
from pytest_hwperf.records.verdict import Budget, Comparison
from pytest_hwperf.stats.estimates import REPORTED_CONFIDENCE, clear_of, estimate
from pytest_hwperf.stats.exact import by_class, share_interval
from pytest_hwperf.stats.ranks import hodges_lehmann, walsh_bounds
from pytest_hwperf.stats.tradeoffs import Requirement, answers

Outcome = Literal["go", "no-go", "inconclusive"]

LOSS_THAT_MATTERS = 0.03  # of accuracy, where no margin is given: `go` needs examples enough to exclude it
MOST_PAIRS = 60  # that a comparison takes, as in stats/paired.py
FEWEST_PAIRS = 6  # of a screen, as in stats/sequence.py
_MOST_LOSSES = 1_000_000
_REQUESTS_CONFIDENCE = 0.98  # two-sided, of the share of requests that fail


class Requests(Record, frozen=True, kw_only=True):
    """What became of the requests to an address."""

    made: Count
    failed: Count  # no answer in time, no connection, or a status that is no success
    why: str = ""  # of the first that failed

    @property
    def share(self) -> float:
        """Of all, those that failed."""
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
        """Return what is known of one statistic."""
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
    """Hold the new version's own figures against requirements."""
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
    found = [
        *(one for comparison in comparisons for one in _of_comparison(comparison, same=same)),
        *(one for requirement in requirements for one in _of_requirement(requirement)),
        *_of_requests(old.requests if old else None, new.requests if new else None),
    ]
    found.sort(key=lambda one: one.effect != "no-go")
    if any(one.effect == "no-go" for one in found):
        outcome: Outcome = "no-go"
    else:
        outcome = "inconclusive" if found or not comparisons else "go"
    return Decision(outcome=outcome, reasons=tuple(found))


def _of_comparison(comparison: Comparison, *, same: bool) -> Iterator[Reason]:
    if comparison.outcome == "regressed":
        yield Reason(effect="no-go", subject=comparison)
    elif comparison.outcome not in ("equivalent", "improved") and not _is_no_worse(comparison):
        yield Reason(effect="inconclusive", subject=comparison, needed=needed(comparison))
    elif comparison.metric == ACCURACY and comparison.outcome == "equivalent" and not same:
        lacking = _examples_lacking(comparison)
        if lacking is not None:
            yield Reason(effect="inconclusive", subject=comparison, needed=lacking)


def _is_no_worse(comparison: Comparison) -> bool:
    """Whether a change for the worse beyond the margin is excluded; an improvement may be open."""
    better, change = metric_of(comparison.metric).better, comparison.change
    if change is None or comparison.cause is not None:
        return False
    return bool(clear_of(change, comparison.margin if better == "lower" else -comparison.margin, better))


def _of_requirement(requirement: Requirement) -> Iterator[Reason]:
    if requirement.outcome == "failed":
        yield Reason(effect="no-go", subject=requirement)
    elif requirement.outcome != "passed":
        yield Reason(effect="inconclusive", subject=requirement, needed=_needed_for_limit(requirement))


def _of_requests(old: Requests | None, new: Requests | None) -> Iterator[Reason]:
    if new is None or not new.failed or (old is not None and new.share <= old.share):
        return
    most = old.interval[1] if old is not None else 0.0  # what is no request does not fail
    effect: Literal["no-go", "inconclusive"] = "no-go" if new.interval[0] > most else "inconclusive"
    yield Reason(effect=effect, subject=FailedRequests(old=old, new=new))


def needed(comparison: Comparison) -> Statement | None:
    """Say what would decide a comparison that is inconclusive, by how its interval shrinks with the root of n."""
    change = comparison.change
    if comparison.metric == ACCURACY:
        return _examples_needed(comparison) if change is not None else None
    if change is None:
        late = comparison.cause is not None and comparison.cause.kind == "out of time"
        return state("few pairs", n=comparison.pairs, needed=FEWEST_PAIRS) if late else None
    if comparison.per != "pair" or change.low is None or change.high is None:
        return None
    value, margin, worse = _for_the_worse(comparison, change)
    reach, apart = (value - worse[0], value - margin) if value > margin else (worse[1] - value, margin - value)
    return _pairs(change.n, reach, apart)


def _for_the_worse(comparison: Comparison, change: Estimate) -> tuple[float, float, tuple[float, float]]:
    """Return change, margin and ends such that more is worse, as logarithms, in which intervals are symmetric."""
    sign = 1 if metric_of(comparison.metric).better == "lower" else -1
    value, low, high = (
        sign * math.log1p(max(end or 0.0, -0.999999)) for end in (change.value, change.low, change.high)
    )
    return value, math.log1p(comparison.margin), (min(low, high), max(low, high))


def _pairs(n: int, reach: float, apart: float) -> Statement | None:
    if apart <= 0 or reach <= 0:
        return None
    wanted = max(n + 1, math.ceil(round(n * (reach / apart) ** 2, 6)))
    if wanted > MOST_PAIRS:
        return state("many pairs", n=n, needed=wanted, most=MOST_PAIRS)
    return state("few pairs", n=n, needed=wanted)


def _examples_needed(comparison: Comparison) -> Statement | None:
    """Say how many examples decide an accuracy: to call a loss, or to exclude one that matters."""
    change = comparison.change
    if change is None or change.low is None or change.high is None:
        return None
    if change.value < 0 and not comparison.margin:
        return _examples_for_a_loss(change, comparison.p_value or 0.0)
    if change.value < -comparison.margin:
        return _few(change, reach=change.high - change.value, apart=-comparison.margin - change.value)
    if not comparison.margin:  # a loss of nothing is never excluded where examples differ
        points = math.ceil(-200 * change.low) / 2
        return state("no margin", n=change.n, points=max(0.5, points))
    return _few(change, reach=change.value - change.low, apart=change.value + comparison.margin)


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


def _examples_lacking(comparison: Comparison) -> Statement | None:
    """Say how many examples exclude a loss that matters, where all are equal and they are too few; else None.

    Of equal examples Tango's interval ends at z²/(n + z²).
    """
    change = comparison.change
    most = comparison.margin or LOSS_THAT_MATTERS
    if change is None or change.low is None or change.low >= -most:
        return None
    wanted = math.ceil(round(-change.low * change.n / (1 + change.low) * (1 - most) / most, 6))
    return state("few equal examples", n=change.n, needed=wanted, loss=most, low=change.low)


def _few(estimate: Estimate, *, reach: float, apart: float) -> Statement | None:
    if apart <= 0 or reach <= 0:
        return None
    wanted = max(estimate.n + 1, math.ceil(round(estimate.n * (reach / apart) ** 2, 6)))
    return state("few examples", n=estimate.n, needed=wanted)


def _needed_for_limit(requirement: Requirement) -> Statement | None:
    """Say what puts an interval clear of its limit; the fresh processes for memory are as many in any time."""
    estimate, limit = requirement.estimate, requirement.budget.limit
    taken = metric_of(requirement.budget.metric).taken
    if estimate is None or estimate.low is None or estimate.high is None or taken == "memory":
        return None
    reach = (estimate.high - estimate.value) if estimate.value < limit else (estimate.value - estimate.low)
    apart = abs(estimate.value - limit)
    return _few(estimate, reach=reach, apart=apart) if taken == "examples" else _pairs(estimate.n, reach, apart)


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
