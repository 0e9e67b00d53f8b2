"""The chart of a series over time, as a tree of SVG elements: pages write it as markup or hand it to a script."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import NamedTuple

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.history import PastValue
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.trends import Trend
from pytest_hwperf.core.units import counted, scale_for, show_change, show_change_interval, show_number

_WIDTH, _HEIGHT, _EDGE, _LEFT = 720, 150, 14, 70  # px; on the left the labels of the axis
_DIGITS = 10  # of a commit
_TICKS = 3
STYLE = """
.history { width: 100%; height: auto; }
.history .line { fill: none; stroke: var(--baseline, #2563ab); stroke-width: 1.5; }
.history .band { stroke: var(--baseline, #2563ab); stroke-opacity: .35; stroke-width: 3; }
.history .dot { fill: var(--baseline, #2563ab); } .history .held { fill: none; stroke: var(--baseline, #2563ab); }
.history .now { fill: var(--candidate, #c2410c); stroke: currentColor; }
.history .change { stroke: var(--candidate, #c2410c); stroke-width: 1.5; stroke-dasharray: 4 3; }
.history .near { fill: var(--candidate, #c2410c); fill-opacity: .12; }
.history .note { fill: #8b5cf6; } .history .axis { stroke: currentColor; stroke-opacity: .25; }
.history text { font: 11px system-ui, sans-serif; fill: currentColor; }
"""
LEGEND = (
    "A point is the value of a run with its interval; an empty one was not accepted. Dashed: a change of level, with "
    "the runs at which it may have begun (95 %). Triangle: a note."
)


class Element(NamedTuple):
    """An element of SVG; texts are plain, and attributes are made of numbers and words of this package but labels."""

    name: str
    attributes: Mapping[str, str]
    children: "tuple[Element | str, ...]" = ()


def markup(element: Element) -> str:
    """Write an element with everything in it as markup."""
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in element.attributes.items())
    inner = "".join(escape(one) if isinstance(one, str) else markup(one) for one in element.children)
    return f"<{element.name}{attributes}>{inner}</{element.name}>"


def title_of(trend: Trend) -> str:
    """Name what a series tells."""
    series = trend.series
    against = f", change from {series.anchor[:_DIGITS]}" if series.anchor else ""
    return visible(f"{metric_of(series.metric, series.better).called(series.statistic)}{against}")


def facts_of(trend: Trend) -> str:
    """Say what a series was measured by, on which machine, and how long it is."""
    series = trend.series
    machine = f"machine {series.machine.fingerprint} ({series.machine.cpu_model})"
    return visible(f"{series.source or 'pairs'}, {machine}, {counted(len(series.values), 'run')}")


def remarks_of(trend: Trend) -> Iterator[str]:
    """Yield a sentence on each change of level, and the notes."""
    for one in trend.changes:
        shift = one.shift
        yield visible(
            f"Changed by {show_change_interval(shift.value, shift.low, shift.high, trend.scale)} between "
            f"{one.before[:_DIGITS] or 'no commit'} and {one.revision[:_DIGITS] or 'no commit'}, p={one.p_value:.2g}, "
            f"n={shift.n} runs; {shift.method}."
        )
    yield from (visible(f"{note.revision[:_DIGITS]}: {note.text}") for note in trend.notes)


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

    def upright(self, kind: str, place: float, begin: float, end: float) -> Element:
        """Draw a line from one height to another."""
        at = self.x(place)
        return _drawn("line", kind, x1=at, x2=at, y1=begin, y2=end)


def chart_of(trend: Trend, now: str = "") -> Element:
    """Draw the values in their order; what has an interval has a bar.

    Args:
        trend: at least one value.
        now: when the run began that is marked; "": none is.
    """
    values = trend.series.values
    ends = [
        end for one in values for end in (one.estimate.low, one.estimate.value, one.estimate.high) if end is not None
    ]
    low, high = min(ends), max(ends)
    plot = _Plot(of=len(values), low=low, room=(high - low) or abs(high) or 1.0)
    points = " ".join(f"{plot.x(place):.1f},{plot.y(one.estimate.value):.1f}" for place, one in enumerate(values))
    parts = [*_axis(trend, plot), *_breaks(trend, plot), Element("polyline", {"class": "line", "points": points})]
    for place, one in enumerate(values):
        parts.extend(_point(trend, plot, place, one, now))
    for note in trend.notes:
        at = plot.x(max(place for place, one in enumerate(values) if one.revision == note.revision))
        mark = {"class": "note", "d": f"M{at:.1f} {_HEIGHT - 8} l-5 8 h10 z"}
        parts.append(Element("path", mark, (_titled(note.text),)))
    frame = {"class": "history", "viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "role": "img", "aria-label": _said(trend)}
    return Element("svg", frame, tuple(parts))


def _said(trend: Trend) -> str:
    """Say what a chart shows to those who do not see it."""
    newest = trend.series.values[-1]
    changes = counted(len(trend.changes), "change") + " of level"
    return (
        f"{title_of(trend)} over time: {counted(len(trend.series.values), 'run')}, the newest "
        f"{_shown(trend, newest.estimate.value)}, {'too few to look for changes' if trend.is_too_short else changes}"
    )


def _axis(trend: Trend, plot: _Plot) -> Iterator[Element]:
    for tick in range(_TICKS):
        value = plot.low + plot.room * tick / (_TICKS - 1)
        at = plot.y(value)
        yield _drawn("line", "axis", x1=_LEFT, x2=_WIDTH, y1=at, y2=at)
        yield Element("text", {"x": "2", "y": f"{at + 4:.1f}"}, (_shown(trend, value),))


def _breaks(trend: Trend, plot: _Plot) -> Iterator[Element]:
    for one in trend.changes:
        begin, end = plot.x(one.earliest - 0.5), plot.x(one.latest - 0.5)
        yield _drawn("rect", "near", x=begin, width=end - begin, y=0, height=_HEIGHT)
        yield plot.upright("change", one.place - 0.5, 0, _HEIGHT)


def _point(trend: Trend, plot: _Plot, place: int, one: PastValue, now: str) -> Iterator[Element]:
    estimate = one.estimate
    if estimate.low is not None and estimate.high is not None:
        yield plot.upright("band", place, plot.y(estimate.low), plot.y(estimate.high))
    is_now = bool(now) and one.started_at == now
    where = f"{one.revision[:_DIGITS] or 'no commit'}{'+changes' * one.changed}"
    told = f"{'this run, ' * is_now}{one.started_at}, {where}: {_shown(trend, estimate.value)}, n={estimate.n}"
    kind = "now" if is_now else "dot" if one.accepted else "held"
    point = _drawn("circle", kind, cx=plot.x(place), cy=plot.y(estimate.value), r=5 if is_now else 3)
    yield point._replace(children=(_titled(told),))


def _drawn(name: str, kind: str, **numbers: float) -> Element:
    return Element(name, {"class": kind} | {key: f"{number:.1f}" for key, number in numbers.items()})


def _titled(text: str) -> Element:
    return Element("title", {}, (visible(text),))


def _shown(trend: Trend, value: float) -> str:
    if trend.series.anchor:
        return show_change(value, "relative")
    factor, unit = scale_for(metric_of(trend.series.metric, trend.series.better).unit, value)
    return f"{show_number(value / factor, 4)} {unit}".rstrip()
