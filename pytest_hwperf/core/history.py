"""What a store remembers of a team's runs: series of values, and notes at revisions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from pytest_hwperf.core.metrics import Better, metric_of
from pytest_hwperf.core.records import Estimate, Keyed, Machine, StoredRun
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.structs import Record

ANCHOR = "anchor"  # how a gate names what it ran against where that is the pinned anchor: by this, or by more behind it


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


@runtime_checkable
class HistoryStore(Protocol):
    """What a store offers in addition to baselines: values over time, and notes."""

    def history(self, baseline: str, pattern: str = "*", *, newest: int = 1000) -> Sequence[Series]:
        """Return the values of each series of the tests whose id matches the glob `pattern`.

        Of each test, label and machine those of its `newest` runs, whether they are of the baseline or not.
        """

    def history_of(self, baseline: str, measured: Iterable[tuple[str, str]], *, newest: int) -> Sequence[Series]:
        """Return the same series of some tests with their labels, without a look at others."""

    def tests(self, baseline: str, pattern: str = "*") -> Sequence[str]:
        """Return the ids of all tests that have a history and match `pattern`."""

    def annotate(self, note: Annotation) -> None:
        """Keep a note; a second time it changes nothing."""

    def annotations(self) -> Sequence[Annotation]:
        """Return all notes, oldest first."""
        ...


@runtime_checkable
class ReportStore(Protocol):
    """What a store offers in addition, if it keeps more of a report than its runs."""

    def keep(self, baseline: str, report: Report) -> None:
        """Keep the runs of a report with their verdicts; a second time it changes nothing."""


class Statistic(NamedTuple):
    """What tells the series of one measurement on one machine from each other."""

    metric: str
    statistic: str
    source: str
    better: Better
    anchor: str = ""


def is_anchor(against: str) -> bool:
    """Whether a gate ran against the pinned anchor: `anchor`, or `anchor v1.4`, and not a branch `anchors/new`."""
    return against.partition(" ")[0] == ANCHOR


def lined_up(
    test: str, label: str, machine: Machine, values: Iterable[tuple[Statistic, PastValue]]
) -> tuple[Series, ...]:
    """Return the series of one measurement on one machine, each with its values in the order of time."""
    found = dict[Statistic, list[PastValue]]()
    for statistic, value in values:
        found.setdefault(statistic, []).append(value)
    return tuple(
        Series(
            test=test, label=label, machine=machine, **one._asdict(),
            values=tuple(sorted(past, key=lambda value: value.started_at)),
        )
        for one, past in found.items()
    )  # fmt: skip


def series_of(runs: Sequence[StoredRun]) -> tuple[Series, ...]:
    """Return the series of accepted runs of one test, label and machine; at least one run."""
    first = runs[0].run
    return lined_up(first.test, first.label, first.machine, (one for stored in runs for one in _values(stored)))


def _values(stored: StoredRun) -> Iterator[tuple[Statistic, PastValue]]:
    run = stored.run
    for figure in stored.figures:
        better = metric_of(figure.metric, run.directions.get(figure.metric, "lower")).better
        past = PastValue(
            started_at=run.started_at, revision=run.revision, changed=run.changed, estimate=figure.estimate,
            accepted=True,
        )  # fmt: skip
        yield Statistic(figure.metric, figure.statistic, figure.source, better), past
