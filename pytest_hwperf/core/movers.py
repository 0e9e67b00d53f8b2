"""Movers: the functions, operators and lines of code whose part of a change is known."""

from typing import Literal

from pytest_hwperf.core.structs import Number, Record, Size

MoverKind = Literal["function", "operator", "allocation"]


class Mover(Record, frozen=True, kw_only=True):
    """One function, operator or allocating function, and how much more or less of a call it takes in the candidate."""

    kind: MoverKind
    name: str  # qualified name of the function; of an operator its kind, with the node where there is one
    where: str  # FILE:LINE where it begins, in the candidate if it is there, relative to its tree; "" of operators
    baseline: Size  # of a call, in s or B; mean of the repeats; 0 where it is never called
    candidate: Size
    low: Number  # least that any two repeats of the sides are apart (candidate - baseline), in s or B
    high: Number  # most
    share: Number  # of the change; below 0 where it moved against the change, above 1 where others did
    baseline_calls: Size | None = None  # how often it is called in a call of the test; None where it was not counted
    candidate_calls: Size | None = None

    @property
    def moved(self) -> float:
        """Candidate minus baseline, in s or B of a call."""
        return self.candidate - self.baseline
