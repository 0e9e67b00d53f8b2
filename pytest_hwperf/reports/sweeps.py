"""A sweep as a document: a row for each point, then the best point for each goal."""

from collections.abc import Iterator, Mapping, Sequence

from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.report import Best, Goal, Sweep, SweepRow
from pytest_hwperf.records.run import figure_of
from pytest_hwperf.records.units import counted, show, show_interval, show_limit, show_measured
from pytest_hwperf.reports.document import Block, Grid, Paragraph
from pytest_hwperf.stats.choice.sweeps import SHOWN

_GOALS: Mapping[Goal, str] = {
    "latency": "lowest latency",
    "throughput": "highest throughput",
    "energy": "lowest energy",
}


def document_of(sweep: Sweep) -> Iterator[Block]:
    """Yield what is shown of a sweep without its notes: a row for each point, then the best for each goal."""
    yield Paragraph(f"sweep of {sweep.name}")
    yield _grid(sweep.rows)
    limits = {limit.key: (limit, metric_of(limit.metric)) for row in sweep.rows for limit in row.point.limits}
    if texts := [
        f"{limit.metric} {limit.statistic} {show_limit(limit.limit, metric.unit, metric.better)}"
        for limit, metric in limits.values()
    ]:
        filled = any(row.point.fill_s is not None for row in sweep.rows)
        yield Paragraph(f"limits: {', '.join(texts)}{'; of latencies, with the fill delay' if filled else ''}", 1)
    sources = {figure.source: None for row in sweep.rows for figure in row.figures if figure.key in SHOWN}
    if sources:
        yield Paragraph(f"sources: {', '.join(sources)}", 1)
    yield from (Paragraph(f"{_GOALS[best.goal]}: {_best(best, sweep.rows)}", 1) for best in sweep.best)
    measured = [row for row in sweep.rows if row.is_measured]
    if measured and not any(row.is_eligible for row in measured):
        outcomes = [str(row.outcome) for row in measured]
        found = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(outcomes))
        yield Paragraph(f"no point is known to keep the limits: {found}", 1)


def notes_of(sweeps: Sequence[Sweep]) -> list[Paragraph]:
    """Say what has to be known of sweeps, each note once."""
    return [Paragraph(f"note: {note}") for note in dict.fromkeys(str(note) for sweep in sweeps for note in sweep.notes)]


def name_of(row: SweepRow, among: Sequence[SweepRow]) -> str:
    """Name a point, with its scenario where there are several."""
    several = len({other.point.scenario for other in among}) > 1
    return ", ".join(filter(None, [row.point.scenario if several else "", row.point.named]))


def _grid(rows: Sequence[SweepRow]) -> Grid:
    """Return a row for each point: its values and figures, or why there are none."""
    points = list(dict.fromkeys(name for row in rows for name in row.point.values))
    cells = list[list[str]]()
    for row in rows:
        point = row.point
        named = [point.scenario, *(str(point.values.get(name, "")) for name in points)]
        why = f"skipped: {point.skipped}" if point.skipped else "not measured"
        latency = figure_of(row.figures, ("latency", "p95")) or next(iter(row.figures), None)
        if latency is None:
            cells.append([*named, why])
            continue
        found = (figure_of(row.figures, key) for key in SHOWN)
        shown = (show_measured(one.estimate.value, metric_of(one.metric).unit) if one else "" for one in found)
        fill = "" if point.fill_s is None else show(point.fill_s, "s")
        cells.append([*named, *shown, fill, counted(latency.estimate.n, latency.per), row.outcome or ""])
    columns = ["scenario", *points, *SHOWN.values(), "fill delay", "n", "limits"]
    return Grid(columns, cells, first=1 + len(points))


def _best(best: Best, rows: Sequence[SweepRow]) -> str:
    first, *others = [rows[position] for position in best.rows]
    figure = figure_of(first.figures, (best.metric, best.statistic))
    told = name_of(first, rows)
    if figure:
        estimate, unit = figure.estimate, metric_of(figure.metric).unit
        shown = show_interval(estimate.value, estimate.low, estimate.high, unit)
        told += f": {figure.metric} {figure.statistic} {shown}, n={counted(estimate.n, figure.per)}"
        told += ", an estimate" if figure.estimated else ""
    return "; it cannot be told apart from ".join(filter(None, [told, "; ".join(name_of(one, rows) for one in others)]))
