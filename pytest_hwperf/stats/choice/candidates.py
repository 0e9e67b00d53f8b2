"""The candidates of a test, told apart by their operating points, and which of two is better in one dimension.

By this one rule they are ranked, recommended and drawn. Pairs of fresh processes decide where they were run, and paired
examples decide accuracy. Otherwise the intervals of both decide, and a timing of one process lies as far off as
processes of equal code may differ. "As good" means shown to be within a margin, and for accuracy no shown loss; what is
not shown is inconclusive. The same rule says whether quantisation pays.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import ENERGY, MEDIAN_LATENCY, METRICS, least_apart, metric_of
from pytest_hwperf.records.run import AS_TRAINED, Classes, Estimate, Key, Run, Values, replace
from pytest_hwperf.records.text import shell_line
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Judgement, Margin
from pytest_hwperf.stats.figures.exact import compare_accuracy, lost_classes, outcome_of
from pytest_hwperf.stats.stored.compare import history_limit

CONDITIONS: Mapping[str, str] = {"batch_size": "", "threads": "", "load": "single_stream"}  # → unless declared
_CALLED = {"batch_size": "batch", "threads": "threads", "load": "load"}  # conditions, as names of candidates say them
_MOST_DIGITS = 9  # of the rows of a call

Point = tuple[tuple[str, str], ...]  # conditions that tell points apart, each with its value
T = TypeVar("T")


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

    def is_called(self, name: str) -> bool:
        """Whether it has a name, alone or followed by its conditions, the kind of machine or its number."""
        return self.name == name or self.name.startswith((f"{name},", f"{name} on ", f"{name} ("))


def points_of(declared: Sequence[Mapping[str, str]]) -> list[Point]:
    """Return the operating point of each measurement, by the conditions that it declares.

    A condition tells points apart if several values of it are declared; then those that declare none have a point of
    their own. Where all that declare it agree, the others are taken to agree too.
    """
    known = {name: {one.get(name, usual) for one in declared} - {""} for name, usual in CONDITIONS.items()}
    telling = [name for name, values in known.items() if len(values) > 1]
    return [tuple((name, one.get(name, CONDITIONS[name])) for name in telling) for one in declared]


def described(point: Iterable[tuple[str, str]]) -> str:
    """Write a point as `batch_size=32, threads=1`; "" where nothing tells it from others."""
    return ", ".join(f"{name}={value or 'not declared'}" for name, value in point)


def parse_point(texts: Sequence[str]) -> dict[str, str]:
    """Turn `batch_size=32` into the conditions that are asked for."""
    found = dict[str, str]()
    for text in texts:
        name, _, value = text.partition("=")
        if name not in CONDITIONS:
            allowed = f"{nearest(name, CONDITIONS)} Allowed: {', '.join(CONDITIONS)}"
            raise UsageProblem(f"--at={text}: unknown condition.{allowed}")
        if not value or found.get(name, value) != value:
            raise UsageProblem(f"--at={text}: one value for each condition, such as --at batch_size=32")
        found[name] = value
    return found


def lies_at(conditions: Mapping[str, str], asked: Mapping[str, str]) -> bool:
    """Whether a measurement declares the conditions that are asked for."""
    return all(conditions.get(name, CONDITIONS[name]) == value for name, value in asked.items())


def without_parameters(test: str) -> str:
    """Return the id of a test without its parameters, which may hold brackets themselves: `test_x[a[0]]` → `test_x`."""
    file, colons, name = test.partition("::")
    if not colons:
        file, name = "", test
    return f"{file}{colons}{name.partition('[')[0]}" if name.endswith("]") else test


def pairs_of(tests: Iterable[str]) -> str:
    """Return the command that compares the scenarios of these tests in pairs."""
    return f"hwperf tradeoffs --pairs -- {shell_line(dict.fromkeys(map(without_parameters, tests)))}"


def rows_of_call(text: str) -> int:
    """Return the rows of a call, as conditions name them; 1 where they do not."""
    return max(1, int(text)) if text.isdecimal() and len(text) <= _MOST_DIGITS else 1


def by_test(measured: Sequence[T], named: Iterable[Run | Candidate]) -> dict[str, list[T]]:
    """Return what is compared, by test: without its parameters, which are scenarios and points of a sweep.

    Where they are more, such as models or data, each of those is a test of its own. `named` are its runs or candidates.
    """
    functions: dict[str, list[tuple[T, Run | Candidate]]] = {}
    for one, its in zip(measured, named, strict=True):
        functions.setdefault(without_parameters(its.test), []).append((one, its))
    found: dict[str, list[T]] = {}
    for function, ones in functions.items():
        told = {(its.scenario or its.test, its.label, its.kind, *map(its.conditions.get, _CALLED)) for _, its in ones}
        for one, its in ones:
            others = ""
            if len(told) < len(ones):  # scenario and point do not tell them apart
                others = f"-{its.test[len(function) + 1 : -1]}-".replace(f"-{its.scenario}-", "-", 1).strip("-")
            found.setdefault(f"{function}[{others}]" if others else function, []).append(one)
    return found


def distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Number candidates of the same name."""
    names, seen, found = Counter(one.name for one in candidates), Counter[str](), list[Candidate]()
    for one in candidates:
        seen[one.name] += 1
        found.append(dataclasses.replace(one, name=f"{one.name} ({seen[one.name]})") if names[one.name] > 1 else one)
    return found


