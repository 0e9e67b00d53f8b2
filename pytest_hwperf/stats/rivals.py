"""Which of two candidates is better in one dimension: the one rule by which they are ranked, recommended and drawn.

Pairs of fresh processes decide where they were run, and paired examples decide accuracy. Otherwise the intervals of
both decide, and a timing of one process lies as far off as processes of equal code may differ. "As good" means shown
to be within a margin; what is not shown is inconclusive.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import ENERGY, MEDIAN_LATENCY, METRICS, metric_of
from pytest_hwperf.records.run import Classes, Estimate, Key, Values, replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Margin
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is to be chosen among others."""

    name: str
    values: Mapping[Key, Estimate]  # metric and statistic → estimate, base units
    test: str = ""  # node id of its measurement; "" where it comes from elsewhere
    label: str = ""  # of its measurement within the test
    scenario: str = ""
    rows: int = 1  # of a call
    conditions: Mapping[str, str] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)  # metric → why
    kind: str = ""  # of machine on which it was measured; "" where nobody named it
    price_per_hour: float | None = None  # of such a machine, where the file says it
    right: Values | None = None  # 1 or 0 of each example; None where they are not known
    classes: Classes | None = None  # of the examples
    as_trained: bool = False  # whether nothing has converted the model; False: not known
    guesses: Mapping[Key, Estimate] = field(default_factory=dict)  # what was estimated, and not measured
    pairs: Mapping[str, Mapping[Key, Comparison]] = field(default_factory=dict)  # name of a baseline → against it

    def is_guessed(self, key: Key) -> bool:
        """Whether a value is known only by an estimate."""
        return key in self.guesses and key not in self.values


class Change(NamedTuple):
    """A candidate against another one, as the log of their ratio."""

    low: float  # -inf where it is not known
    value: float
    high: float


def without_parameters(test: str) -> str:
    """Return the id of a test without its parameters, which may hold brackets themselves: `test_x[a[0]]` → `test_x`."""
    file, colons, name = test.partition("::")
    if not colons:
        file, name = "", test
    return f"{file}{colons}{name.partition('[')[0]}" if name.endswith("]") else test


def per_row(candidate: Candidate, key: Key) -> Estimate:
    """Return a value as it is compared: the latency of a call divided among its rows."""
    estimate = candidate.values[key]
    if key != MEDIAN_LATENCY or candidate.rows == 1:
        return estimate
    return scaled(estimate, 1 / candidate.rows)


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Return a multiple of an estimate, with its interval."""
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return replace(estimate, value=estimate.value * factor, low=low, high=high)


def versus(one: Candidate, other: Candidate, key: Key) -> ComparisonOutcome:
    """Say what one is next to the other: `improved`, `regressed`, `equivalent` within the margin, or `inconclusive`."""
    if paired := in_pairs(one, other, key):
        return paired.outcome
    if key == ACCURACY and (exact := _by_example(one, other, 0.0)):
        inconclusive = exact.outcome == "inconclusive"
        return (_by_example(one, other, MOST_LOSS) or exact).outcome if inconclusive else exact.outcome
    low, _, high = change_of(one, other, key)
    return outcome_of(low, high, _margin(per_row(one, key), per_row(other, key), key), metric_of(key[0]).better)


def change_of(one: Candidate, other: Candidate, key: Key) -> Change:
    """Return how one lies to the other, by the best that is known of both.

    A value without an interval counts as it is; of a timing, what processes differ by is added all the same.
    """
    mine, its = per_row(one, key), per_row(other, key)
    if (paired := in_pairs(one, other, key)) and paired.change:
        return _logs(paired.change, 1.0)
    if key == ACCURACY and (paired := _by_example(one, other, 0.0)) and paired.change and its.value > 0:
        return _logs(paired.change, its.value)
    apart = between_processes() if is_of_one_process(key[0]) else 0.0
    (low, high), (its_low, its_high) = ends_of(mine), ends_of(its)
    return Change(_log(low, its_high) - apart, _log(mine.value, its.value), _log(high, its_low) + apart)


def in_pairs(one: Candidate, other: Candidate, key: Key) -> Comparison | None:
    """Return what pairs of fresh processes have decided of both; None where they were not run, or are inconclusive."""
    found = one.pairs.get(other.name, {}).get(key)
    if found is None and (found := other.pairs.get(one.name, {}).get(key)) and found.change:
        ends = (None if end is None else 1 / (1 + end) - 1 for end in (found.change.high, found.change.low))
        low, high = ends
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


def lost_by(one: Candidate, other: Candidate) -> Statement | None:
    """Name the classes that one loses against another; None where it loses none, or it is not known."""
    if one.right is None or other.right is None or _by_example(one, other, 0.0) is None:
        return None
    return lost_classes(other.right, one.right, one.classes)


def _by_example(one: Candidate, other: Candidate, margin: float) -> Comparison | None:
    """Compare accuracy example by example; None where both have not answered the same ones."""
    if one.right is None or other.right is None or one.conditions.get("data") != other.conditions.get("data"):
        return None
    size = Margin(metric=ACCURACY[0], statistic=ACCURACY[1], size=margin, scale="absolute")
    found = compare_accuracy(other.right, one.right, size, ALPHA)
    return None if found.outcome == "not comparable" else found


def _margin(mine: Estimate, its: Estimate, key: Key) -> float:
    """Return the margin of a dimension in logs: the default one, and of accuracy `MOST_LOSS`."""
    usual = METRICS[key[0]].margins[0]
    size, floor = (0.0, MOST_LOSS) if key == ACCURACY else (usual.size, usual.floor)
    least = min(mine.value, its.value)
    return math.log1p(max(size, floor / least if least > 0 else 0.0))


def _logs(change: Estimate, whole: float) -> Change:
    low = 0.0 if change.low is None else whole + change.low
    high = math.inf if change.high is None else whole + change.high
    return Change(_log(low, whole), _log(whole + change.value, whole), _log(high, whole))


def _log(one: float, other: float) -> float:
    """Return the log of a ratio of values that are at least 0."""
    if one == other:
        return 0.0
    if other <= 0:
        return math.inf
    return -math.inf if one <= 0 or math.isinf(other) else math.log(one / other)


def ends_of(estimate: Estimate) -> tuple[float, float]:
    """Return both ends of an interval of values that are at least 0; without one, the value itself."""
    if estimate.low is None and estimate.high is None:
        return estimate.value, estimate.value
    return estimate.low or 0.0, math.inf if estimate.high is None else estimate.high
