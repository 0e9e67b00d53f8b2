"""Footnotes: remarks on the numbers, each printed once."""

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.records import Budget, Comparison, Run
from pytest_hwperf.core.statements import Remark, Statement, sentence, state
from pytest_hwperf.core.structs import Record
from pytest_hwperf.reports.cells import metric_of
from pytest_hwperf.reports.entries import Entry


class Note(Record, frozen=True, kw_only=True):
    """One remark on a row."""

    parts: tuple[Remark, ...]  # said one after the other
    before: str = ""  # what is said before them
    alike: bool = False  # whether notes that differ from it in their numbers only may be said with it

    @property
    def key(self) -> Hashable:
        """What notes have in common that are one footnote."""
        return self.before, *(_common(part) if self.alike else part for part in self.parts)


class Footnotes:
    """Numbers notes in the order of their first mark; alike ones get one number and are shown with their range."""

    def __init__(self) -> None:
        """Begin without notes."""
        self._notes: dict[Hashable, tuple[int, list[Note]]] = {}

    def number(self, note: Note) -> int:
        """Return the number of a note, from 1."""
        number, notes = self._notes.setdefault(note.key, (len(self._notes) + 1, []))
        notes.append(note)
        return number

    def __contains__(self, key: Hashable) -> bool:
        return key in self._notes

    def texts(self) -> tuple[str, ...]:
        """Return the footnotes, that of number 1 first."""
        return tuple(_joined(notes) for _, notes in self._notes.values())


def notes_of(run: Run, entry: Entry, *, exact: bool) -> Iterator[Note]:
    """Collect the remarks on the numbers of a row; `exact`: each comparison's method in full."""
    metric, figure = entry.key[0], entry.figure
    sample = run.sample(metric)
    if figure:
        warnings = (*(sample.warnings if sample else ()), *figure.estimate.warnings)
        yield from (Note(parts=(warning,), alike=True) for warning in warnings)
    yield from (Note(parts=(decided,)) for verdict in entry.verdicts for decided in verdict.decided_by)
    absent = [] if entry.source else _why_unmeasured(run, entry)
    yield from (Note(parts=(why,)) for why in absent)
    if entry.comparison and not _repeats(entry.comparison.cause, absent):
        yield from _comparison_notes(entry.comparison, run, exact=exact)


def _why_unmeasured(run: Run, entry: Entry) -> list[Remark]:
    """Return why there is no value: as the run says, or as budgets say."""
    if entry.key[0] in run.unmeasured:
        return [run.unmeasured[entry.key[0]]]
    return [one.cause or one.reason for one in entry.verdicts if isinstance(one.subject, Budget)]


def _repeats(cause: Statement | None, absent: Sequence[Remark]) -> bool:
    """Whether a comparison could not be made for the reason that is given for the value already."""
    return cause is not None and cause.kind == "not measured" and cause.texts.get("why") in [str(why) for why in absent]


def _comparison_notes(comparison: Comparison, run: Run, *, exact: bool) -> Iterator[Note]:
    noted: tuple[Remark | None, ...] = (comparison.cause, *comparison.warnings)
    yield from (Note(parts=(remark,)) for remark in noted if remark)
    numbers = comparison.method.numbers if comparison.method else {}
    if comparison.change:
        count = None if comparison.pairs in numbers.values() else _count(comparison.pairs)
        parts = tuple(part for part in (comparison.method, comparison.promise, count) if part)
        yield Note(parts=parts, before="change by ", alike=not exact)
        yield from (Note(parts=(warning,), alike=True) for warning in comparison.change.warnings)
    caught = None if "limit" in numbers else comparison.caught(metric_of(run, comparison.metric).better)
    for doubt in (comparison.disturbance, caught, comparison.moved):
        if doubt is not None:
            yield Note(parts=(doubt,), alike=not exact)


@lru_cache(maxsize=100)
def _count(pairs: int) -> Statement:
    return state("count", n=pairs)


def _common(part: Remark) -> Hashable:
    """Return what is the same in alike remarks: everything but the numbers of a statement."""
    return (part.kind, *sorted(part.texts.items()), *part.differences) if isinstance(part, Statement) else part


def _joined(notes: Sequence[Note]) -> str:
    """Return the one text of which all are variants, a number that varies as `104 .. 154`."""
    columns = zip(*(note.parts for note in notes), strict=True)
    return visible(notes[0].before + ", ".join(_said(column) for column in columns))


def _said(alike: Sequence[Remark]) -> str:
    statements = [part for part in alike if isinstance(part, Statement)]
    return sentence(*statements) if statements else str(alike[0])
