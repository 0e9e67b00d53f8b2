"""The history of tests as one HTML file that loads nothing and runs no script: a chart of each series."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.history import PastValue
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.trends import Trend
from pytest_hwperf.core.units import scale_for, show_change, show_number

_WIDTH, _HEIGHT, _EDGE, _LEFT = 720, 150, 14, 70  # px; on the left the labels of the axis
_DIGITS = 10  # of a commit
_TICKS = 3
_LEGEND = (
    "A point is the value of a run with its interval; an empty one was not accepted. Dashed: a change of level, with "
    "the runs at which it may have begun (95 %). Triangle: a note."
)
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1.05rem; overflow-wrap: anywhere; margin-top: 2.2rem; }
h3 { font-size: .95rem; font-weight: 600; margin: 1rem 0 .2rem; }
svg { width: 100%; height: auto; }
.line { fill: none; stroke: #2563ab; stroke-width: 1.5; }
.band { stroke: #2563ab; stroke-opacity: .35; stroke-width: 3; }
.dot { fill: #2563ab; } .held { fill: none; stroke: #2563ab; }
.change { stroke: #c2410c; stroke-width: 1.5; stroke-dasharray: 4 3; } .near { fill: #c2410c; fill-opacity: .12; }
.note { fill: #6d28d9; } .axis { stroke: currentColor; stroke-opacity: .25; }
text { font: 11px system-ui, sans-serif; fill: currentColor; }
ul { margin: .2rem 0; } .facts { opacity: .8; }
"""


def render(trends: Sequence[Trend], baseline: str) -> bytes:
    """Write the page; series of a test follow each other."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>History</title>',
        '<meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{_STYLE}</style></head><body><h1>History of baseline {_text(baseline)}</h1>",
        f"<p>{_LEGEND}</p>",
    ]
    for (test, label), group in groupby(trends, lambda one: (one.series.test, one.series.label)):
        parts.append(f"<h2>{_text(' '.join(filter(None, [test, label])))}</h2>")
        parts.extend(_section(trend) for trend in group)
    return "".join([*parts, "</body></html>\n"]).encode()


def _section(trend: Trend) -> str:
    series, machine = trend.series, trend.series.machine
    name = metric_of(series.metric, series.better).called(series.statistic)
    against = f", change from {series.anchor[:_DIGITS]}" if series.anchor else ""
    facts = (
        f"{series.source or 'pairs'}, machine {machine.fingerprint} ({machine.cpu_model}), {len(series.values)} runs"
    )
    listed = "".join(f"<li>{_text(line)}</li>" for line in (*_changes(trend), *_notes(trend)))
    more = f"<ul>{listed}</ul>" if listed else ""
    return (
        f'<h3>{_text(name + against)}</h3><p class="facts">{_text(facts)}</p>{_chart(trend, f"{name}{against}")}{more}'
    )


def _changes(trend: Trend) -> Iterator[str]:
    for one in trend.changes:
        shift = one.shift
        ends = [
            "?" if end is None else show_change(end, trend.scale, like=shift.value) for end in (shift.low, shift.high)
        ]
        yield (
            f"Changed by {show_change(shift.value, trend.scale)} ({ends[0]} .. {ends[1]}) between "
            f"{one.before[:_DIGITS] or 'no commit'} and {one.revision[:_DIGITS] or 'no commit'}, p={one.p_value:.2g}, "
            f"n={shift.n} runs; {shift.method}."
        )


def _notes(trend: Trend) -> Iterator[str]:
    yield from (f"{note.revision[:_DIGITS]}: {note.text}" for note in trend.notes)


class _Plot(NamedTuple):
    """Where values lie in a chart."""

    of: int
    low: float
    room: float  # from the lowest to the highest end

    def x(self, place: float) -> float:
        """Return the position of a value."""
        return _LEFT + (_WIDTH - _LEFT - _EDGE) * (place + 0.5) / self.of

    def y(self, value: float) -> float:
        """Return the height of a value."""
        return _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * (value - self.low) / self.room

    def upright(self, kind: str, place: float, begin: float, end: float) -> str:
        """Draw a line from one height to another."""
        at = self.x(place)
        return f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{begin:.1f}" y2="{end:.1f}"/>'


def _chart(trend: Trend, name: str) -> str:
    """Draw the values in their order; what has an interval has a bar."""
    values = trend.series.values
    ends = [
        end for one in values for end in (one.estimate.low, one.estimate.value, one.estimate.high) if end is not None
    ]
    low, high = min(ends), max(ends)
    plot = _Plot(of=len(values), low=low, room=(high - low) or abs(high) or 1.0)
    points = " ".join(f"{plot.x(place):.1f},{plot.y(one.estimate.value):.1f}" for place, one in enumerate(values))
    parts = [*_axis(trend, plot), *_breaks(trend, plot), f'<polyline class="line" points="{points}"/>']
    for place, one in enumerate(values):
        parts.extend(_point(trend, plot, place, one))
    for note in trend.notes:
        at = plot.x(max(place for place, one in enumerate(values) if one.revision == note.revision))
        mark = f"M{at:.1f} {_HEIGHT - 8} l-5 8 h10 z"
        parts.append(f'<path class="note" d="{mark}"><title>{_text(note.text)}</title></path>')
    label = _text(f"{name} over time")
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _axis(trend: Trend, plot: _Plot) -> Iterator[str]:
    for tick in range(_TICKS):
        value = plot.low + plot.room * tick / (_TICKS - 1)
        at = plot.y(value)
        yield f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text x="2" y="{at + 4:.1f}">{_text(_shown(trend, value))}</text>'


def _breaks(trend: Trend, plot: _Plot) -> Iterator[str]:
    for one in trend.changes:
        begin, end = plot.x(one.earliest - 0.5), plot.x(one.latest - 0.5)
        yield f'<rect class="near" x="{begin:.1f}" width="{end - begin:.1f}" y="0" height="{_HEIGHT}"/>'
        yield plot.upright("change", one.place - 0.5, 0, _HEIGHT)


def _point(trend: Trend, plot: _Plot, place: int, one: PastValue) -> Iterator[str]:
    estimate = one.estimate
    if estimate.low is not None and estimate.high is not None:
        yield plot.upright("band", place, plot.y(estimate.low), plot.y(estimate.high))
    where = one.revision[:_DIGITS] or "no commit"
    told = f"{one.started_at}, {where}: {_shown(trend, estimate.value)}, n={estimate.n}"
    at = f'cx="{plot.x(place):.1f}" cy="{plot.y(estimate.value):.1f}" r="3"'
    yield f'<circle class="{"dot" if one.accepted else "held"}" {at}><title>{_text(told)}</title></circle>'


def _shown(trend: Trend, value: float) -> str:
    if trend.series.anchor:
        return show_change(value, "relative")
    factor, unit = scale_for(metric_of(trend.series.metric, trend.series.better).unit, value)
    return f"{show_number(value / factor, 4)} {unit}".rstrip()


def _text(text: str) -> str:
    return escape(visible(text))
