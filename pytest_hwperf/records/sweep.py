"""Sweeps: the keywords of `hwsweep` as a plan, its points, what was measured at each, and the best of them."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from pytest_hwperf.records.budgets import BUDGET_KEYWORDS, nearest, parse_budgets
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Figure, Key
from pytest_hwperf.records.structs import LARGEST, Count, Number, Record, Size
from pytest_hwperf.records.units import show_limit, show_measured
from pytest_hwperf.records.verdict import Budget, BudgetOutcome

BATCH = "batch_size"
Swept = int | float | str
Goal = Literal["latency", "throughput", "energy"]
# Goal → the statistics that may answer it; the first that every eligible point has is taken.
GOALS: Mapping[Goal, tuple[Key, ...]] = {
    "latency": (("latency", "p50"),),
    "throughput": (("sample_throughput", "mean"), ("throughput", "mean")),
    "energy": (("energy", "mean"),),
}
_ORDER: tuple[BudgetOutcome, ...] = ("failed", "inconclusive", "unmeasured", "passed")  # the worst first


class SweepPoint(Record, frozen=True, kw_only=True):
    """One point of a sweep, and what it has to keep."""

    sweep: str  # what is swept: a test without its point and scenario, or a model
    scenario: str = ""
    values: Mapping[str, int | Number | str]  # swept name → value
    limits: tuple[Budget, ...] = ()
    rate: Size | None = None  # rows that arrive per second
    serving_batch: Count = 0  # rows that are served together; 0: not declared
    skipped: Statement | None = None  # why it was not measured

    @property
    def named(self) -> str:
        """The point as text: `batch_size 8, threads 2`."""
        return ", ".join(f"{name} {value}" for name, value in self.values.items())

    @property
    def fill_s(self) -> float | None:
        """How long the first row of a batch waits for the last one, where the rate of arrivals is declared."""
        rows = self.values.get(BATCH)
        return (rows - 1) / self.rate if self.rate and isinstance(rows, int) else None


class Answer(Record, frozen=True, kw_only=True):
    """What the figures of a point say about one limit."""

    limit: Budget
    outcome: BudgetOutcome
    value: Number | None = None  # base units, with the fill delay of the batch in a latency; None: unmeasured

    def __str__(self) -> str:
        metric = metric_of(self.limit.metric)
        limit = show_limit(self.limit.limit, metric.unit, metric.better)
        seen = "unmeasured" if self.value is None else show_measured(self.value, metric.unit)
        return f"{self.limit.metric} {self.limit.statistic} {limit} ({seen})"


class SweepRow(Record, frozen=True, kw_only=True):
    """A point with what was measured at it."""

    point: SweepPoint
    figures: tuple[Figure, ...] = ()
    answers: tuple[Answer, ...] = ()  # one a limit

    @property
    def outcome(self) -> BudgetOutcome | None:
        """The worst answer; None without limits, or where nothing was measured."""
        found = {answer.outcome for answer in self.answers}
        return next((outcome for outcome in _ORDER if outcome in found), None)

    @property
    def is_measured(self) -> bool:
        """Whether it was measured; of a point that was left out later the memory may be known."""
        return bool(self.figures) and self.point.skipped is None

    @property
    def is_eligible(self) -> bool:
        """Whether it was measured and every limit is kept, by the whole interval."""
        return self.is_measured and self.outcome in (None, "passed")


class Best(Record, frozen=True, kw_only=True):
    """The best point for one goal."""

    goal: Goal
    metric: str
    statistic: str
    rows: tuple[Count, ...]  # positions in the sweep: the best one first, then those whose interval overlaps with its


class Sweep(Record, frozen=True, kw_only=True):
    """All points of one sweep, and the best of them for each goal."""

    name: str
    rows: tuple[SweepRow, ...]
    best: tuple[Best, ...]  # none for a goal that no point is known to answer within the limits
    notes: tuple[Statement, ...] = ()


COUNTED = (BATCH, "threads")  # swept names whose values are whole numbers from 1 on


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep measures, and what its points have to keep."""

    axes: Mapping[str, tuple[Swept, ...]]  # swept name → its values
    limits: tuple[Budget, ...] = ()  # that choose among the points and fail none
    stop: bool = True  # larger batches than one that misses a limit are skipped
    serving_batch: int = 0  # rows that are served together, 0 where that is not declared
    rate: float | None = None  # rows that arrive per second

    def points(self) -> list[dict[str, Swept]]:
        """Return every combination of the values; the last name varies fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]


def parse_sweep(keywords: Mapping[str, object]) -> SweepPlan:
    """Turn the keywords of `hwsweep` into a plan: a list is swept, a keyword of `hwbudget` is a limit."""
    axes, limits, own = dict[str, Any](), dict[str, object](), dict[str, Any]()
    problems = list[str]()
    for name, value in keywords.items():
        try:
            if name in _OPTIONS:
                own[_OPTIONS[name][0]] = _OPTIONS[name][1](value)
            elif name in BUDGET_KEYWORDS:
                limits[name] = value
            else:
                axes[name] = _axis(name, value)
        except UsageProblem as problem:
            problems.append(f"hwsweep({name}={value!r}): {problem}")
    try:
        budgets = parse_budgets(limits)
    except UsageProblem as problem:
        problems.extend(line.replace("hwbudget(", "hwsweep(", 1) for line in str(problem).splitlines())
    if not axes and not problems:
        problems.append("hwsweep(): give at least one name with its values, such as hwsweep(batch_size=[1, 8, 32])")
    if problems:
        raise UsageProblem("\n".join(problems))
    return SweepPlan(axes=axes, limits=budgets, **own)


def _axis(name: str, values: object) -> tuple[Swept, ...]:
    if not isinstance(values, list | tuple | range):
        hint = nearest(name, [*BUDGET_KEYWORDS, *_OPTIONS])
        raise UsageProblem(f"a swept name takes a list of values, such as [1, 8, 32], and this is no limit.{hint}")
    if not values:
        raise UsageProblem("give at least one value")
    for problem in _problems_of(name, values):
        raise UsageProblem(problem)
    return tuple(values)


def _problems_of(name: str, values: list[Any] | tuple[Any, ...] | range) -> Iterator[str]:
    for value in values:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if name in COUNTED and not (whole and value >= 1):
            yield f"{value!r} is no whole number from 1 on"
        elif isinstance(value, bool) or not isinstance(value, int | float | str):
            yield f"{value!r} is neither a number nor a text; sweep a name for it and look it up in the test"
        elif not isinstance(value, str) and not abs(value) <= LARGEST:  # NaN fails too
            yield f"{value!r} is no finite number"
    if len({*map(str, values)}) < len(values):
        yield "a value stands there twice"


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageProblem("give True or False")
    return value


def checked_batch(value: object) -> int:
    """Return a number of rows that are served together."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageProblem("give the rows that are served together: a whole number from 1 on")
    return value


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageProblem("give the rows that arrive per second: a number above 0")
    return float(value)


# Keyword → field of the plan, and what reads its value.
_OPTIONS: Mapping[str, tuple[str, Callable[[object], object]]] = {
    "stop": ("stop", _truth),
    "serving_batch": ("serving_batch", checked_batch),
    "rate_sps": ("rate", _rate),
}
