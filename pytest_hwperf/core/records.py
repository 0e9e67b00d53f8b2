"""The frozen records that travel through the whole program, in base units (s, B, J, g, 1)."""

import hashlib
import json
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from pytest_hwperf.core.metrics import METRICS, Better, Metric, Scale, metric_of, taken_by

if TYPE_CHECKING:
    Values = array[float]
else:
    Values = array  # not subscriptable at run time before Python 3.12

Count = Annotated[int, msgspec.Meta(ge=0)]
Undecided = Literal["point", "pass", "fail"]
BudgetOutcome = Literal["passed", "failed", "inconclusive", "unmeasured"]
ComparisonOutcome = Literal["regressed", "improved", "equivalent", "inconclusive", "no baseline", "not comparable"]

SCHEMA = 2  # of every record that is written; raised when a reader of the old schema would misread the new

R = TypeVar("R", bound="Record")


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Named values that never change: what the parts of the program give each other and what files keep."""


def replace(record: R, /, **changes: Any) -> R:
    """Return a copy of a record with other values in the fields that are named; the result of a run goes with it."""
    changed = msgspec.structs.replace(record, **changes)
    if isinstance(record, Run):
        changed.__dict__.update(record.__dict__)
    return changed


class Machine(Record, frozen=True, kw_only=True):
    """The stable facts of a machine: what must agree before two runs are compared."""

    cpu_model: str
    architecture: str  # as `uname -m`
    cores: int  # allotted to this process: affinity and quota, not what the board holds
    memory_gb: int  # installed, in 10^9 B, rounded
    system: str  # operating system and C library
    python: str  # implementation and version
    libraries: Mapping[str, str]  # runtimes that decide speed: name → version
    threads: Mapping[str, str]  # environment variables that size thread pools, as set

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits over every field; never over a current clock rate or load."""
        plain = [
            self.cpu_model,
            self.architecture,
            self.cores,
            self.memory_gb,
            self.system,
            self.python,
            sorted(self.libraries.items()),
            sorted(self.threads.items()),
        ]
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]

    def differences(self, other: "Machine") -> tuple[str, ...]:
        """Name each field in which `other` differs, as `field: mine, theirs`."""
        found = []
        for name in ("cpu_model", "architecture", "cores", "memory_gb", "system", "python"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                found.append(f"{name}: {mine}, {theirs}")
        for mine_map, theirs_map in ((self.libraries, other.libraries), (self.threads, other.threads)):
            for key in sorted({*mine_map, *theirs_map}):
                mine, theirs = mine_map.get(key, "absent"), theirs_map.get(key, "absent")
                if mine != theirs:
                    found.append(f"{key}: {mine}, {theirs}")
        return tuple(found)


class Reading(Record, frozen=True, kw_only=True):
    """What a meter counted over one window."""

    value: float | None  # in the metric's base unit, over the whole window; None = unmeasured
    reason: str = ""  # why it is unmeasured
    share: float | None = None  # of the machine's busy CPU time that was this process's; None = not known


class Sample(Record, frozen=True, kw_only=True):
    """Readings of one metric. Its length is the n of every estimate made from it."""

    metric: str
    values: Values  # typecode "d", base units; one per call, batch of calls, window, process or example
    per: str  # the unit of replication: "call", "batch of 16 calls", "window", "fresh process", "example"
    source: str  # what measured it: "perf_counter", "rapl:package-0+dram", "estimate:cpu-time", …
    warnings: tuple[str, ...] = ()


class Run(Record, frozen=True, kw_only=True, dict=True):
    """All samples of one measured test."""

    test: str  # node id
    label: str  # "" unless several measurements are made in one test
    scenario: str  # "" for a plain callable
    machine: Machine
    revision: str  # version-control revision, "" where there is none
    started_at: str  # ISO 8601, UTC
    samples: tuple[Sample, ...]
    conditions: Mapping[str, str]  # must agree for a comparison: batch size, load, threads, precision …
    context: Mapping[str, str]  # for information: interference, model digest, provider …
    unmeasured: Mapping[str, str] = {}  # metric → why it was not measured
    directions: Mapping[str, Better] = {}  # the user's own metrics → what is better

    @property
    def result(self) -> Any:
        """What the measured callable returned; it is no field, so that it is never stored and never compared."""
        return self.__dict__.get("result")

    def with_result(self, result: object) -> "Run":
        """Return this run with what the callable returned."""
        changed = msgspec.structs.replace(self)
        changed.__dict__["result"] = result
        return changed

    def sample(self, metric: str) -> Sample | None:
        """Return the sample of `metric`, None where it was not measured."""
        return next((sample for sample in self.samples if sample.metric == metric), None)

    @property
    def is_timed(self) -> bool:
        """Whether calls were timed; a run may hold the test's own metrics alone."""
        return any(self.sample(metric) for metric in taken_by("calls"))

    def metric(self, name: str) -> Metric:
        """Return the known metric `name`, or the user's own of that name (unit 1, not exact).

        Raises:
            KeyError: neither known nor recorded in this run.
        """
        return METRICS.get(name) or metric_of(name, self.directions[name])


class Budget(Record, frozen=True, kw_only=True, tag=True):
    """An absolute limit on one statistic of one metric."""

    keyword: str  # as the user wrote it: "latency_p95_ms"
    metric: str
    statistic: str  # "mean", "p50" … "p99_9", "max"
    limit: float  # base units; an upper limit where lower is better, else a lower one
    default: bool = False  # from the ini file, for every test: where its metric is unmeasured it fails nothing


class Margin(Record, frozen=True, kw_only=True):
    """The smallest change of one statistic that matters."""

    metric: str
    statistic: str
    size: float  # 0.02 = 2 % (relative) or 2 points (absolute)
    scale: Scale = "relative"
    floor: float = 0.0  # base units: a relative margin is never smaller than this


class Estimate(Record, frozen=True, kw_only=True):
    """A value with an interval; what the interval replicates stands in `method` and `n`."""

    value: float
    low: float | None  # None = unbounded
    high: float | None
    confidence: float  # two-sided; each bound alone holds at (1 + confidence) / 2
    n: int
    method: str
    warnings: tuple[str, ...] = ()


class Figure(Record, frozen=True, kw_only=True):
    """One statistic of one metric of a run, as shown and as stored."""

    metric: str
    statistic: str
    estimate: Estimate
    source: str
    per: str


class StoredRun(Record, frozen=True, kw_only=True):
    """One accepted run as a baseline keeps it: figures, and the values of exact metrics only."""

    run: Run
    figures: tuple[Figure, ...]

    def figure(self, metric: str, statistic: str) -> Figure | None:
        """Return the figure of that metric and statistic, None where it was not measured."""
        return next((f for f in self.figures if (f.metric, f.statistic) == (metric, statistic)), None)


class Comparison(Record, frozen=True, kw_only=True, tag=True):
    """Candidate against baseline, one statistic of one metric."""

    metric: str
    statistic: str
    outcome: ComparisonOutcome
    change: Estimate | None  # candidate relative to baseline (or minus it, by `scale`); None: nothing to compare
    scale: Scale
    margin: float  # same scale as `change`
    p_value: float | None
    pairs: int  # units compared: pairs, stored sessions, examples
    method: str
    detectable: float | None  # the smallest change for the worse that could have been called, same scale
    baseline: float | None  # the baseline's value in base units
    reason: str = ""  # why there is no baseline, or what made it not comparable
    warnings: tuple[str, ...] = ()
    interference: float | None = None  # share of the timed blocks that were preempted; None: not known

    @property
    def disturbance(self) -> str:
        """Of an undecided comparison, what the user can do something about; "" where nothing is known."""
        if self.outcome != "inconclusive" or not self.interference:
            return ""
        return f"{100 * self.interference:.0f} % of turns preempted"


class Verdict(Record, frozen=True, kw_only=True):
    """The answer to one budget or one comparison."""

    subject: Budget | Comparison
    outcome: BudgetOutcome | ComparisonOutcome
    reason: str  # one line: observed with interval, limit or margin, n, source
    fails: bool  # whether it fails the test under the user's settings


class Policy(Record, frozen=True, kw_only=True):
    """What the user wants done about answers that are not clear."""

    undecided: Undecided = "point"  # a budget's interval holds the limit: judge the point, pass or fail
    strict: bool = False  # a comparison that could not be decided fails the test


class Judgement(Record, frozen=True, kw_only=True):
    """One measured run with everything that was said about it."""

    run: Run
    figures: tuple[Figure, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons among the verdicts' subjects."""
        return tuple(v.subject for v in self.verdicts if isinstance(v.subject, Comparison))

    @property
    def fails(self) -> bool:
        """Whether any verdict fails the test."""
        return any(verdict.fails for verdict in self.verdicts)


class Skip(Record, frozen=True, kw_only=True):
    """A scenario that has no such form, with the reason; it is listed, never ranked."""

    test: str
    scenario: str
    reason: str
