"""The history of tests on the page of a report: charts of stored runs, at whose end this run stands."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.history import Annotation, Series
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.past import FEWEST, with_run
from pytest_hwperf.core.records import Judgement, Key
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.trends import trend_of
from pytest_hwperf.core.units import counted
from pytest_hwperf.reports.history_chart import LEGEND, chart_of, facts_of, remarks_of, title_of

Plain = dict[str, Any]
Measured = tuple[str, str]  # test and label
# Reads the series of some tests, of so many of their newest runs, and all notes.
Reader = Callable[[Sequence[Measured], int], tuple[Sequence[Series], Sequence[Annotation]]]

_MOST_READ = 200  # measurements whose history is read
_MOST_RUNS = 60  # of a chart, the newest
_MOST_BYTES = 4_000_000  # of all charts


def add_histories(
    report: Report, order: Sequence[int], keys: Mapping[int, Collection[Key]], found: Sequence[Plain], read: Reader
) -> str:
    """Add the charts of each measurement, and return a sentence on those that were left out, "" where none was.

    A statistic of the table has one chart for each machine with at least three earlier runs, and one for its changes
    from a release.

    Args:
        report: whose runs end the series.
        order: places of measurements, the most telling first.
        keys: place → the statistics that the table shows.
        found: what the page knows of each measurement.
        read: reads the store.
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
        if sum(one.started_at != run.started_at for one in series.values) < FEWEST:
            continue
        line = with_run(series, judgement, report.gates)
        ends_now = line.values[-1].started_at == run.started_at
        trend = trend_of(line, notes)
        called = metric_of(series.metric, series.better).called(series.statistic.replace("_", "."))
        where = "this machine" if series.machine.fingerprint == run.machine.fingerprint else "another machine"
        yield {
            "metric": visible(called),
            "title": f"History: {title_of(trend)}, {where}",
            "says": f"{facts_of(trend)}. {'The last one, larger, is this run. ' * ends_now}{LEGEND}",
            "notes": [*remarks_of(trend)],
            "chart": chart_of(trend, run.started_at),
            "values": [*_values(line)],
        }


def _values(line: Series) -> Iterator[Sequence[Any]]:
    """Yield what the table beside a chart says of each run."""
    for one in line.values:
        estimate = one.estimate
        code = f"{visible(one.revision[:12])}{'+changes' * one.changed}"
        ends = (estimate.value, estimate.low, estimate.high)
        shown = [None if end is None else float(f"{end:.4g}") for end in ends]
        yield [visible(one.started_at), code, *shown, "yes" if one.accepted else "no"]
