"""The frozen records that all parts of the program exchange, in base units (s, B, J, g, 1)."""

import hashlib
import json
import math
from array import array
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from pytest_hwperf.core.metrics import METRICS, Better, Metric, Scale, metric_of
from pytest_hwperf.core.movers import OperatorProfile
from pytest_hwperf.core.roofline import Roofline
from pytest_hwperf.core.statements import Difference, Kind, Remark, Statement, differing, state
from pytest_hwperf.core.structs import Count, Number, Record, Share, Size
from pytest_hwperf.core.units import show_change_interval, show_limit, show_size

if TYPE_CHECKING:
    Values = array[float]
else:
    Values = array  # not subscriptable at run time before Python 3.12

Undecided = Literal["point", "retry", "pass", "fail"]
BudgetOutcome = Literal["passed", "failed", "inconclusive", "unmeasured"]
ComparisonOutcome = Literal["regressed", "improved", "equivalent", "inconclusive", "no baseline", "not comparable"]

SCHEMA = 2  # of every record that is written; raised when a reader of the old schema would misread the new

Key = tuple[str, str]  # metric and statistic
R = TypeVar("R", bound=Record)

# In the context of a scenario that runs a model as it was trained or given: nothing has changed what it predicts.
AS_TRAINED: Mapping[str, str] = {"form": "as trained"}
OF_A_LOAD = "call of a load"  # a unit of replication: percentiles of such values have bounds by early stopping

_OTHERWISE = frozenset({"other data", "other conditions", "stored otherwise"})  # kinds of causes
_SAME = 1e-9  # relative: apart from rounding


def replace(record: R, /, **changes: Any) -> R:
    """Return a copy of a record with other values in the fields that are named; the result of a run goes with it."""
    changed = msgspec.structs.replace(record, **changes)
    if isinstance(record, Run):
        changed.__dict__.update(record.__dict__)
    return changed


class Machine(Record, frozen=True, kw_only=True):
    """The stable facts of a machine, which must agree before two runs are compared."""

    cpu_model: str
    architecture: str  # as `uname -m`
    cores: Count  # allotted to this process: affinity and quota, not what the board holds
    memory_gb: Count  # installed, in 10^9 B, rounded
    system: str  # operating system and C library
    python: str  # implementation and version
    libraries: Mapping[str, str]  # runtimes that decide speed: name → version
    threads: Mapping[str, str]  # environment variables that size thread pools, as set

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits over every field; never over a current clock rate or load."""
        return _fingerprint(self)

    def __hash__(self) -> int:
        return hash(self.hardware)

    @property
    def hardware(self) -> tuple[str, str, int, int]:
        """What stays when software is updated."""
        return self.cpu_model, self.architecture, self.cores, self.memory_gb

    def is_alike(self, other: "Machine", libraries: Collection[str]) -> bool:
        """Whether both agree in everything but the versions of libraries other than these."""
        mine, new = ({name: text for name, text in one.libraries.items() if name in libraries} for one in (self, other))
        return replace(self, libraries=mine) == replace(other, libraries=new)

    def differences(self, other: "Machine") -> tuple[Difference, ...]:
        """Return each field in which `other`, the candidate's, differs from this one."""
        names = ("cpu_model", "architecture", "cores", "memory_gb", "system", "python")
        values = ((name, str(getattr(self, name)), str(getattr(other, name))) for name in names)
        found = [Difference(name=name, baseline=mine, candidate=new) for name, mine, new in values if mine != new]
        return (*found, *differing(self.libraries, other.libraries), *differing(self.threads, other.threads))


@lru_cache(maxsize=100)  # the runs of a session have one machine
def _fingerprint(machine: Machine) -> str:
    values = msgspec.structs.astuple(machine)
    plain = [sorted(value.items()) if isinstance(value, Mapping) else value for value in values]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()[:16]


