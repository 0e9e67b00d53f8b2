"""A sweep as lines of text for a terminal of any width: a row for each point, then the best point for each goal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Figure, figure_of
from pytest_hwperf.records.sweep import Best, Goal, Sweep, SweepRow
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted, show, show_interval, show_limit, show_measured
from pytest_hwperf.reports.wrapping import INDENT, wrapped
from pytest_hwperf.stats.sweeps import SHOWN

_GOALS: Mapping[Goal, str] = {
    "latency": "lowest latency",
    "throughput": "highest throughput",
    "energy": "lowest energy",
}
_GAP = "  "
_Column = tuple[Literal["point", "measured"], str]  # whose it is, and its head: a parameter may be named like a figure


def lines_of(sweep: Sweep, width: int) -> list[str]:
    """Draw a sweep without its notes; what it quotes shows nothing that a terminal obeys."""
    texts = [*_limits(sweep), *_answers(sweep)]
    below = [line for text in texts for line in wrapped(visible(text), width, INDENT)]
    return [visible(f"sweep of {sweep.name}"), *_grid(sweep.rows, width), *below]


def notes_of(sweeps: Sequence[Sweep], width: int) -> list[str]:
    """Say what has to be known of sweeps, each note once."""
    notes = dict.fromkeys(str(note) for sweep in sweeps for note in sweep.notes)
    return [line for text in notes for line in wrapped(f"note: {visible(text)}", width)]


def name_of(row: SweepRow, among: Sequence[SweepRow]) -> str:
    """Name a point, with its scenario where there are several."""
    several = len({other.point.scenario for other in among}) > 1
    return ", ".join(filter(None, [row.point.scenario if several else "", row.point.named]))


def _grid(rows: Sequence[SweepRow], width: int) -> Iterator[str]:
    """Yield a line for each point; a column in which no point has anything to say is left out."""
    columns = {name: [cells[name] for cells in map(_cells, rows)] for name in _cells(rows[0])} if rows else {}
    used = {name: [visible(cell) for cell in cells] for name, cells in columns.items() if any(cells)}
    names = [name for name in used if name[0] == "point"]
    widths = {name: max(map(len, [name[1], *cells])) for name, cells in used.items()}
    figures = [name for name in used if name not in names]
    for place, chosen in enumerate(_fitting(figures, widths, width - _total(names, widths))):
        yield _aligned({name: name[1] for name in used}, [*names, *chosen], widths)
        for position, row in enumerate(rows):
            cells = {name: used[name][position] for name in used}
            if row.figures:
                yield _aligned(cells, [*names, *chosen], widths)
            elif not place:
                yield from _left_out(row, _aligned(cells, names, widths), width)


def _fitting(names: Sequence[_Column], widths: Mapping[_Column, int], room: int) -> list[list[_Column]]:
    """Divide columns into tables that have room, each with one column at least."""
    tables = [list[_Column]()]
    for name in names:
        if tables[-1] and _total([*tables[-1], name], widths) > room:
            tables.append([])
        tables[-1].append(name)
    return tables


def _left_out(row: SweepRow, point: str, width: int) -> list[str]:
    """Say why a point has no figures, behind its values."""
    why = f"skipped: {row.point.skipped}" if row.point.skipped else "not measured"
    return wrapped(f"{point.strip()}{_GAP}{visible(why)}", width, point[: len(point) - len(point.lstrip())])


def _aligned(cells: Mapping[_Column, str], names: Iterable[_Column], widths: Mapping[_Column, int]) -> str:
    return INDENT + _GAP.join(cells[name].rjust(widths[name]) for name in names)


def _total(names: Sequence[_Column], widths: Mapping[_Column, int]) -> int:
    """Return the room that columns take, each with what stands before it."""
    return sum(len(_GAP) + widths[name] for name in names)


def _cells(row: SweepRow) -> dict[_Column, str]:
    point = row.point
    figures = {title: figure_of(row.figures, key) for key, title in SHOWN.items()}
    measured = {
        **{title: _value(figure) if figure else "" for title, figure in figures.items()},
        "fill delay": "" if point.fill_s is None else show(point.fill_s, "s"),
        "n": _counts(row),
        "limits": row.outcome or "",
    }
    return {
        ("point", "scenario"): point.scenario,
        **{("point", name): str(value) for name, value in point.values.items()},
        **{("measured", name): text for name, text in measured.items()},
    }


def _value(figure: Figure) -> str:
    return show_measured(figure.estimate.value, metric_of(figure.metric).unit)


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
