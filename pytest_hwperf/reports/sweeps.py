"""A sweep as lines of text: a row for each point, then the best point for each goal."""

from collections.abc import Iterator, Mapping, Sequence

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.records import Figure, figure_of
from pytest_hwperf.core.sweeps import SHOWN, Best, Goal, Sweep, SweepRow
from pytest_hwperf.core.units import counted, show, show_interval, show_limit

_GOALS: Mapping[Goal, str] = {
    "latency": "lowest latency",
    "throughput": "highest throughput",
    "energy": "lowest energy",
}
_GAP, _INDENT = "  ", "  "


def lines_of(sweep: Sweep) -> list[str]:
    """Draw a sweep without its notes; what it quotes shows nothing that a terminal obeys."""
    lines = [f"sweep of {sweep.name}", *_grid(sweep.rows), *_limits(sweep), *_answers(sweep)]
    return [visible(line) for line in (lines[0], *(f"{_INDENT}{line}" for line in lines[1:]))]


def notes_of(sweeps: Sequence[Sweep]) -> list[str]:
    """Say what has to be known of sweeps, each note once."""
    return [f"note: {visible(text)}" for text in dict.fromkeys(str(note) for sweep in sweeps for note in sweep.notes)]


def name_of(row: SweepRow, among: Sequence[SweepRow]) -> str:
    """Name a point, with its scenario where there are several."""
    several = len({other.point.scenario for other in among}) > 1
    return ", ".join(filter(None, [row.point.scenario if several else "", row.point.named]))


def _grid(rows: Sequence[SweepRow]) -> Iterator[str]:
    """Yield a line for each point; a column in which no point has anything to say is left out."""
    columns = {name: [cells[name] for cells in map(_cells, rows)] for name in _cells(rows[0])} if rows else {}
    used = {name: cells for name, cells in columns.items() if any(cells)}
    widths = {name: max(map(len, [name, *cells])) for name, cells in used.items()}
    yield _GAP.join(name.rjust(widths[name]) for name in used).rstrip()
    for position, row in enumerate(rows):
        line = _GAP.join(cells[position].rjust(widths[name]) for name, cells in used.items()).rstrip()
        why = row.point.skipped
        yield f"{line}{_GAP}skipped: {why}" if why else line if row.figures else f"{line}{_GAP}not measured"


def _cells(row: SweepRow) -> dict[str, str]:
    point = row.point
    figures = {title: figure_of(row.figures, key) for key, title in SHOWN.items()}
    return {
        "scenario": point.scenario,
        **{name: str(value) for name, value in point.values.items()},
        **{title: _value(figure) if figure else "" for title, figure in figures.items()},
        "fill delay": "" if point.fill_s is None else show(point.fill_s, "s"),
        "n": _counts(row),
        "limits": row.outcome or "",
    }


def _value(figure: Figure) -> str:
    return show(figure.estimate.value, metric_of(figure.metric).unit)


def _counts(row: SweepRow) -> str:
    """Count what the latency was taken from."""
    latency = figure_of(row.figures, ("latency", "p95")) or next(iter(row.figures), None)
    return counted(latency.estimate.n, latency.per) if latency else ""


def _limits(sweep: Sweep) -> Iterator[str]:
    limits = {limit.key: limit for row in sweep.rows for limit in row.point.limits}
    texts = []
    for limit in limits.values():
        metric = metric_of(limit.metric)
        texts.append(f"{limit.metric} {limit.statistic} {show_limit(limit.limit, metric.unit, metric.better)}")
    if texts:
        filled = any(row.point.fill_s is not None for row in sweep.rows)
        yield f"limits: {', '.join(texts)}{'; of latencies, with the fill delay' if filled else ''}"
    sources = {figure.source: None for row in sweep.rows for figure in row.figures if figure.key in SHOWN}
    if sources:
        yield f"sources: {', '.join(sources)}"


def _answers(sweep: Sweep) -> Iterator[str]:
    yield from (f"{_GOALS[best.goal]}: {_best(best, sweep.rows)}" for best in sweep.best)
    measured = [row for row in sweep.rows if row.is_measured]
    if measured and not any(row.is_eligible for row in measured):
        outcomes = [str(row.outcome) for row in measured]
        found = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(outcomes))
        yield f"no point is known to keep the limits: {found}"


def _best(best: Best, rows: Sequence[SweepRow]) -> str:
    first, *others = [rows[position] for position in best.rows]
    figure = figure_of(first.figures, (best.metric, best.statistic))
    shown = f"{name_of(first, rows)}: {_with_interval(figure)}" if figure else name_of(first, rows)
    if not others:
        return shown
    return f"{shown}; it cannot be told apart from {'; '.join(name_of(other, rows) for other in others)}"


def _with_interval(figure: Figure) -> str:
    estimate, unit = figure.estimate, metric_of(figure.metric).unit
    estimated = ", an estimate" if figure.estimated else ""
    shown = show_interval(estimate.value, estimate.low, estimate.high, unit)
    return f"{figure.metric} {figure.statistic} {shown}, n={counted(estimate.n, figure.per)}{estimated}"