class Reading(Record, frozen=True, kw_only=True):
    """What a meter counted over one window."""

    value: Number | None  # in the metric's base unit, over the whole window; None = unmeasured
    reason: str = ""  # why it is unmeasured, in the meter's words
    share: Size | None = None  # of the machine's busy CPU time that was this process's; None = not known


class Classes(Record, frozen=True, kw_only=True):
    """The true class of each example."""

    names: tuple[str, ...]
    of: Values  # place of the class among the names, one per example

    def __post_init__(self) -> None:
        """Refuse examples of a class that has no name."""
        if not {*self.of} <= {*range(len(self.names))}:
            raise ValueError("an example of no class")


class Sample(Record, frozen=True, kw_only=True):
    """Readings of one metric. Its length is the n of every estimate made from it."""

    metric: str
    values: Values  # typecode "d", base units; one per call, batch of calls, window, process or example
    per: str  # the unit of replication: "call", "batch of 16 calls", "window", "fresh process", "example"
    source: str  # what measured it: "perf_counter", "rapl:package-0+dram", "estimate:cpu-time", …
    estimated: bool = False  # it holds nothing that was measured, and is never compared
    warnings: tuple[Remark, ...] = ()
    weights: Values | None = None  # of each value in a mean, such as the calls of its window; None: all count alike
    classes: Classes | None = None  # of the examples; None: not known, or the values are none of examples

    def __post_init__(self) -> None:
        """Refuse classes of other examples."""
        if self.classes is not None and not 0 < len(self.values) == len(self.classes.of):
            raise ValueError("as many classes as values are needed")


class Run(Record, frozen=True, kw_only=True, dict=True, gc=True):
    """All samples of one measured test."""

    test: str  # node id
    label: str  # "" unless several measurements are made in one test
    scenario: str  # "" for a plain callable
    machine: Machine
    revision: str  # version-control revision, "" where there is none
    changed: bool = False  # whether files differed from it
    started_at: str  # ISO 8601, UTC
    samples: tuple[Sample, ...]
    conditions: Mapping[str, str]  # must agree for a comparison: batch size, load, threads, precision …
    context: Mapping[str, str]  # for information: interference, model digest, provider …
    unmeasured: Mapping[str, Statement] = {}  # metric → why it was not measured
    directions: Mapping[str, Better] = {}  # the user's own metrics → what is better
    roofline: Roofline | None = None  # work of a call and what limits it; None where it was not asked
    operators: OperatorProfile | None = None  # where the time of a call goes; None where it was not asked
    kind: str = ""  # of the machine, as its user calls it; "": not said; runs of two kinds are never compared

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
    def shown_revision(self) -> str:
        """The revision, with `+changes` where files differed from it."""
        return f"{self.revision}+changes" if self.changed else self.revision

    def metric(self, name: str) -> Metric:
        """Return the known metric `name`, or the user's own of that name (unit 1, not exact).

        Raises:
            KeyError: neither known nor recorded in this run.
        """
        return METRICS.get(name) or metric_of(name, self.directions[name])


class Keyed(Record, frozen=True, kw_only=True):
    """A record about one statistic of one metric."""

    metric: str
    statistic: str  # "mean", "p50" … "p99_9", "max", "iqr"

    @property
    def key(self) -> Key:
        """Metric and statistic."""
        return self.metric, self.statistic


class Budget(Record, frozen=True, kw_only=True, tag=True):
    """An absolute limit on one statistic of one metric."""

    keyword: str  # as the user wrote it: "latency_p95_ms"
    metric: str
    statistic: str  # "mean", "p50" … "p99_9", "max", "iqr"
    limit: Number  # base units; an upper limit where lower is better, else a lower one
    default: bool = False  # from the ini file, for every test: where its metric is unmeasured it fails nothing

    @property
    def key(self) -> Key:
        """Metric and statistic."""
        return self.metric, self.statistic


class Margin(Keyed, frozen=True, kw_only=True):
    """The smallest change of one statistic that matters."""

    size: Size  # 0.02 = 2 % (relative) or 2 points (absolute)
    scale: Scale = "relative"
    floor: Size = 0.0  # base units: a relative margin is never smaller than this


