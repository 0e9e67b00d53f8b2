"""Which of two candidates is better in one dimension: the one rule by which they are ranked, recommended and drawn.

Pairs of fresh processes decide where they were run, and paired examples decide accuracy. Otherwise the intervals of
both decide, and a timing of one process lies as far off as processes of equal code may differ. "As good" means shown
to be within a margin; what is not shown is inconclusive. The same rule says whether quantisation pays.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import ENERGY, MEDIAN_LATENCY, METRICS, least_apart, metric_of
from pytest_hwperf.records.run import Estimate, Key, replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Margin
from pytest_hwperf.stats.candidates import Candidate
from pytest_hwperf.stats.exact import compare_accuracy, lost_classes, outcome_of
from pytest_hwperf.stats.stored import history_limit

ACCURACY, MEMORY = ("accuracy", "mean"), ("memory", "p50")
DIMENSIONS: Mapping[str, Key] = {  # what candidates are compared by, latency per row
    "accuracy": ACCURACY,
    "latency": MEDIAN_LATENCY,
    "memory": MEMORY,
    "energy": (ENERGY, "mean"),
}
MOST_LOSS = 0.01  # of accuracy: 1 point is within the margin
ALPHA = 0.01  # one-sided, of each answer

_DECIDED = ("regressed", "improved", "equivalent")
_MIRRORED: Mapping[ComparisonOutcome, ComparisonOutcome] = {"regressed": "improved", "improved": "regressed"}


class Change(NamedTuple):
    """A candidate against another one, as the log of their ratio."""

    low: float  # -inf where it is not known
    value: float
    high: float


def per_row(candidate: Candidate, key: Key) -> Estimate:
    """Return a value as it is compared: the latency of a call divided among its rows."""
    estimate = candidate.values[key]
    return scaled(estimate, 1 / candidate.rows) if key == MEDIAN_LATENCY and candidate.rows > 1 else estimate


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Return a multiple of an estimate, with its interval."""
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return replace(estimate, value=estimate.value * factor, low=low, high=high)


def ends_of(estimate: Estimate) -> tuple[float, float]:
    """Return both ends of an interval of values that are at least 0; without one, the value itself."""
    if estimate.low is None and estimate.high is None:
        return estimate.value, estimate.value
    return estimate.low or 0.0, math.inf if estimate.high is None else estimate.high


def versus(one: Candidate, other: Candidate, key: Key) -> ComparisonOutcome:
    """Say what one is next to the other: `improved`, `regressed`, `equivalent` within the margin, or `inconclusive`."""
    if paired := in_pairs(one, other, key):
        return paired.outcome
    if key == ACCURACY and (exact := by_example(one, other)):
        inconclusive = exact.outcome == "inconclusive"
        return (by_example(one, other, MOST_LOSS) or exact).outcome if inconclusive else exact.outcome
    low, _, high = change_of(one, other, key)
    usual, least = METRICS[key[0]].margins[0], min(per_row(one, key).value, per_row(other, key).value)
    size, floor = (0.0, MOST_LOSS) if key == ACCURACY else (usual.size, usual.floor)
    margin = math.log1p(max(size, floor / least if least > 0 else 0.0))
    return outcome_of(low, high, margin, metric_of(key[0]).better)


def change_of(one: Candidate, other: Candidate, key: Key) -> Change:
    """Return how one lies to the other, by the best that is known of both.

    A value without an interval counts as it is; of a timing, what processes differ by is added all the same.
    """
    mine, its = per_row(one, key), per_row(other, key)
    paired, whole = in_pairs(one, other, key), 1.0
    if not (paired and paired.change) and key == ACCURACY and its.value > 0:
        paired, whole = by_example(one, other), its.value
    if paired and (change := paired.change):
        low = 0.0 if change.low is None else whole + change.low
        high = math.inf if change.high is None else whole + change.high
        return Change(_log(low, whole), _log(whole + change.value, whole), _log(high, whole))
    apart = between_processes() if is_of_one_process(key[0]) else 0.0
    (low, high), (its_low, its_high) = ends_of(mine), ends_of(its)
    return Change(_log(low, its_high) - apart, _log(mine.value, its.value), _log(high, its_low) + apart)


def _log(one: float, other: float) -> float:
    """Return the log of a ratio of values that are at least 0."""
    if one == other:
        return 0.0
    if other <= 0:
        return math.inf
    return -math.inf if one <= 0 or math.isinf(other) else math.log(one / other)


def in_pairs(one: Candidate, other: Candidate, key: Key) -> Comparison | None:
    """Return what pairs of fresh processes have decided of both; None where they were not run, or are inconclusive."""
    found = one.pairs.get(other.name, {}).get(key)
    if found is None and (found := other.pairs.get(one.name, {}).get(key)) and found.change:
        low, high = (None if end is None else 1 / (1 + end) - 1 for end in (found.change.high, found.change.low))
        turned = replace(found.change, value=1 / (1 + found.change.value) - 1, low=low, high=high)
        found = replace(found, change=turned, outcome=_MIRRORED.get(found.outcome, found.outcome))
    return found if found is not None and found.outcome in _DECIDED else None


