"""The summary of a report: a line for each measurement, and below it only what is not well.

Every figure, with its interval, n and source, is in the table (`table.py`), which is shown when more is asked for.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, groupby
from typing import Literal, get_args

from pytest_hwperf.records.messages import Remark, Statement
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, METRICS, Metric
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Figure, Key
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import (
    counted,
    show_change,
    show_limit,
    show_measured,
    show_number,
    show_times,
    split_unit,
)
from pytest_hwperf.records.verdict import Budget, BudgetOutcome, Comparison, ComparisonOutcome, Judgement, Verdict
from pytest_hwperf.reports.footnotes import ALARMS, Footnotes, Note, unshown_remarks
from pytest_hwperf.reports.rows import IN_PAIRS, Family, RowEntry, cells_of, families, metric_of, title_of, unit_of
from pytest_hwperf.stats.advice import tightest


def verdict_counts(report: Report) -> list[str]:
    """Write `budgets: 8 passed, 1 failed` and `comparisons: 1 not comparable`."""
    verdicts = [verdict for judgement in report.judgements for verdict in judgement.verdicts]
    found = []
    for name, kind, outcomes in (
        ("budgets", Budget, get_args(BudgetOutcome)),
        ("comparisons", Comparison, get_args(ComparisonOutcome)),
    ):
        count = Counter(verdict.outcome for verdict in verdicts if isinstance(verdict.subject, kind))
        if count:
            found.append(f"{name}: " + ", ".join(f"{count[word]} {word}" for word in outcomes if count[word]))
    if report.judgements and not verdicts:
        found.append(f"{len(report.judgements)} measured only, no budget or baseline")
    return found


def skip_counts(report: Report, *, listed: bool) -> list[str]:
    """Write `1 skipped`, with the reason where skips are not listed."""
    if listed:
        return [f"{len(report.skips)} skipped"] if report.skips else []
    count = Counter(skip.reason for skip in report.skips)
    return [f"{times} skipped: {visible(reason)}" for reason, times in count.items()]


Tone = Literal["bad", "doubtful", "good", "plain"]

HEADS = ("test", "baseline", "p50", "× fastest", "change", "tightest budget", "left")
_EMPTY = ("",) * (len(HEADS) - 1)
# Outcomes that are told below a line, in this order; those that pass are seen by their counts.
_TOLD: Mapping[str, Tone] = {
    "regressed": "bad",
    "failed": "bad",
    "inconclusive": "doubtful",
    "unmeasured": "doubtful",
    "not comparable": "doubtful",
    "no baseline": "plain",
    "improved": "good",
}
_QUIET = ("regressed", "failed", "inconclusive", "unmeasured", "not comparable")
_NAMED_ONLY = ("regressed", "failed", "unmeasured", "not comparable", "no baseline")  # their numbers are elsewhere
_UNSURE = ("historical", "historical limit", "historical repeats")  # methods without a stated false-alarm rate
_NOBODY_SAVED = "no baseline"  # kind of the cause: said once for all


class Line(Record, frozen=True, kw_only=True):
    """One measurement."""

    cells: tuple[str, ...]  # one for each of `HEADS`; the name is indented below that of its test
    below: tuple[str, ...]  # what is not well, each with the marks of its footnotes
    tone: Tone


class File(Record, frozen=True, kw_only=True):
    """The tests of one file."""

    path: str
    lines: tuple[Line, ...]


class Summary(Record, frozen=True, kw_only=True):
    """All that is shown; every text is free of control characters."""

    files: tuple[File, ...]
    footnotes: tuple[str, ...]
    legend: str  # what measured the medians, "" where none is shown
    warnings: tuple[str, ...]
    counts: tuple[str, ...]
    fails: bool
    partial: bool


def summary_of(report: Report, *, quiet: bool = False) -> Summary:
    """Choose what is shown; `quiet`: only what fails or is inconclusive."""
    footnotes, medians = Footnotes(), list[Figure | Comparison]()
    ordered = sorted(families(report.judgements, report.skips), key=lambda family: _rank(family.title))
    files = []
    for path, members in groupby(ordered, key=lambda family: _place(family.title)[0]):
        lines = [line for family in members for line in _lines(family, footnotes, medians, quiet=quiet)]
        files += [File(path=visible(path), lines=tuple(lines))] if lines else []
    return Summary(
        files=tuple(files),
        footnotes=footnotes.texts(),
        legend=_legend(medians),
        warnings=(*map(visible, report.warnings), *_to_save(report)),
        counts=(*verdict_counts(report), *skip_counts(report, listed=not quiet), *unshown_remarks(report, footnotes)),
        fails=any(judgement.fails for judgement in report.judgements),
        partial=report.partial,
    )


def _place(title: str) -> tuple[str, str]:
    """Return the file of a test and its name within it."""
    path, _, name = title.partition("::")
    return path, name


def _rank(title: str) -> tuple[str, list[tuple[int, str]]]:
    """Order the tests of a file by name, numbers by size: `test_it[8]` is before `test_it[16]`."""
    path, name = _place(title)
    parts = re.split(r"0*([0-9]+)", name)
    return path, [(len(part) if number else 0, part) for part, number in zip(parts, cycle((False, True)), strict=False)]


def _lines(family: Family, footnotes: Footnotes, medians: list[Figure | Comparison], *, quiet: bool) -> Iterator[Line]:
    """Yield a line for a test, or a head with a line for each of its scenarios."""
    name = _place(family.title)[1] or family.title
    chosen = [
        one for one in family.judgements if not quiet or any(v.outcome in _QUIET or v.fails for v in one.verdicts)
    ]
    skips = [] if quiet else family.skips
    alone = len(family.judgements) + len(family.skips) == 1
    if (chosen or skips) and not alone:
        yield Line(cells=(visible(name), *_EMPTY), below=(), tone="plain")
    for judgement in chosen:
        own = name if alone else f"  {judgement.run.scenario or _place(title_of(judgement.run))[1]}"
        yield _line(judgement, visible(own), family.best, footnotes, medians)
    for skip in skips:
        cells = (visible(name if alone else f"  {skip.scenario}"), *_EMPTY)
        yield Line(cells=cells, below=(visible(f"skipped: {skip.reason}"),), tone="plain")


def _is_told(judgement: Judgement) -> bool:
    """Whether something of it fails or is open."""
    return any(verdict.outcome in _QUIET or verdict.fails for verdict in judgement.verdicts)


def _figures(judgement: Judgement) -> dict[Key, Figure]:
    return {figure.key: figure for figure in judgement.figures}


def _line(
    judgement: Judgement, name: str, fastest: float | None, footnotes: Footnotes, medians: list[Figure | Comparison]
) -> Line:
    figures = _figures(judgement)
    figure = figures.get(MEDIAN_LATENCY)
    comparison = next((one for one in judgement.comparisons if one.key == MEDIAN_LATENCY and one.change), None)
    median = comparison if comparison and not (figure and comparison.is_of(figure)) else figure
    medians += [median] if median else []
    below, tone = _told(judgement, figures, footnotes)
    alarms = _alarms(judgement)
    return Line(
        cells=(name, *_median(comparison, figure, fastest), *_tightest(judgement)),
        below=(*below, *_left_out(judgement), *alarms, *_others(judgement, shown=median is not None)),
        tone="doubtful" if alarms and tone != "bad" else tone,
    )


def _alarms(judgement: Judgement) -> list[str]:
    """Return what was found without being asked for, and is no doubt about a value: said once, and never left out."""
    warnings = (warning for sample in judgement.run.samples for warning in sample.warnings)
    found = (one for one in warnings if isinstance(one, Statement) and one.kind in ALARMS)
    return [visible(str(one)) for one in dict.fromkeys(found)]


def _left_out(judgement: Judgement) -> list[str]:
    """Say of a test that no pair has measured why none was needed."""
    return [f"equivalent: {one.reason}" for one in judgement.comparisons if one.is_left_out][:1]


def _median(comparison: Comparison | None, figure: Figure | None, fastest: float | None) -> tuple[str, ...]:
    """Write the median of the baseline, that of the candidate, and the change: all three of the same processes.

    Before the change stands the median of the judged run over that of the test's fastest scenario.
    """
    ratio = show_number(figure.estimate.value / fastest) if figure and fastest else ""
    if comparison and comparison.change and comparison.baseline is not None and comparison.candidate is not None:
        change = show_change(comparison.change.value, comparison.scale)
        return show_measured(comparison.baseline, "s"), show_measured(comparison.candidate, "s"), ratio, change
    return "", show_measured(figure.estimate.value, "s") if figure else "", ratio, ""


def _tightest(judgement: Judgement) -> tuple[str, str]:
    """Write what the budget with the least head-room judges, `p95 18.1 of 50 ms`, and what is left of its limit."""
    found = tightest(judgement)
    if found is None:
        return "", ""
    metric = metric_of(judgement.run, found.budget.metric)
    limit = show_limit(found.budget.limit, metric.unit, "lower").removeprefix("<= ")
    (number, unit), (_, of) = split_unit(show_measured(found.value, metric.unit)), split_unit(limit)
    value = f"{number}{'' if unit == of else unit} of {limit}"
    return visible(f"{_named(metric, found.budget.statistic)} {value}").removeprefix("latency "), _share(found.share)


def _share(left: float) -> str:
    if math.isinf(left):
        return "over" if left < 0 else "all"
    return f"{100 * left:.0f} %" if left > -1 else f"{show_times(1 - left)} over"


def _named(metric: Metric, statistic: str) -> str:
    return metric.called(statistic).replace(statistic, statistic.replace("_", "."))


def _told(judgement: Judgement, figures: Mapping[Key, Figure], footnotes: Footnotes) -> tuple[list[str], Tone]:
    """Say what is not well or better than before, an outcome a line, and how bad it is at worst."""
    by_outcome: dict[str, list[Verdict]] = {}
    for verdict in judgement.verdicts:
        if verdict.outcome in _TOLD and not _is_unsaved(verdict.subject):
            by_outcome.setdefault(verdict.outcome, []).append(verdict)
    texts, tones = list[str](), {"bad"} if judgement.fails else set[str]()
    for outcome in (one for one in _TOLD if one in by_outcome):
        verdicts = by_outcome[outcome]
        said = (", " if outcome in _NAMED_ONLY else "; ").join(_said(judgement, one, figures) for one in verdicts)
        fails = " (fails)" if outcome not in ("failed", "regressed") and any(v.fails for v in verdicts) else ""
        notes = (note for verdict in verdicts for note in _notes(judgement, verdict, figures))
        marks = sorted({footnotes.number(note) for note in notes})
        mark = f" [{','.join(map(str, marks))}]" if marks else ""
        texts.append(f"{outcome}{fails}: {said}{mark}")
        tones.add(_TOLD[outcome])
    worst: Sequence[Tone] = ("bad", "doubtful", "good")
    return texts, next((tone for tone in worst if tone in tones), "plain")


def _is_unsaved(subject: Budget | Comparison) -> bool:
    """Whether nobody has saved a baseline yet, which one line says for all tests."""
    return isinstance(subject, Comparison) and subject.cause is not None and subject.cause.kind == _NOBODY_SAVED


def _said(judgement: Judgement, verdict: Verdict, figures: Mapping[Key, Figure]) -> str:
    """Name what a verdict is about; with its numbers where they stand nowhere else."""
    subject, metric = verdict.subject, metric_of(judgement.run, verdict.subject.metric)
    name = visible(_named(metric, subject.statistic))
    if verdict.outcome in _NAMED_ONLY:
        return name
    compared = subject if isinstance(subject, Comparison) else None
    entry = RowEntry(
        key=subject.key, name=name, figure=figures.get(subject.key), verdicts=[verdict], comparison=compared
    )
    cells = cells_of(judgement.run, entry)
    if compared:
        return f"{name} {cells['change']}".rstrip()
    return f"{name} {cells['value']}, limit {cells['budget'].removeprefix('<= ')}"


def _notes(judgement: Judgement, verdict: Verdict, figures: Mapping[Key, Figure]) -> Iterator[Note]:
    """Yield why something is inconclusive or has no answer."""
    subject = verdict.subject
    remarks: list[Remark | None] = [*verdict.decided_by]
    if isinstance(subject, Comparison):
        metric = metric_of(judgement.run, subject.metric)
        caught = subject.caught(metric.better)
        moved = subject.moved if verdict.outcome == "improved" else None
        unsure = subject.method if subject.method and subject.method.kind in _UNSURE else None
        remarks += [subject.cause, caught, subject.disturbance, moved, unsure]
    elif verdict.outcome == "unmeasured":
        remarks.append(verdict.cause or verdict.reason)
    elif verdict.outcome == "inconclusive" and (figure := figures.get(subject.key)):
        remarks += figure.estimate.warnings
    yield from (Note(parts=(remark,), alike=True) for remark in remarks if remark is not None)


def _others(judgement: Judgement, *, shown: bool) -> Iterator[str]:
    """Yield what a test recorded itself; where nothing else is shown of it, what was measured instead of a latency."""
    texts = []
    for figure in judgement.figures:
        metric = metric_of(judgement.run, figure.metric)
        own = figure.metric not in METRICS and not figure.metric.startswith("stage_")
        if own or (not shown and figure.statistic in metric.shown):
            entry = RowEntry(key=figure.key, name="", figure=figure)
            called = metric.name if figure.statistic == metric.statistics[0] else f"{metric.name} {figure.statistic}"
            texts.append(f"{visible(called)} {cells_of(judgement.run, entry)['value']}")
    if texts:
        yield ", ".join(texts)


def _legend(medians: Sequence[Figure | Comparison]) -> str:
    """Say what measured the medians, and how often: `p50: perf_counter, 316 .. 2545 calls; …`."""
    counts: dict[tuple[str, str], list[int]] = {}
    for one in medians:
        if isinstance(one, Figure):
            counts.setdefault((one.source, unit_of(one.per)), []).append(one.estimate.n)
        else:
            counts.setdefault((IN_PAIRS, unit_of(one.per)), []).append(one.pairs)
    texts = [
        f"{source}, {f'{min(ns)} .. ' if min(ns) < max(ns) else ''}{counted(max(ns), per)}"
        for (source, per), ns in counts.items()
    ]
    return visible(f"p50: {'; '.join(texts)}") if texts else ""


def _to_save(report: Report) -> list[str]:
    """Say what to do where nobody has saved a baseline."""
    unsaved = {judgement.run.test for judgement in report.judgements if any(map(_is_unsaved, judgement.comparisons))}
    if not unsaved:
        return []
    have = "has" if len(unsaved) == 1 else "have"
    without = f"{counted(len(unsaved), 'test')} {have} no baseline to compare with"
    failing = "" if report.policy.strict else "; --hwperf-strict fails them"
    return [f"{without}: save one with pytest --hwperf-save{failing}"]