class Estimate(Record, frozen=True, kw_only=True):
    """A value with an interval; `method` and `n` say what the interval replicates."""

    value: Number
    low: Number | None  # None = unbounded
    high: Number | None  # not below `low`
    confidence: Share  # two-sided; each bound alone holds at (1 + confidence) / 2
    n: Count
    method: str
    warnings: tuple[Remark, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an interval that is none."""
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low!r} is above high {self.high!r}")


class Figure(Keyed, frozen=True, kw_only=True):
    """One statistic of one metric of a run, as shown and as stored."""

    estimate: Estimate
    source: str
    per: str
    estimated: bool = False  # as of its sample


def figure_of(figures: Iterable[Figure], key: Key) -> Figure | None:
    """Return the figure of one statistic, None where there is none."""
    metric, statistic = key
    for one in figures:  # a generator would take twice as long
        if one.metric == metric and one.statistic == statistic:
            return one
    return None


class StoredRun(Record, frozen=True, kw_only=True):
    """One accepted run as a baseline keeps it: figures, and the values of exact metrics only."""

    run: Run
    figures: tuple[Figure, ...]


class Comparison(Keyed, frozen=True, kw_only=True, tag=True):
    """Candidate against baseline, one statistic of one metric."""

    outcome: ComparisonOutcome
    change: Estimate | None = None  # candidate relative to baseline (or minus it, by `scale`); None: nothing to compare
    scale: Scale
    margin: Size  # same scale as `change`
    p_value: Share | None = None
    pairs: Count = 0  # units compared: pairs, stored runs, examples
    method: Statement | None = None  # how the change was found; None: nothing to compare
    detectable: Number | None = None  # the smallest change for the worse that could have been called, same scale
    baseline: Number | None = None  # the baseline's value in base units
    promise: Statement | None = None  # how often such an answer is wrong
    cause: Statement | None = None  # why there is no baseline, what made it not comparable, why it is inconclusive
    warnings: tuple[str, ...] = ()
    interference: Share | None = None  # share of the timed blocks that were preempted; None: not known
    moved: Statement | None = None  # the function, operator or allocation that changed most, or why it is not known

    @property
    def reason(self) -> str:
        """The cause in words, "" where there is none."""
        return str(self.cause or "")

    @property
    def candidate(self) -> float | None:
        """The candidate's value in base units: that of the baseline, changed by the change; None: nothing to compare.

        The three agree whatever the noise of either side, which pairs share and the change leaves out.
        """
        if self.baseline is None or self.change is None:
            return None
        return self.baseline + self.change.value * (1.0 if self.scale == "absolute" else abs(self.baseline))

    @property
    def per(self) -> str:
        """What `pairs` counts: "pair", "example", "file", "stored run" and the like."""
        if self.method is None:
            return "pair"
        named = {"examples": "example", "sessions": "stored run", "candidate": "value"}
        known = (per for number, per in named.items() if number in self.method.numbers)
        return self.method.texts.get("per") or next(known, "pair")

    @property
    def is_of_other_data(self) -> bool:
        """Whether it could not be made since the data, its labels or the conditions of the calls are others."""
        return self.outcome == "not comparable" and self.cause is not None and self.cause.kind in _OTHERWISE

    @property
    def is_left_out(self) -> bool:
        """Whether no pair was run since nothing that its test runs has changed."""
        return self.cause is not None and self.cause.kind == "untouched"

    def is_of(self, figure: "Figure") -> bool:
        """Whether the candidate's value is this figure of the judged run, and not one of other processes."""
        if self.is_left_out:
            return False
        candidate = self.candidate
        if self.baseline is None or candidate is None:
            return True
        return math.isclose(candidate, figure.estimate.value, rel_tol=_SAME, abs_tol=_SAME * abs(self.baseline))

    @property
    def how(self) -> str:
        """How the change was found and how often that is wrong, in words; "" where there is nothing to compare."""
        return ", ".join(str(part) for part in (self.method, self.promise) if part)

    @property
    def shift(self) -> str:
        """The change with its interval in words; "" where there is none."""
        if self.change is None:
            return ""
        return show_change_interval(self.change.value, self.change.low, self.change.high, self.scale)

    @property
    def allowed(self) -> str:
        """The margin in words, `2 %` or `0.5 pp`; where it is an amount, as of small peaks of memory, `1 MB`."""
        metric, amount = metric_of(self.metric), self.margin * abs(self.baseline or 0.0)
        is_amount = self.margin >= 1 or any(math.isclose(amount, one.floor, rel_tol=1e-3) for one in metric.margins)
        if self.scale == "absolute" or not amount or not is_amount or metric.unit == "1":
            return show_size(self.margin, self.scale)
        return show_limit(float(f"{amount:.3g}"), metric.unit, "lower").removeprefix("<= ")

    @property
    def is_equal(self) -> bool:
        """Whether every unit that was compared has the same value on both sides."""
        return self.method is not None and self.method.kind == "equal examples"

    def caught(self, better: Better) -> Statement | None:
        """Say which changes it would have called, None where it is decided or that is not known."""
        if self.outcome != "inconclusive" or self.detectable is None:
            return None
        kind: Kind = "could have caught" if self.scale == "relative" else "could have caught points"
        return state(kind, sign=">=" if better == "lower" else "<=", change=self.detectable)

    @property
    def disturbance(self) -> Statement | None:
        """What disturbed an inconclusive comparison and the user can change; None where nothing is known."""
        if self.outcome != "inconclusive" or not self.interference:
            return None
        return state("turns preempted", percent=100 * self.interference)


def uncompared(margin: Margin, outcome: ComparisonOutcome, cause: Statement | None) -> Comparison:
    """Return the comparison of a margin for which there is nothing to compare; `cause` says why."""
    return Comparison(
        metric=margin.metric,
        statistic=margin.statistic,
        outcome=outcome,
        scale=margin.scale,
        margin=margin.size,
        cause=cause,
    )


class Verdict(Record, frozen=True, kw_only=True):
    """The answer to one budget or one comparison."""

    subject: Budget | Comparison
    outcome: BudgetOutcome | ComparisonOutcome
    reason: str  # one line: observed with interval, limit or margin, n, source
    cause: Statement | None = None  # why a budget is unmeasured
    decided_by: tuple[Statement, ...] = ()  # what has answered a budget whose interval holds the limit
    fails: bool  # whether it fails the test under the user's settings


class Policy(Record, frozen=True, kw_only=True):
    """How answers that are not clear are judged."""

    undecided: Undecided = "point"  # a budget's interval holds the limit: judge the point, ask again, pass or fail
    strict: bool = False  # a comparison that could not be decided fails the test


class Judgement(Record, frozen=True, kw_only=True):
    """One measured run with its figures and verdicts."""

    run: Run
    figures: tuple[Figure, ...]
    verdicts: tuple[Verdict, ...]

    def __post_init__(self) -> None:
        """Refuse metrics that are neither known nor recorded by the test."""
        of_verdicts = [verdict.subject.metric for verdict in self.verdicts]
        for metric in {*of_verdicts, *[figure.metric for figure in self.figures]}:
            if metric not in METRICS and metric not in self.run.directions:
                raise ValueError(f"no metric {metric!r}")

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons among the verdicts' subjects."""
        return tuple(v.subject for v in self.verdicts if isinstance(v.subject, Comparison))

    @property
    def fails(self) -> bool:
        """Whether any verdict fails the test."""
        return any(verdict.fails for verdict in self.verdicts)


class Skip(Record, frozen=True, kw_only=True):
    """A scenario in which the model cannot be prepared, or a test that is not measured; listed, never ranked."""

    test: str
    scenario: str
    cause: Statement
    kind: str = ""  # of the machine, as of a run

    @property
    def reason(self) -> str:
        """The cause in words."""
        return str(self.cause)
