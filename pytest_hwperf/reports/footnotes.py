"""Footnotes: remarks on the numbers, each printed once."""

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache

from pytest_hwperf.records.messages import Remark, Statement, sentence, state
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Run
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted
from pytest_hwperf.records.verdict import Budget, Comparison, Judgement
from pytest_hwperf.reports.rows import RowEntry, metric_of


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


def notes_of(run: Run, entry: RowEntry, *, exact: bool) -> Iterator[Note]:
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


def _why_unmeasured(run: Run, entry: RowEntry) -> list[Remark]:
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


# What estimates and counters say of themselves, and that other work ran meanwhile, which makes what passes pass less
# easily; everything else puts a value in doubt.
ALARMS = frozenset({"leaks"})  # said wherever a line stands for the test
_CAVEATS = frozenset(
    {"maximum", "no bound", "mean of one", "lone process", "step", "idle machine", "count", "waited for gpu"}
    | {"preempted", "load", "workers"}
    | ALARMS
)


def unshown_remarks(report: Report, shown: Footnotes) -> list[str]:
    """Write `3 remarks with -v`, those that are no footnote yet; nothing where there are none."""
    found = {key for judgement in report.judgements for key in _keys(judgement) if key not in shown}
    return [f"{counted(len(found), 'remark')} with -v"] if found else []


def _keys(judgement: Judgement) -> Iterator[Hashable]:
    """Yield what tells the footnotes apart that the table would have."""
    for remark in _remarks(judgement):
        if not isinstance(remark, Statement) or remark.kind not in _CAVEATS:
            yield Note(parts=(remark,), alike=True).key


def _remarks(judgement: Judgement) -> Iterator[Remark]:
    """Yield the remarks on every value that the table shows."""
    judged = {verdict.subject.key for verdict in judgement.verdicts}
    for figure in judgement.figures:
        usual = figure.metric not in METRICS or figure.statistic in metric_of(judgement.run, figure.metric).shown
        if usual or figure.key in judged:
            sample = judgement.run.sample(figure.metric)
            yield from (*(sample.warnings if sample else ()), *figure.estimate.warnings)
    for verdict in judgement.verdicts:
        subject = verdict.subject
        if isinstance(subject, Comparison):
            yield from (*subject.warnings, *(subject.change.warnings if subject.change else ()))
            yield from [subject.disturbance] if subject.disturbance and not verdict.fails else []  # else in FAILURES
