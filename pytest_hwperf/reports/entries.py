"""What a row of the table is about: a figure of the judged run, a comparison of other processes, or both."""

from collections.abc import Sequence

from pytest_hwperf.core.records import Budget, Comparison, Figure, Key, Verdict, replace
from pytest_hwperf.core.structs import Record

IN_PAIRS = "pairs of fresh processes"  # source of what the judged run has no figure of
_APART = "  this run"  # name of a figure below the comparison of other processes


class Entry(Record, frozen=True, kw_only=True):
    """One row before it is written."""

    key: Key
    name: str
    figure: Figure | None  # None: the value is that of the comparison, or there is none
    verdicts: Sequence[Verdict] = ()
    comparison: Comparison | None = None  # that of one of the verdicts
    apart: bool = False  # whether the entry before has the comparison

    @property
    def source(self) -> str:
        """What measured the value, "" where there is none."""
        if self.figure is not None:
            return self.figure.source
        return IN_PAIRS if self.comparison is not None and self.comparison.candidate is not None else ""


def entries_of(key: Key, name: str, figure: Figure | None, verdicts: Sequence[Verdict]) -> list[Entry]:
    """Put the verdicts on one statistic beside the values that they are about.

    A comparison of fresh pairs is about theirs: the judged run is one more process, and the change may contradict its
    value. Budgets are about the judged run.
    """
    compared = [one.subject for one in verdicts if isinstance(one.subject, Comparison)]
    comparison = compared[0] if compared else None
    if figure is None or all(one.is_of(figure) for one in compared):
        return [Entry(key=key, name=name, figure=figure, verdicts=verdicts, comparison=comparison)]
    budgets = [one for one in verdicts if isinstance(one.subject, Budget)]
    of_pairs = [one for one in verdicts if isinstance(one.subject, Comparison)]
    return [
        Entry(key=key, name=name, figure=None, verdicts=of_pairs, comparison=comparison),
        Entry(key=key, name=name, figure=figure, verdicts=budgets, apart=True),
    ]


def named(entries: Sequence[Entry]) -> list[Entry]:
    """Name the rows that are shown: a figure is that of this run where the row above has its comparison."""
    above = [None, *(entry.key for entry in entries)]
    return [
        replace(entry, name=_APART) if entry.apart and entry.key == key else entry
        for entry, key in zip(entries, above, strict=False)
    ]
