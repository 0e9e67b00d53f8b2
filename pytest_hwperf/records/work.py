"""Work of a call, counted from the graph of its model, and what limits it, as records."""

from collections.abc import Mapping
from math import prod
from typing import Literal

from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.structs import Count, Number, Record, Size

Bound = Literal["compute", "memory", "overhead"]


class Tensor(Record, frozen=True, kw_only=True):
    """A value in a graph."""

    shape: tuple[Count, ...]
    width: Size  # B of an element
    constant: bool = False  # whether it is part of the model, as weights are

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def size(self) -> float:
        """Bytes."""
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
        """Return the rates of so many threads, None where they were not measured."""
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
