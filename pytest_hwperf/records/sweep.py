"""A sweep as a record: its points, what was measured at each, and the best of them."""

from collections.abc import Mapping
from typing import Literal

from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Figure, Key
from pytest_hwperf.records.structs import Count, Number, Record, Size
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