@lru_cache
def between_processes() -> float:
    """Return by how much timings of two processes of equal code may differ: the limit of one stored run, in logs."""
    return history_limit([0.0], ALPHA)[1]


def is_of_one_process(metric: str) -> bool:
    """Whether all values of a metric come from the process that has measured."""
    return metric_of(metric).taken in ("calls", "parts", "windows")


def by_example(one: Candidate, other: Candidate, margin: float = 0.0) -> Comparison | None:
    """Compare accuracy example by example; None where both have not answered the same ones."""
    if one.right is None or other.right is None or one.conditions.get("data") != other.conditions.get("data"):
        return None
    size = Margin(metric=ACCURACY[0], statistic=ACCURACY[1], size=margin, scale="absolute")
    found = compare_accuracy(other.right, one.right, size, ALPHA)
    return None if found.outcome == "not comparable" else found


def lost_by(one: Candidate, other: Candidate) -> Statement | None:
    """Name the classes that one loses against another; None where it loses none, or it is not known."""
    if one.right is None or other.right is None or by_example(one, other) is None:
        return None
    return lost_classes(other.right, one.right, one.classes)


LEAST_GAIN = 0.20  # of latency, for quantisation to be worthwhile; of accuracy less than `MOST_LOSS` is lost


def quantised_pairs(candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Candidate]]:
    """Yield each INT8 candidate with each FP32 one from which precision alone tells it.

    Every condition of the one in FP32 holds for the other too: runtimes differ in their conditions. A scenario without
    a form is the model itself and has no other one.
    """
    references = [
        one for one in candidates if one.conditions.get("precision") == "float32" and "form" in one.conditions
    ]
    for one in candidates:
        if one.conditions.get("precision", "").startswith("int8"):
            for other in references:
                alike = {name: value for name, value in other.conditions.items() if name != "precision"}
                if one.kind == other.kind and alike.items() <= one.conditions.items():
                    yield one, other


def slower_than_fp32(candidates: Sequence[Candidate]) -> Iterator[Statement]:
    """Yield each INT8 scenario that is slower than the FP32 scenario of the same form.

    Both are of one process, so that most are `may be slower than fp32`: the intervals of both medians are apart by
    more than the margin, but not by as much as processes of equal code differ by.
    """
    for one, reference in quantised_pairs(candidates):
        now, then = one.values.get(MEDIAN_LATENCY), reference.values.get(MEDIAN_LATENCY)
        if now is None or then is None or now.low is None or then.high is None or not then.value:
            continue
        least = then.high * (1 + least_apart(MEDIAN_LATENCY[0]))
        if now.low > least:
            yield state(
                "slower than fp32" if now.low > least * math.exp(between_processes()) else "may be slower than fp32",
                test=one.test,
                scenario=one.scenario,
                reference=reference.scenario,
                now=now.value,
                then=then.value,
                change=now.value / then.value - 1,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What quantisation costs and what it gains."""

    outcome: Literal["worthwhile", "not worthwhile", "inconclusive"]
    loss: Estimate | None  # of accuracy on the same examples, positive where it is lost; None: unmeasured
    gain: Estimate | None  # of latency, as a share of that of the reference, positive where it is faster
    is_fast: bool  # whether the gain is large enough by its whole interval: what is in doubt then is the accuracy


def worth(loss: Estimate | None, gain: Estimate | None) -> Worth:
    """Say whether quantisation is worthwhile: a loss below 1 point and a gain above 20 %, both by their intervals.

    It is not where either interval lies wholly on the other side, and inconclusive where one holds its limit or is
    missing. A gain in accuracy is no loss.
    """
    too_dear = loss is not None and loss.low is not None and loss.low >= MOST_LOSS
    too_slow = gain is not None and gain.high is not None and gain.high <= LEAST_GAIN
    is_cheap = loss is not None and loss.high is not None and loss.high < MOST_LOSS
    is_fast = gain is not None and gain.low is not None and gain.low > LEAST_GAIN
    outcome: Literal["worthwhile", "inconclusive"] = "worthwhile" if is_cheap and is_fast else "inconclusive"
    return Worth(outcome="not worthwhile" if too_dear or too_slow else outcome, loss=loss, gain=gain, is_fast=is_fast)


def worth_of(quantised: Candidate, reference: Candidate) -> Worth:
    """Apply the rule to two candidates: latency by pairs, else with what processes differ by."""
    loss = gain = None
    if (exact := by_example(quantised, reference)) and (change := exact.change):
        low, high = (None if end is None else -end for end in (change.high, change.low))
        loss = replace(change, value=-change.value, low=low, high=high)
    if all(MEDIAN_LATENCY in one.values for one in (quantised, reference)):
        paired, ratio = in_pairs(quantised, reference, MEDIAN_LATENCY), change_of(quantised, reference, MEDIAN_LATENCY)
        low, high = (None if math.isinf(end) else -math.expm1(end) for end in (ratio.high, ratio.low))
        gain = Estimate(
            value=-math.expm1(ratio.value),
            low=low,
            high=high,
            confidence=1 - 2 * ALPHA,
            n=paired.pairs if paired else 1,
            method="pairs of fresh processes" if paired else "one process each",
        )
    return worth(loss, gain)
