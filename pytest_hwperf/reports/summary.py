"""The summary of a report: a line for each measurement, and below it what is not well.

A line shows the median and the change of it, the tightest budget and what is left of it. What fails, is inconclusive,
has no answer or got better is told below, with the reasons as footnotes. Everything else is in the table of the report.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle, groupby
from typing import get_args

from pytest_hwperf.records import units
from pytest_hwperf.records.messages import Remark, Statement
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS, is_stage
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Figure, figure_of
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.verdict import Budget, BudgetOutcome, Comparison, ComparisonOutcome, Judgement
from pytest_hwperf.reports import rows
from pytest_hwperf.reports.rows import TOLD, Row
from pytest_hwperf.reports.table import ALARMS, Family, Footnotes, Line, Note, families, marked
from pytest_hwperf.stats.choice.advice import tightest

HEADS = ("test", "baseline", "p50", "× fastest", "change", "tightest budget", "left")
_EMPTY = ("",) * (len(HEADS) - 1)
_NAMED_ONLY = ("regressed", "failed", "unmeasured", "not comparable", "no baseline")  # their numbers are elsewhere


class Summary(Record, frozen=True, kw_only=True):
    """What is shown of all tests; every text is free of control characters."""

    files: tuple[tuple[str, tuple[Line, ...]], ...]  # path and the tests in it; a name is indented below its test
    footnotes: tuple[str, ...]
    legend: str  # what measured the medians, "" where none is shown
    warnings: tuple[str, ...]
    counts: tuple[str, ...]


def summary_of(report: Report, *, quiet: bool = False) -> Summary:
    """Choose what is shown; `quiet`: only what fails or is inconclusive."""
    footnotes, medians = Footnotes(), list[Figure | Comparison]()
    ordered = sorted(families(report.judgements, report.skips), key=lambda family: _rank(family.title))
    files = list[tuple[str, tuple[Line, ...]]]()
    for path, members in groupby(ordered, key=lambda family: family.title.partition("::")[0]):
        lines = tuple(line for family in members for line in _lines(family, footnotes, medians, quiet=quiet))
        files += [(visible(path), lines)] if lines else []
    warnings = [*map(visible, report.warnings)]
    if unsaved := {one.run.test for one in report.judgements if any(map(_is_unsaved, one.comparisons))}:
        tests = f"{units.counted(len(unsaved), 'test')} {'has' if len(unsaved) == 1 else 'have'}"
        warnings.append(f"{tests} no baseline to compare with: save one with pytest --hwperf-save")
    return Summary(
        files=tuple(files),
        footnotes=footnotes.texts(),
        legend=_legend(medians),
        warnings=tuple(warnings),
        counts=(*counts_of(report, listed=not quiet), *footnotes.lacking(report)),
    )


def counts_of(report: Report, *, listed: bool) -> Iterator[str]:
    """Yield `budgets: 8 passed, 1 failed`, `comparisons: 1 not comparable` and how much was skipped.

    All outcomes are units.counted, shown or not; the reason of a skip is given where skips are not `listed`.
    """
    verdicts = [verdict for judgement in report.judgements for verdict in judgement.verdicts]
    for name, kind, outcomes in (
        ("budgets", Budget, get_args(BudgetOutcome)),
        ("comparisons", Comparison, get_args(ComparisonOutcome)),
    ):
        count = Counter(verdict.outcome for verdict in verdicts if isinstance(verdict.subject, kind))
        if count:
            yield f"{name}: " + ", ".join(f"{count[word]} {word}" for word in outcomes if count[word])
    if report.judgements and not verdicts:
        yield f"{len(report.judgements)} measured only, no budget or baseline"
    if listed:
        yield from [f"{len(report.skips)} skipped"] if report.skips else []
    else:
        yield from skip_counts(report)


def skip_counts(report: Report) -> list[str]:
    """Write how many were skipped for each reason."""
    count = Counter(skip.reason for skip in report.skips)
    return [f"{times} skipped: {visible(reason)}" for reason, times in count.items()]


def _rank(title: str) -> tuple[str, list[tuple[int, str]]]:
    """Order the tests of a file by name, numbers by size: `test_it[8]` is before `test_it[16]`."""
    path, _, name = title.partition("::")
    parts = re.split(r"0*([0-9]+)", name)
    return path, [(len(part) if number else 0, part) for part, number in zip(parts, cycle((False, True)), strict=False)]


def _lines(family: Family, footnotes: Footnotes, medians: list[Figure | Comparison], *, quiet: bool) -> Iterator[Line]:
    """Yield a line for a test, or a head with a line for each of its scenarios."""
    name = family.title.partition("::")[2] or family.title
    chosen = [one for one in family.judgements if not quiet or any(map(rows.is_open, one.verdicts))]
    skips = [] if quiet else family.skips
    alone = len(family.judgements) + len(family.skips) == 1
    if (chosen or skips) and not alone:
        yield Line(cells=(visible(name), *_EMPTY), tone="plain")
    for judgement in chosen:
        own = name if alone else f"  {judgement.run.scenario or rows.title_of(judgement.run).partition('::')[2]}"
        yield _line(judgement, visible(own), family.best, footnotes, medians)
    for skip in skips:
        cells = (visible(name if alone else f"  {skip.scenario}"), *_EMPTY)
        yield Line(cells=cells, below=(visible(f"skipped: {skip.reason}"),), tone="plain")


def _line(
    judgement: Judgement, name: str, fastest: float | None, footnotes: Footnotes, medians: list[Figure | Comparison]
) -> Line:
    """Write a measurement: the medians of baseline and candidate and their change are of the same processes.

    Before the change stands the median of the judged run over that of the test's fastest scenario.
    """
    figure = figure_of(judgement.figures, MEDIAN_LATENCY)
    comparison = next((one for one in judgement.comparisons if one.key == MEDIAN_LATENCY and one.change), None)
    median = comparison if comparison and not (figure and comparison.is_of(figure)) else figure
    medians += [median] if median else []
    before, now, change = "", units.show_measured(figure.estimate.value, "s") if figure else "", ""
    if comparison and comparison.change and comparison.baseline is not None and comparison.candidate is not None:
        before, now = units.show_measured(comparison.baseline, "s"), units.show_measured(comparison.candidate, "s")
        change = units.show_change(comparison.change.value, comparison.scale)
    ratio = units.show_number(figure.estimate.value / fastest) if figure and fastest else ""
    told = [*_told(judgement, footnotes)]
    # What was found without being asked for, and is no doubt about a value: said once, and never left out.
    warnings = (warning for sample in judgement.run.samples for warning in sample.warnings)
    found = (one for one in warnings if isinstance(one, Statement) and one.kind in ALARMS)
    alarms = [visible(str(one)) for one in dict.fromkeys(found)]
    left_out = [f"equivalent: {one.reason}" for one in judgement.comparisons if one.is_left_out][:1]
    tone = rows.tone_of(judgement.verdicts)
    return Line(
        cells=(name, before, now, ratio, change, *_tightest(judgement)),
        below=(*told, *left_out, *alarms, *_others(judgement, shown=median is not None)),
        tone="doubtful" if alarms and tone != "bad" else tone,
    )


def _tightest(judgement: Judgement) -> tuple[str, str]:
    """Write what the budget with the least head-room judges, `p95 18.1 of 50 ms`, and what is left of its limit."""
    found = tightest(judgement)
    if found is None:
        return "", ""
    row, left = rows.row_of(judgement, found.verdict), found.share
    limit = units.show_limit(found.budget.limit, row.metric.unit, "lower").removeprefix("<= ")
    (number, unit), (_, of) = (
        units.split_unit(units.show_measured(found.value, row.metric.unit)),
        units.split_unit(limit),
    )
    value = f"{row.name} {number}{'' if unit == of else unit} of {limit}".removeprefix("latency ")
    if math.isinf(left):
        return value, "over" if left < 0 else "all"
    return value, units.show_share(left, 0) if left > -1 else f"{units.show_times(1 - left)} over"


def _told(judgement: Judgement, footnotes: Footnotes) -> Iterator[str]:
    """Yield what is not well or better than before, an outcome a line, each with the marks of its footnotes."""
    for outcome in TOLD:
        alike = [one for one in judgement.verdicts if one.outcome == outcome and not _is_unsaved(one.subject)]
        found = [rows.row_of(judgement, verdict) for verdict in alike]
        said = list[str]()
        for row in found:
            if outcome in _NAMED_ONLY:
                said.append(row.name)
            elif row.comparison:
                said.append(f"{row.name} {row.change}".rstrip())
            else:
                said.append(f"{row.name} {row.value}, limit {row.limit.removeprefix('<= ')}")
        if found:
            fails = " (fails)" if outcome not in ("failed", "regressed") and any(row.fails for row in found) else ""
            marks = marked(footnotes.numbers(note for row in found for note in _notes(row)))
            text = (", " if outcome in _NAMED_ONLY else "; ").join(said)
            yield f"{outcome}{fails}: {text} {marks}".rstrip()


def _is_unsaved(subject: Budget | Comparison) -> bool:
    """Whether nobody has saved a baseline yet, which one line says for all tests."""
    return isinstance(subject, Comparison) and subject.cause is not None and subject.cause.kind == "no baseline"


def _notes(row: Row) -> Iterator[Note]:
    """Yield why something is inconclusive or has no answer."""
    verdict, subject = row.verdict, row.verdict.subject
    remarks: list[Remark | None] = [*verdict.decided_by]
    if isinstance(subject, Comparison):
        moved = subject.moved if verdict.outcome == "improved" else None
        unsure = subject.method if subject.is_historical else None
        remarks += [subject.cause, subject.caught(row.metric.better), subject.disturbance, moved, unsure]
    elif verdict.outcome == "unmeasured":
        remarks.append(verdict.cause or verdict.reason)
    elif verdict.outcome == "inconclusive" and row.figure:
        remarks += row.figure.estimate.warnings
    yield from (Note((remark,), alike=True) for remark in remarks if remark is not None)


def _others(judgement: Judgement, *, shown: bool) -> Iterator[str]:
    """Yield what a test recorded itself; where nothing else is shown of it, what was measured instead of a latency."""
    texts = list[str]()
    for figure in judgement.figures:
        metric = rows.metric_of(judgement.run, figure.metric)
        own = figure.metric not in METRICS and not is_stage(figure.metric)
        if own or (not shown and figure.statistic in metric.shown):
            usual = figure.statistic == metric.statistics[0]
            called = figure.metric if usual else f"{figure.metric} {figure.statistic}"
            texts.append(f"{visible(called)} {rows.figure_row(judgement, figure).value}")
    if texts:
        yield ", ".join(texts)


def _legend(medians: Sequence[Figure | Comparison]) -> str:
    """Say what measured the medians, and how often: `p50: perf_counter, 316 .. 2,545 calls; …`."""
    counts: dict[tuple[str, str], list[int]] = {}
    for one in medians:
        source, n = (one.source, one.estimate.n) if isinstance(one, Figure) else (rows.IN_PAIRS, one.pairs)
        counts.setdefault((source, rows.unit_of(one.per)), []).append(n)
    texts = [
        f"{source}, {f'{min(ns):,} .. ' if min(ns) < max(ns) else ''}{units.counted(max(ns), per)}"
        for (source, per), ns in counts.items()
    ]
    return visible(f"p50: {'; '.join(texts)}") if texts else ""
