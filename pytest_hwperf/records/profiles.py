"""What is known of a call beside its time: what profiles have seen, what moved between them, and its work."""

from collections.abc import Mapping
from math import prod
from typing import Literal

from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.structs import Count, Number, Record, Share, Size
from pytest_hwperf.records.units import relative

MoverKind = Literal["function", "operator", "allocation"]
Bound = Literal["compute", "memory", "overhead"]


class Mover(Record, frozen=True, kw_only=True):
    """One function, operator or allocating function, and how much more or less of a call it takes in the candidate."""

    kind: MoverKind
    name: str  # qualified name of the function; of an operator its kind, with the node where there is one
    where: str  # FILE:LINE where it begins, in the candidate if it is there, relative to its tree; "" of operators
    within: str = ""  # "name (FILE:LINE)" of a function that it calls and that most of it is spent in; "" where none is
    holds: str = ""  # "name (FILE:LINE), …" of changed functions that an unchanged one calls
    baseline: Size  # of a call, in s or B, in what moved of it and what it calls; mean of the repeats
    candidate: Size
    low: Number  # least that any two repeats of the sides are apart (candidate - baseline), in s or B
    high: Number  # most
    share: Number  # of the change; below 0 where it moved against the change, above 1 where others did
    baseline_calls: Size | None = None  # how often it is called in a call of the test; None where it was not counted
    candidate_calls: Size | None = None

    @property
    def moved(self) -> float:
        return self.candidate - self.baseline

    @property
    def spread(self) -> tuple[float, float]:
        """Least and most that its share of the change is between two repeats, in this order."""
        if not self.moved:  # of a report from elsewhere: what has not moved is no mover
            return self.share, self.share
        return relative(self.share * self.low, self.moved), relative(self.share * self.high, self.moved)


class SampledFunction(Record, frozen=True, kw_only=True):
    """What is known of one function beside its time."""

    line: Count  # on which it begins
    own: bool = True  # whether it is the user's own code, and not a library's or Python's
    calls: Size | None = None  # in a call of the test; None where they were not counted


class SampledCalls(Record, frozen=True, kw_only=True):
    """What a statistical profiler shows of the calls of one fresh process."""

    source: str  # "stacks sampled every 0.5 ms"
    # Frames from the measured callable inwards, joined by ";", each "qualified name (file)" → s of a call under the
    # profiler, without what was called from there.
    stacks: Mapping[str, Size]
    functions: Mapping[str, SampledFunction]  # by frame
    codes: Mapping[str, str]  # frame of the user's own code, called or not → digests of what it does by itself
    call_s: Size  # mean of a call under the profiler
    plain_s: Size  # and of one without it, in the same process
    samples: Count


class HeldMemory(Record, frozen=True, kw_only=True):
    """What a line of Python held when the process held most."""

    function: str  # "" where no Python was running
    file: str  # relative to the tests' root where it lies there, else to where it was imported from
    line: Count
    called_at: str  # FILE:LINE of the tests' own code that led there, "" where it is the same or none
    caller: str = ""  # function of the tests' own code that stands there
    size: Count  # B
    allocations: Count


class ProfiledOperator(Record, frozen=True, kw_only=True):
    """One node of a model as its runtime executes it, under the profiler."""

    name: str  # of the node, "" where the runtime gives none
    kind: str  # of operator, as the runtime calls it: "FusedGemm", "aten::linear"
    calls: Size  # executions in a call of the model
    seconds: Size  # of them together, in a call of the model


class ProfiledCalls(Record, frozen=True, kw_only=True):
    """What the profiler of a runtime shows of a model, in a session of its own."""

    source: str  # "onnxruntime profile", "torch profile"
    operators: tuple[ProfiledOperator, ...]
    call_s: Size  # mean of a call under the profiler
    calls: Count  # that were profiled
    rows: Count  # of a call


class Operator(Record, frozen=True, kw_only=True):
    """One operator's part of a call that nothing profiles."""

    name: str
    kind: str
    calls: Size
    share: Share  # of the call
    seconds: Size  # that share of the call's median


class OperatorProfile(Record, frozen=True, kw_only=True):
    """Where the time of a call goes: the shares of the profile, scaled to the median of calls without a profiler."""

    source: str
    calls: Count  # that were profiled
    latency_s: Size  # median of a call without a profiler
    coverage: Share  # of the call, by all operators; the rest is the runtime's own work
    operators: tuple[Operator, ...] = ()  # the slowest first; none where they are withheld
    withheld: Statement | None = None  # why no shares are given
    under_profiler: bool = False  # whether `latency_s` is of calls under the profiler: of others nothing is known

    @property
    def framework_s(self) -> float:
        """Seconds of a call that no operator takes."""
        return (1 - self.coverage) * self.latency_s


class Tensor(Record, frozen=True, kw_only=True):
    """A value in a graph."""

    shape: tuple[Count, ...]
    width: Size  # B of an element

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size(self) -> float:
        return self.elements * self.width


class GraphNode(Record, frozen=True, kw_only=True):
    """One operator of a graph."""

    kind: str  # as the format calls it: "MatMul"
    inputs: tuple[Tensor | None, ...]  # None: left out, or of unknown shape
    outputs: tuple[Tensor | None, ...]
    numbers: Mapping[str, tuple[Number, ...]] = {}  # attributes


class Graph(Record, frozen=True, kw_only=True):
    """A model as it is stored, with the shapes of one call."""

    nodes: tuple[GraphNode, ...]
    moved: tuple[Tensor, ...]  # weights, inputs and outputs, each once
    unknown: tuple[str, ...] = ()  # names of inputs and outputs without a known shape


class Work(Record, frozen=True, kw_only=True):
    """What a call has to do at least."""

    flops: Size | None  # operations on floats; a multiplication with addition is two; None: none was counted
    integer_ops: Size = 0.0  # the same on integers, in matrix products and convolutions
    moved_bytes: Size | None  # weights, inputs and outputs, each moved once; None: none was counted
    nodes: Count
    uncounted: Mapping[str, Count] = {}  # kind of operator → nodes whose operations are not known

    @property
    def operations(self) -> float | None:
        """All that were counted, None where there are none."""
        return (self.flops or 0.0) + self.integer_ops or None


class PeakRate(Record, frozen=True, kw_only=True):
    """What numpy reaches on this machine with so many threads; a runtime may be faster."""

    threads: Count
    flops_per_s: Size  # float32 matrix product
    bytes_per_s: Size  # triad a = b + s·c, three arrays counted


class Peaks(Record, frozen=True, kw_only=True):
    """What numpy reaches on a machine."""

    rates: tuple[PeakRate, ...]

    def of(self, threads: int) -> PeakRate | None:
        return next((rate for rate in self.rates if rate.threads == threads), None)


class Roofline(Record, frozen=True, kw_only=True):
    """What a call does in its time, and what limits it."""

    work: Work
    latency_s: Size  # median of a call
    intensity: Size | None  # FLOP/B; None where either was not counted
    flops_per_s: Size | None  # None where no operation was counted
    bytes_per_s: Size | None  # estimate of the memory bandwidth: bytes moved once over the median of a call
    peak: PeakRate | None = None  # what numpy reaches here; None: not measured for these threads
    explained: Size | None = None  # time that numpy would take for its work, over the median; above 1: it is faster
    bound: Bound | None = None
    withheld: Statement | None = None  # why there is no verdict
