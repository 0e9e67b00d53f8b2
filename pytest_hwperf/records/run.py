"""The frozen records that all parts of the program exchange, in base units (s, B, J, g, 1)."""

import hashlib
import json
import math
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pytest_hwperf.records.messages import Difference, Remark, Statement, differing
from pytest_hwperf.records.metrics import METRICS, Better, Metric, metric_of
from pytest_hwperf.records.profiles import OperatorProfile, Roofline
from pytest_hwperf.records.structs import Count, Number, Record, Share, Size
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import EXPORT_UNITS

if TYPE_CHECKING:
    import pandas as pd

    Values = array[float]
else:
    Values = array  # not subscriptable at run time before Python 3.12


SCHEMA = 2  # of every record that is written; raised when a reader of the old schema would misread the new

Key = tuple[str, str]  # metric and statistic
R = TypeVar("R", bound=Record)

# In the context of a scenario that runs a model as it was trained or given: nothing has changed what it predicts.
AS_TRAINED: Mapping[str, str] = {"form": "as trained"}
OF_A_LOAD = "call of a load"  # a unit of replication: percentiles of such values have bounds by early stopping


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
        if self.classes is not None and not 0 < len(self.values) == len(self.classes.of):
            raise ValueError("as many classes as values are needed")


# In every table of runs.
RUN_COLUMNS = ("test", "label", "scenario", "machine_kind", "revision", "started_at", "machine")
NO_READING = "no reading"  # why a sample without values has none


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
        changed = msgspec.structs.replace(self)
        changed.__dict__["result"] = result
        return changed

    def sample(self, metric: str) -> Sample | None:
        return next((sample for sample in self.samples if sample.metric == metric), None)

    @property
    def identity(self) -> tuple[str, ...]:
        """The cells of `RUN_COLUMNS`."""
        names = (self.test, self.label, self.scenario, self.kind)
        return (*names, self.shown_revision, self.started_at, self.machine.fingerprint)

    def to_frame(self) -> "pd.DataFrame":
        """Return its values as a pandas table: a row each, and a row without a value for each unmeasured metric.

        Columns and units are those of `stat_benchmark_runs.csv`: times in ms, sizes in MB, energies in mJ.
        """
        import pandas as pd  # noqa: PLC0415 - notebooks alone need it

        none = array("d", [math.nan])
        taken = [(one.metric, one.values, one.per, one.source, NO_READING) for one in self.samples]  # noqa: PD011 - of no table
        missing = [(metric, none[:0], "", "", str(cause)) for metric, cause in self.unmeasured.items()]
        rows = list[tuple[str | float, ...]]()
        for metric, values, per, source, reason in (*taken, *missing):
            unit, factor = EXPORT_UNITS[metric_of(metric, self.directions.get(metric, "lower")).unit]
            before = tuple(map(visible, (*self.identity, metric, unit or "1")))
            behind = tuple(map(visible, (per, source, "" if values else reason)))
            rows += ((*before, value * factor, *behind) for value in values or none)
        return pd.DataFrame(rows, columns=[*RUN_COLUMNS, "metric", "unit", "value", "per", "source", "reason"])

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
        return self.metric, self.statistic


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
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low!r} is above high {self.high!r}")

    @staticmethod
    def of(value: float, ends: tuple[float | None, float | None], confidence: float, n: int, method: str) -> "Estimate":
        low, high = ends
        return Estimate(value=value, low=low, high=high, confidence=confidence, n=n, method=method)

    def mapped(self, to: Callable[[float], float], *, falls: bool = False, **changes: Any) -> "Estimate":
        """Return what a function makes of the value and of both ends, which one that falls swaps."""
        low, high = (None if end is None else to(end) for end in (self.low, self.high))
        low, high = (high, low) if falls else (low, high)
        return replace(self, value=to(self.value), low=low, high=high, **changes)


class Figure(Keyed, frozen=True, kw_only=True):
    """One statistic of one metric of a run, as shown and as stored."""

    estimate: Estimate
    source: str
    per: str
    estimated: bool = False  # as of its sample


def figure_of(figures: Iterable[Figure], key: Key) -> Figure | None:
    metric, statistic = key
    for one in figures:  # a generator would take twice as long
        if one.metric == metric and one.statistic == statistic:
            return one
    return None


class StoredRun(Record, frozen=True, kw_only=True):
    """One accepted run as a baseline keeps it: figures, and the values of exact metrics only."""

    run: Run
    figures: tuple[Figure, ...]


WITHIN = 0.99  # share of the calls of a load that keep its bound at a rate that can be served


class Served(Record, frozen=True, kw_only=True):
    """What became of the calls of one load; times in s since its beginning, in the order in which they were due."""

    due: Values
    issued: Values  # when the generator handed a call over; later than due by its own delay
    ended: Values
    failed: Count = 0  # calls that raised, which are not among the times

    @property
    def latencies(self) -> Values:
        return array("d", (end - due for due, end in zip(self.due, self.ended, strict=True)))

    @property
    def at_once(self) -> bool:
        return len(self.due) > 1 and self.due[0] == self.due[-1]

    @property
    def lag_s(self) -> float:
        """The delay of the generator itself that 99 % of the calls keep."""
        lags = sorted(issued - due for due, issued in zip(self.due, self.issued, strict=True))
        return lags[math.ceil(WITHIN * len(lags)) - 1] if lags else 0.0
