"""Footnotes: remarks on the numbers, each printed once."""

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache

from pytest_hwperf.records.messages import Remark, Statement, sentence, state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.reports.rows import Row, rows_of


class Note(Record, frozen=True, kw_only=True):
    """One remark on a row."""

    parts: tuple[Remark, ...]  # said one after the other
    before: str = ""  # what is said before them
    alike: bool = False  # whether notes that differ from it in their numbers only may be said with it

    @property
    def key(self) -> Hashable:
        """What notes have in common that are one footnote: of alike ones everything but the numbers of a statement."""
        return self.before, *(
            (part.kind, *sorted(part.texts.items()), *part.differences)
            if self.alike and isinstance(part, Statement)
            else part
            for part in self.parts
        )


class Footnotes:
    """Numbers notes in the order of their first mark; alike ones get one number and are shown with their range."""

    def __init__(self) -> None:
        self._notes: dict[Hashable, tuple[int, list[Note]]] = {}

    def numbers(self, notes: Iterator[Note]) -> tuple[int, ...]:
        """Return the numbers of some notes, from 1."""
        found = set[int]()
        for note in notes:
            number, alike = self._notes.setdefault(note.key, (len(self._notes) + 1, []))
            alike.append(note)
            found.add(number)
        return tuple(sorted(found))

    def texts(self) -> tuple[str, ...]:
        """Return the footnotes, that of number 1 first; a number that varies as `104 .. 154`."""
        return tuple(_joined(notes) for _, notes in self._notes.values())

    def lacking(self, report: Report) -> list[str]:
        """Write `3 remarks with -v`, those of the table that are none of these and put a value in doubt."""
        keys = {
            Note(parts=(remark,), alike=True).key
            for judgement in report.judgements
            for row in rows_of(judgement)
            for remark in _doubts(row)
            if not isinstance(remark, Statement) or remark.kind not in _CAVEATS
        }
        lacking = len(keys - self._notes.keys())
        return [f"{counted(lacking, 'remark')} with -v"] if lacking else []


def _joined(notes: Sequence[Note]) -> str:
    """Return the one text of which all are variants."""
    texts = list[str]()
    for alike in zip(*(note.parts for note in notes), strict=True):
        statements = [part for part in alike if isinstance(part, Statement)]
        texts.append(sentence(*statements) if statements else str(alike[0]))
    return visible(notes[0].before + ", ".join(texts))


def notes_of(row: Row, *, exact: bool) -> Iterator[Note]:
    """Collect the remarks on the numbers of a row; `exact`: each comparison's method in full."""
    if row.figure:
        yield from (Note(parts=(warning,), alike=True) for warning in _warnings(row))
    yield from (Note(parts=(decided,)) for verdict in row.verdicts for decided in verdict.decided_by)
    absent = [] if row.source else _why_unmeasured(row)
    yield from (Note(parts=(why,)) for why in absent)
    comparison = row.comparison
    cause = comparison.cause if comparison else None
    is_said = (
        cause is not None and cause.kind == "not measured" and cause.texts.get("why") in [str(why) for why in absent]
    )
    if comparison and not is_said:
        yield from _comparison_notes(row, comparison, exact=exact)


def _warnings(row: Row) -> Iterator[Remark]:
    """Yield the remarks on the figure of a row and on its sample."""
    sample = row.run.sample(row.key[0])
    yield from (*(sample.warnings if sample else ()), *(row.figure.estimate.warnings if row.figure else ()))


def _why_unmeasured(row: Row) -> list[Remark]:
    """Return why there is no value: as the run says, or as budgets say."""
    if row.key[0] in row.run.unmeasured:
        return [row.run.unmeasured[row.key[0]]]
    return [one.cause or one.reason for one in row.verdicts if not isinstance(one.subject, Comparison)]


def _comparison_notes(row: Row, comparison: Comparison, *, exact: bool) -> Iterator[Note]:
    yield from (Note(parts=(remark,)) for remark in (comparison.cause, *comparison.warnings) if remark)
    numbers = comparison.method.numbers if comparison.method else {}
    if comparison.change:
        count = None if comparison.pairs in numbers.values() else _count(comparison.pairs)
        parts = tuple(part for part in (comparison.method, comparison.promise, count) if part)
        yield Note(parts=parts, before="change by ", alike=not exact)
        yield from (Note(parts=(warning,), alike=True) for warning in comparison.change.warnings)
    caught = None if "limit" in numbers else comparison.caught(row.metric.better)
    doubts = (comparison.disturbance, caught, comparison.moved)
    yield from (Note(parts=(doubt,), alike=not exact) for doubt in doubts if doubt is not None)


@lru_cache(maxsize=100)
def _count(pairs: int) -> Statement:
    return state("count", n=pairs)


# What estimates and counters say of themselves, and that other work ran meanwhile, which makes what passes pass less
# easily; everything else puts a value in doubt.
ALARMS = frozenset({"leaks"})  # said wherever a line stands for the test
_CAVEATS = frozenset(
    {"maximum", "no bound", "mean of one", "lone process", "step", "idle machine", "count", "waited for gpu"}
    | {"preempted", "load", "workers"}
    | ALARMS
)


def _doubts(row: Row) -> Iterator[Remark]:
    """Yield the remarks on the value of a row that the table shows."""
    for verdict in row.verdicts:
        subject = verdict.subject
        if isinstance(subject, Comparison):
            yield from (*subject.warnings, *(subject.change.warnings if subject.change else ()))
            yield from [subject.disturbance] if subject.disturbance and not verdict.fails else []  # else in FAILURES
    if row.figure and (row.verdicts or row.is_below or row.is_usual):
        yield from _warnings(row)
