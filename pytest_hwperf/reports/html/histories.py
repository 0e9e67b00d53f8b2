"""Charts of series over time: of each measurement of a report, with its run at their end, and a page of their own."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Key
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, scale_for, show_change_interval, show_number
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.reports.html.assets import as_json, embedded, written
from pytest_hwperf.reports.html.details import rounded
from pytest_hwperf.stats.history import FEWEST_DRAWN, Annotation, Series, Trend, trend_of, with_run

Plain = dict[str, Any]
Measured = tuple[str, str]  # test and label
# Reads the series of some tests, of so many of their newest runs, and all notes.
Reader = Callable[[Sequence[Measured], int], tuple[Sequence[Series], Sequence[Annotation]]]

_DIGITS = 10  # of a commit
_MOST_READ = 200  # measurements whose history is read
_MOST_RUNS = 60  # of a chart, the newest
_MOST_BYTES = 4_000_000  # of all charts
_LEGEND = (
    "A point is the value of a run with its interval; an empty one was not accepted. Dashed: a change of level, with "
    "the runs at which it may have begun (95 %). Triangle: a note."
)


def render(trends: Sequence[Trend], baseline: str) -> bytes:
    """Write the page of `hwperf history`; series of a test follow each other."""
    tests, charts = list[str](), list[list[Plain]]()
    for (test, label), group in groupby(trends, lambda one: (one.series.test, one.series.label)):
        tests.append(visible(f"{test} {label}".rstrip()))
        charts.append([_chart(trend) for trend in group])
    values = {"baseline": visible(baseline), "legend": _LEGEND, "tests": tests}
    return written("history", charts=embedded(as_json(charts)), **values)


def add_histories(
    report: Report, order: Sequence[int], keys: Mapping[int, Collection[Key]], found: Sequence[Plain], read: Reader
) -> str:
    """Add the charts of each measurement, and return a sentence on those that were left out, "" where none was.

    A statistic of the table has one chart for each machine with at least three earlier runs, and one for its changes
    from a release.
    """
    chosen = [report.judgements[place] for place in order[:_MOST_READ]]
    series, notes = read([(one.run.test, one.run.label) for one in chosen], _MOST_RUNS)
    by_test: dict[Measured, list[Series]] = {}
    for one in series:
        by_test.setdefault((one.test, one.label), []).append(one)
    room, left_out = _MOST_BYTES, max(0, len(order) - _MOST_READ) if series else 0
    for place in order[:_MOST_READ]:
        judgement = report.judgements[place]
        past = by_test.get((judgement.run.test, judgement.run.label), [])
        charts = [*_charts(report, judgement, [one for one in past if one.key in keys[place]], notes)]
        room -= len(json.dumps(charts)) if charts else 0
        if charts and room >= 0:
            found[place]["history"] = charts
        left_out += bool(charts) and room < 0
    if not left_out:
        return ""
    return (
        f"The history of {counted(left_out, 'measurement')} is not shown, in the order of the table from its end: "
        "hwperf history TEST shows it."
    )


def _charts(
    report: Report, judgement: Judgement, past: Sequence[Series], notes: Sequence[Annotation]
) -> Iterator[Plain]:
    run = judgement.run
    for series in sorted(past, key=lambda one: (one.machine.fingerprint != run.machine.fingerprint, one.anchor)):
        if sum(one.started_at != run.started_at for one in series.values) < FEWEST_DRAWN:
            continue
        line = with_run(series, judgement, report.gates)
        is_now = line.values[-1].started_at == run.started_at
        where = "this machine" if series.machine.fingerprint == run.machine.fingerprint else "another machine"
        chart = _chart(trend_of(line, notes))
        yield {
            **chart,
            "title": f"History: {chart['title']}, {where}",
            "says": f"{chart['says']} {'The last one, larger, is this run. ' * is_now}{_LEGEND}",
            "now": is_now,
        }


def _chart(trend: Trend) -> Plain:
    """Return a series as the script draws it, in the unit in which its largest value reads well."""
    series, values = trend.series, trend.series.values
    metric = metric_of(series.metric, series.better)
    factor, unit = scale_for(metric.unit, max(abs(one.estimate.value) for one in values))
    if series.anchor:
        factor, unit = 0.01, "%"
    called, against = metric.called(series.statistic.replace("_", ".")), f", change from {series.anchor[:_DIGITS]}"
    newest = f"{show_number(values[-1].estimate.value / factor, 4)} {unit}".rstrip()
    places = {one.revision: place for place, one in enumerate(values)}
    return {
        "metric": visible(called),
        "title": visible(f"{called}{against * bool(series.anchor)}"),
        "says": f"{_facts(trend)}; the newest: {newest}.",
        "unit": unit,
        "rows": [*_rows(series, factor)],
        "changes": [[one.place, one.earliest, one.latest] for one in trend.changes],
        "marks": [[places[note.revision], visible(note.text)] for note in trend.notes],
        "notes": [*_remarks(trend)],
    }


def _rows(series: Series, factor: float) -> Iterator[Sequence[Any]]:
    """Yield what chart and table say of each run."""
    for one in series.values:
        estimate = one.estimate
        code = f"{visible(one.revision[:_DIGITS]) or 'no commit'}{'+changes' * one.changed}"
        ends = (estimate.value, estimate.low, estimate.high)
        shown = [None if end is None else rounded(end / factor) for end in ends]
        yield [visible(one.started_at), code, *shown, estimate.n, one.accepted]


def _facts(trend: Trend) -> str:
    """Say what a series was measured by, on which machine, how long it is, and whether its level changed."""
    series = trend.series
    machine = f"machine {series.machine.fingerprint} ({series.machine.cpu_model})"
    changes = f"{counted(len(trend.changes), 'change')} of level"
    found = "too few to look for changes" if trend.is_too_short else changes
    return visible(f"{series.source or 'pairs'}, {machine}: {counted(len(series.values), 'run')}, {found}")


def _remarks(trend: Trend) -> Iterator[str]:
    """Yield a sentence on each change of level, and the notes."""
    for one in trend.changes:
        shift = one.shift
        yield visible(
            f"Changed by {show_change_interval(shift.value, shift.low, shift.high, trend.scale)} between "
            f"{one.before[:_DIGITS] or 'no commit'} and {one.revision[:_DIGITS] or 'no commit'}, p={one.p_value:.2g}, "
            f"n={shift.n} runs; {shift.method}."
        )
    yield from (visible(f"{note.revision[:_DIGITS]}: {note.text}") for note in trend.notes)
