"""What a store remembers of a team's runs: series of values, and notes at revisions."""

from collections.abc import Sequence
from typing import Protocol

from pytest_hwperf.core.metrics import Better
from pytest_hwperf.core.records import Estimate, Keyed, Machine
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import Record


class PastValue(Record, frozen=True, kw_only=True):
    """One statistic of one run."""

    started_at: str  # ISO 8601, UTC
    revision: str  # "" where there is none
    changed: bool = False  # whether files differed from it
    estimate: Estimate  # base units; of a series with an anchor the relative change from it
    accepted: bool  # whether the run is, or was, of a baseline


class Series(Keyed, frozen=True, kw_only=True):
    """One statistic of one measurement on one machine over time.

    Values of other machines, sources or anchors are other series: they are never put on one axis unasked.
    """

    test: str
    label: str
    machine: Machine
    source: str  # what measured it
    better: Better
    anchor: str = ""  # commit that ran beside each candidate in pairs; "": the figures of the runs themselves
    values: tuple[PastValue, ...]  # oldest first


class Annotation(Record, frozen=True, kw_only=True):
    """A note of the team at a revision: "new runner", "accepted: larger model"."""

    revision: str  # commit, in full
    text: str
    noted_at: str  # ISO 8601, UTC


class HistoryStore(Protocol):
    """What a store offers in addition to baselines: the memory of a team."""

    def keep(self, baseline: str, report: Report) -> None:
        """Keep the runs of a report with their verdicts, comparisons and pairs; a second time it changes nothing.

        Raises:
            StoreError: it is not stored; says why.
        """

    def history(self, baseline: str, pattern: str = "*", *, newest: int = 1000) -> Sequence[Series]:
        """Return the newest values of each series of the tests whose id matches the glob `pattern`.

        Raises:
            StoreError: the store cannot be read.
        """

    def annotate(self, note: Annotation) -> None:
        """Keep a note; a second time it changes nothing.

        Raises:
            StoreError: it is not stored; says why.
        """

    def annotations(self) -> Sequence[Annotation]:
        """Return all notes, oldest first."""
