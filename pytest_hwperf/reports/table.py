"""The table of a report: which columns, which rows, and their order.

Surfaces draw the `Table`; they add no number, and leave none out that other cells do not imply.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Literal

from pytest_hwperf.records.metrics import METRICS, metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Figure, Key, Run, replace
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import plural, show_number
from pytest_hwperf.records.verdict import Judgement, Verdict
from pytest_hwperf.reports.explained import OperatorTable, operator_tables
from pytest_hwperf.reports.footnotes import Footnotes, notes_of
from pytest_hwperf.reports.rows import (
    Family,
    RowEntry,
    cells_of,
    entries_of,
    families,
    median_of,
    named,
    sorted_keys,
    title_of,
    unit_of,
)
from pytest_hwperf.reports.summary import skip_counts, verdict_counts

Detail = Literal["quiet", "normal", "verbose"]
Tone = Literal["bad", "doubtful", "good", "plain"]

_TELLING = {"failed", "regressed", "inconclusive", "unmeasured", "not comparable"}  # what even a quiet table shows
_CONDITIONS = ("precision", "threads", "batch_size", "load")  # shown unless verbose, which shows every one
_USUAL_LOAD, _USUALLY = "single_stream", "calls one after the other"  # said in verbose only
_TONES: Mapping[str, Tone] = {
    "failed": "bad",
    "regressed": "bad",
    "inconclusive": "doubtful",
    "unmeasured": "doubtful",
    "not comparable": "doubtful",
    "improved": "good",
}


class Column(Record, frozen=True, kw_only=True):
    """A column."""

    name: str
    phrase: str = ""  # how its cell, {}, is said in the line below a row; "": it stands in the row


COLUMNS = (
    Column(name="metric"),
    Column(name="value"),
    Column(name="n"),
    Column(name="budget", phrase="budget {}"),
    Column(name="baseline", phrase="baseline {}"),
    Column(name="change", phrase="change {}"),
    Column(name="outcome"),
)


_NAMES = [column.name for column in COLUMNS]


class Row(Record, frozen=True, kw_only=True):
    """One statistic of one metric."""

    cells: tuple[str, ...]  # one for each column of the table, "" where there is nothing to say
    notes: tuple[int, ...]  # numbers of its footnotes, from 1
    tone: Tone


class Section(Record, frozen=True, kw_only=True):
    """One measured scenario of a test, or one that has no such form."""

    name: str  # scenario
    ratio: str  # median latency over that of the test's best scenario, "" where nothing is ranked
    setting: str  # conditions in which it differs from its neighbours; why it was skipped
    test: str  # full test id and label
    rows: tuple[Row, ...]


class Group(Record, frozen=True, kw_only=True):
    """One measured test: its scenarios best first, then those that were skipped."""

    title: str  # full test id and label; without the scenario where several follow
    setting: str  # conditions that hold for all sections
    sources: str  # what measured each metric
    sections: tuple[Section, ...]


class Table(Record, frozen=True, kw_only=True):
    """All that a surface shows; every text is free of control characters."""

    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    footnotes: tuple[str, ...]  # the first has number 1
    operators: tuple[OperatorTable, ...]  # of the measurements that were asked for them
    warnings: tuple[str, ...]  # of the whole run
    counts: tuple[str, ...]  # of all outcomes, shown or not: of budgets, of comparisons, of what was left out
    fails: bool
    partial: bool


def rows(report: Report, *, detail: Detail = "normal") -> Table:
    """Choose what is shown."""
    footnotes = Footnotes()
    groups = [_group(family, detail, footnotes) for family in families(report.judgements, report.skips)]
    columns, groups = _without_empty_columns([group for group in groups if group.sections])
    return Table(
        columns=columns,
        groups=tuple(groups),
        footnotes=footnotes.texts(),
        operators=operator_tables(report, every=detail == "verbose"),
        warnings=tuple(map(visible, report.warnings)),
        counts=(*verdict_counts(report), *skip_counts(report, listed=detail != "quiet")),
        fails=any(judgement.fails for judgement in report.judgements),
        partial=report.partial,
    )


class _Choice(Record, frozen=True, kw_only=True):
    """What is shown of one judgement."""

    run: Run
    figures: Mapping[Key, Figure]
    entries: Sequence[RowEntry]  # of the rows, in their order
    conditions: Sequence[str]
    ratio: str
    exact: bool  # whether footnotes keep their own numbers


def _group(family: Family, detail: Detail, footnotes: Footnotes) -> Group:
    """Say what the scenarios of a test have in common once, and of each what is its own."""
    choices = [_choice(judgement, family.best, detail) for judgement in family.judgements]
    choices = [choice for choice in choices if choice.entries or detail != "quiet"]
    common = [
        text for choice in choices[:1] for text in choice.conditions if all(text in c.conditions for c in choices)
    ]
    if [bool(choice.run.scenario) for choice in choices] == [True]:
        common = []  # a scenario that stands alone has its conditions next to its name
    skipped = [] if detail == "quiet" else family.skips
    return Group(
        title=visible(family.title),
        setting=visible(", ".join(common)),
        sources=visible(_sources(choices)),
        sections=(
            *(_section(choice, common, footnotes) for choice in choices),
            *(
                Section(name=visible(s.scenario), ratio="", setting=visible(f"skipped: {s.reason}"), test="", rows=())
                for s in skipped
            ),
        ),
    )


def _choice(judgement: Judgement, best: float | None, detail: Detail) -> _Choice:
    run, median = judgement.run, median_of(judgement)
    figures = {figure.key: figure for figure in judgement.figures}
    verdicts: dict[Key, list[Verdict]] = {}
    for verdict in judgement.verdicts:
        verdicts.setdefault(verdict.subject.key, []).append(verdict)
    keys = sorted_keys([*figures, *verdicts])
    alone = _alone(keys)
    names = {key: visible(key[0] if key[0] in alone else f"{key[0]} {key[1].replace('_', '.')}") for key in keys}
    entries = (one for key in keys for one in entries_of(key, names[key], figures.get(key), verdicts.get(key, ())))
    return _Choice(
        run=run,
        figures=figures,
        entries=named([entry for entry in entries if _shown(entry, detail)]),
        conditions=_conditions(run, figures.values(), detail),
        ratio=f"{show_number(median / best)}× the fastest" if best and median else "",
        exact=detail == "verbose",
    )


def _alone(keys: Sequence[Key]) -> set[str]:
    """Return the metrics whose only statistic is the only one that is shown of them: it is not worth a word."""
    metrics = [metric for metric, _ in keys]
    return {m for m, statistic in keys if metrics.count(m) == 1 and metric_of(m).statistics == (statistic,)}


def _shown(entry: RowEntry, detail: Detail) -> bool:
    if detail == "quiet":
        return any(verdict.fails or verdict.outcome in _TELLING for verdict in entry.verdicts)
    name, statistic = entry.key
    metric, own = metric_of(name), name not in METRICS  # what a test recorded itself
    usual = not entry.apart and (own or statistic in metric.shown)
    return detail == "verbose" or usual or bool(entry.verdicts)


def _conditions(run: Run, figures: Iterable[Figure], detail: Detail) -> list[str]:
    """Write `float32`, `threads 1`; verbose also all others, and what was counted where one word does not say it."""
    if detail != "verbose":
        shown = [(name, run.conditions[name]) for name in _CONDITIONS if name in run.conditions]
        return [value if name == "precision" else _named(name, value) for name, value in shown if value != _USUAL_LOAD]
    units = dict.fromkeys(figure.per for figure in figures if figure.per != unit_of(figure.per))
    return [
        *(_named(name, value) for name, value in run.conditions.items()),
        *(f"n in {plural(visible(per))}" for per in units),
    ]


def _named(name: str, value: str) -> str:
    return _USUALLY if (name, value) == ("load", _USUAL_LOAD) else f"{name.replace('_', ' ')} {value}"


def _sources(choices: Sequence[_Choice]) -> str:
    """Write `perf_counter (latency, throughput); joblib (model_size of sklearn_fp32)`."""
    found: dict[str, dict[str, list[str]]] = {}  # source → metric → scenarios
    for choice in choices:
        for entry in choice.entries:
            figure = choice.figures.get(entry.key)
            source = figure.source if figure else entry.source
            if source:
                source = "the scenario" if source == choice.run.scenario else source
                scenarios = found.setdefault(source, {}).setdefault(entry.key[0], [])
                scenarios += [] if choice.run.scenario in scenarios else [choice.run.scenario]
    divided = Counter(metric for metrics in found.values() for metric in metrics)
    texts = {
        source: [f"{m} of {', '.join(names)}" if divided[m] > 1 else m for m, names in metrics.items()]
        for source, metrics in found.items()
    }
    return "; ".join(f"{source} ({', '.join(of)})" for source, of in texts.items())


def _section(choice: _Choice, common: Sequence[str], footnotes: Footnotes) -> Section:
    run = choice.run
    return Section(
        name=visible(run.scenario),
        ratio=choice.ratio,
        setting=visible(", ".join(text for text in choice.conditions if text not in common)),
        test=visible(title_of(run)),
        rows=tuple(_row(choice, entry, footnotes) for entry in choice.entries),
    )


def _row(choice: _Choice, entry: RowEntry, footnotes: Footnotes) -> Row:
    notes = {footnotes.number(note) for note in notes_of(choice.run, entry, exact=choice.exact)}
    return Row(
        cells=tuple(map(cells_of(choice.run, entry).__getitem__, _NAMES)),
        notes=tuple(sorted(notes)),
        tone=_tone(entry.verdicts),
    )


def _tone(verdicts: Sequence[Verdict]) -> Tone:
    """Return the worst."""
    found: set[Tone] = {"bad" if verdict.fails else _TONES.get(verdict.outcome, "plain") for verdict in verdicts}
    return "bad" if "bad" in found else "doubtful" if "doubtful" in found else "good" if "good" in found else "plain"


def _without_empty_columns(groups: Sequence[Group]) -> tuple[tuple[Column, ...], list[Group]]:
    """Leave out columns in which no row has anything to say; the last one also carries the marks of footnotes."""
    rows = [row for group in groups for section in group.sections for row in section.rows]
    used = [any(row.cells[i] for row in rows) for i in range(len(COLUMNS))]
    used[-1] |= any(row.notes for row in rows)

    if all(used):
        return COLUMNS, [*groups]

    def kept(row: Row) -> Row:
        return replace(row, cells=tuple(compress(row.cells, used)))

    def narrowed(section: Section) -> Section:
        return replace(section, rows=tuple(map(kept, section.rows)))

    return tuple(compress(COLUMNS, used)), [replace(g, sections=tuple(map(narrowed, g.sections))) for g in groups]