def candidates_of(judgements: Sequence[Judgement]) -> list[Candidate]:
    """Return measurements of a test as candidates, named by their scenario and the conditions in which they differ."""
    declared = dict.fromkeys(name for one in judgements for name in one.run.conditions if name in _CALLED)
    differing = [name for name in declared if len({one.run.conditions.get(name) for one in judgements}) > 1]
    return distinct([candidate_of(one, differing) for one in judgements])


def candidate_of(judgement: Judgement, differing: Iterable[str] = ()) -> Candidate:
    """Return one measurement, named by its scenario and by those conditions."""
    run = judgement.run
    told = [f"{_CALLED[name]} {run.conditions[name]}" for name in differing if name in run.conditions]
    name, labelled = ", ".join(filter(None, [run.scenario or run.test, run.label, *told])), run.sample(ACCURACY[0])
    return Candidate(
        name=f"{name} on {run.kind}" if run.kind else name,
        test=run.test,
        label=run.label,
        scenario=run.scenario,
        kind=run.kind,
        values={figure.key: figure.estimate for figure in judgement.figures if not figure.estimated},
        guesses={figure.key: figure.estimate for figure in judgement.figures if figure.estimated},
        right=labelled.values if labelled else None,
        classes=labelled.classes if labelled else None,
        as_trained=run.context.items() >= AS_TRAINED.items() or bool(run.conditions and "form" not in run.conditions),
        rows=rows_of_call(run.conditions.get("batch_size", "")),
        conditions=run.conditions,
        unmeasured={metric: str(why) for metric, why in run.unmeasured.items()},
    )


ACCURACY, MEMORY = ("accuracy", "mean"), ("memory", "p50")
DIMENSIONS: Mapping[str, Key] = {  # what candidates are compared by, latency per row
    "accuracy": ACCURACY,
    "latency": MEDIAN_LATENCY,
    "memory": MEMORY,
    "energy": (ENERGY, "mean"),
}
MOST_LOSS = 0.01  # of accuracy: 1 point is within the margin, unless the loss is shown
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
    estimate, share = candidate.values[key], 1 / candidate.rows
    return estimate.mapped(lambda value: value * share) if key == MEDIAN_LATENCY and candidate.rows > 1 else estimate


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
    apart = between_processes() if metric_of(key[0]).is_timed else 0.0
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
        turned = found.change.mapped(lambda change: 1 / (1 + change) - 1, falls=True)
        found = replace(found, change=turned, outcome=_MIRRORED.get(found.outcome, found.outcome))
    return found if found is not None and found.outcome in _DECIDED else None


@lru_cache
def between_processes() -> float:
    """Return by how much timings of two processes of equal code may differ: the limit of one stored run, in logs."""
    return history_limit([0.0], ALPHA)[1]


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
        loss = change.mapped(lambda share: -share, falls=True)
    if all(MEDIAN_LATENCY in one.values for one in (quantised, reference)):
        paired, ratio = in_pairs(quantised, reference, MEDIAN_LATENCY), change_of(quantised, reference, MEDIAN_LATENCY)
        low, high = (None if math.isinf(end) else -math.expm1(end) for end in (ratio.high, ratio.low))
        n, method = (paired.pairs, "pairs of fresh processes") if paired else (1, "one process each")
        gain = Estimate.of(-math.expm1(ratio.value), (low, high), 1 - 2 * ALPHA, n, method)
    return worth(loss, gain)
