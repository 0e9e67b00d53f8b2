"""What a comparison of two model versions leaves behind: a record for the repository, and a file with everything."""

from pytest_hwperf.core.evidence import Gate
from pytest_hwperf.core.records import Comparison, Machine, Margin
from pytest_hwperf.core.rollout import Contender, Decision, Requirement
from pytest_hwperf.core.rollout_plan import Plan
from pytest_hwperf.core.structs import Count, ErrorRate, Record

SCHEMA = 1  # of both files; raised when a reader of the old schema would misread the new


class Rows(Record, frozen=True, kw_only=True):
    """The rows that both versions were measured on."""

    file: str
    sha256: str  # of the file
    count: Count
    labelled: bool


class VersionRecord(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf model version"):
    """What is kept of a model version: what it is, how it was measured, and what was decided."""

    schema: int = SCHEMA
    decided_at: str  # ISO 8601, UTC
    decision: Decision
    old: Contender
    new: Contender
    rows: Rows
    batch_size: Count
    threads: Count
    machine: Machine
    hwperf: str  # version of this package
    alpha: ErrorRate
    margins: tuple[Margin, ...]
    pairs: Count  # of fresh processes
    requirements: tuple[Requirement, ...]
    command: tuple[str, ...]  # that repeats it; values of headers are left out


class RolloutFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf roll-out"):
    """Everything about a decision, with the evidence."""

    schema: int = SCHEMA
    record: VersionRecord
    comparisons: tuple[Comparison, ...]
    plan: Plan | None  # None unless the decision is go
    gate: Gate
