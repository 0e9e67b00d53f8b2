"""Pictures: a sweep with latency and throughput of each point and the limits; scenarios by what they trade."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.markers import BATCH
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.report import Report, Sweep, SweepRow
from pytest_hwperf.records.run import Estimate, Key, figure_of
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import show
from pytest_hwperf.stats.choice.candidates import ACCURACY, MEMORY, Candidate, per_row
from pytest_hwperf.stats.choice.tradeoffs import Choice, measured_together

_PANELS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    ("latency", (("latency", "p50"), ("latency", "p95"))),
    ("samples/s", (("sample_throughput", "mean"),)),
)
_CALLS = ("calls/s", (("throughput", "mean"),))
_STYLES = ("-", "--")


def check_matplotlib() -> None:
    """Refuse before anything is measured."""
    require("plot", "a plot needs {}", "matplotlib")


def _canvas(title: str, width: float, height: float) -> Any:
    check_matplotlib()
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(width, height), layout="constrained")
    canvas.suptitle(title, fontsize=10, parse_math=False)
    return canvas


def _png(canvas: Any) -> bytes:
    out = BytesIO()
    canvas.savefig(out, format="png", dpi=120, metadata={"Software": None})
    return out.getvalue()


def render_sweep(sweep: Sweep) -> bytes:
    """Draw a sweep as PNG: a line for each scenario and each combination of the other swept values."""
    rows = [row for row in sweep.rows if row.is_measured]
    names = list(rows[0].point.values) if rows else []
    along = BATCH if BATCH in names else next(iter(names), "")  # the swept name of the horizontal axis
    sampled = all(figure_of(row.figures, ("sample_throughput", "mean")) for row in rows)
    panels = (_PANELS[0], _PANELS[1] if sampled else _CALLS)
    canvas = _canvas(f"sweep of {sweep.name}", 10, 4.2)
    for axes, (title, keys) in zip(canvas.subplots(1, len(panels)), panels, strict=True):
        _draw(axes, rows, along, keys)
        limits = {limit.key: limit for row in rows for limit in row.point.limits if limit.metric == keys[0][0]}
        for limit in limits.values():
            label = f"limit {limit.statistic} {show(limit.limit, metric_of(limit.metric).unit)}"
            axes.axhline(limit.limit, color="black", lw=1, ls=":", label=label)
        axes.set(xlabel=along, ylabel=title)
        axes.grid(visible=True, alpha=0.3)
        if rows:
            axes.legend(fontsize=7)
    return _png(canvas)


def _draw(axes: Any, rows: Sequence[SweepRow], along: str, keys: Sequence[Key]) -> None:
    series: dict[str, list[SweepRow]] = {}
    for row in rows:
        others = [f"{name} {value}" for name, value in row.point.values.items() if name != along]
        series.setdefault(", ".join(filter(None, [row.point.scenario, *others])), []).append(row)
    for place, (name, members) in enumerate(series.items()):
        for style, key in zip(_STYLES, keys, strict=False):
            found = [(row.point.values[along], figure_of(row.figures, key)) for row in members]
            points = [(at, figure.estimate) for at, figure in found if figure]
            label = " ".join(filter(None, [name, key[1] if len(keys) > 1 else ""])) or along
            below = [one.value - (one.value if one.low is None else one.low) for _, one in points]
            above = [(one.value if one.high is None else one.high) - one.value for _, one in points]
            at, values = [at for at, _ in points], [one.value for _, one in points]
            look = {"fmt": f"o{style}", "ms": 3, "lw": 1.2, "capsize": 2, "color": f"C{place}"}
            axes.errorbar(at, values, yerr=[below, above], label=label, **look)
    if all(isinstance(row.point.values[along], int | float) and float(row.point.values[along]) > 0 for row in rows):
        sizes = sorted({row.point.values[along] for row in rows})
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
    _scale(axes, metric_of(keys[0][0]).unit)


def _scale(axes: Any, unit: str) -> None:
    """Let the vertical axis be logarithmic, with ticks such as `20 µs` and `1 M` in place of powers of ten."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.yaxis.set_major_formatter(EngFormatter("s" if unit == "s" else ""))
    axes.yaxis.set_minor_formatter(NullFormatter())


_SIZES: Mapping[Key, tuple[str, float]] = {  # label of an axis, and its unit in base units
    MEDIAN_LATENCY: ("median latency per row", 1.0),
    ACCURACY: ("accuracy", 1.0),
    MEMORY: ("peak memory (MB)", 1e6),
    ("throughput", "mean"): ("throughput (calls/s)", 1.0),
}
_UPRIGHT = (ACCURACY, MEMORY, ("throughput", "mean"))  # the first that all candidates have
_MOST_PANELS, _MOST_CANDIDATES, _LONGEST_NAME = 6, 12, 34
_COLUMNS, _MIDDLE = 2, 0.5
_FRONT, _OTHER = "#0b6e4f", "#8a8f98"


def render_tradeoffs(report: Report) -> dict[str, bytes]:
    """Draw a panel for each test with something to choose from, its Pareto set over all dimensions as filled points.

    That is two candidates with a latency and one more figure. Return the picture under its name; none without a panel.
    """
    panels = list[tuple[Choice, Key]]()  # each with the metric of its upright axis
    for measured in measured_together(report.judgements):
        keys = [key for key in _UPRIGHT if all(key in one.values for one in measured.candidates)]
        whole = keys and all(MEDIAN_LATENCY in one.values for one in measured.candidates)
        if whole and 1 < len(measured.candidates) <= _MOST_CANDIDATES:
            panels.append((measured, keys[0]))
    if not panels:
        return {}
    shown, left = panels[:_MOST_PANELS], len(panels) - _MOST_PANELS
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    told = "Trade-offs: filled points are in the Pareto set over all dimensions; bars are intervals"
    more = f"; {left} further tests are not drawn" if left > 0 else ""
    canvas = _canvas(f"{told}{more}", 6.4 * columns, 4.6 * rows + 0.4)
    for axes, (measured, key) in zip(canvas.subplots(rows, columns, squeeze=False).flat, shown, strict=False):
        _draw_panel(axes, measured, key)
    for axes in [*canvas.axes][len(shown) :]:
        axes.set_visible(False)
    canvas.draw_without_rendering()  # places the panels
    for axes, (measured, key) in zip(canvas.axes, shown, strict=False):
        _write_names(axes, [(_at(one, MEDIAN_LATENCY), _at(one, key), one.name) for one in measured.candidates])
    return {"benchmark_tradeoff.png": _png(canvas)}


def _draw_panel(axes: Any, measured: Choice, key: Key) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator

    front = measured.front
    for one in measured.candidates:
        best, bars = one in front, {"xerr": _bars(one, MEDIAN_LATENCY), "yerr": _bars(one, key)}
        look = {"color": _FRONT if best else _OTHER, "mfc": _FRONT if best else "white", "ms": 7, "capsize": 3}
        axes.errorbar(_at(one, MEDIAN_LATENCY), _at(one, key), fmt="o", **bars, **look)
    axes.set(xscale="log", xlabel=_SIZES[MEDIAN_LATENCY][0], ylabel=_SIZES[key][0])
    for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        ticks(EngFormatter(unit="s"))
    axes.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    axes.tick_params(which="both", labelsize=8)
    title = f"{measured.test}{f' at {measured.point}' if measured.point else ''}"
    axes.set_title(_short(title, 2 * _LONGEST_NAME), fontsize=9, parse_math=False)
    axes.margins(x=0.25, y=0.25)
    axes.grid(visible=True, alpha=0.3)


def _write_names(axes: Any, points: Sequence[tuple[float, float, str]]) -> None:
    """Write a name at each point, towards the middle of the panel, where it covers no other name."""
    taken = list[Any]()
    for *at, name in sorted(points):
        side = 1 if axes.transAxes.inverted().transform(axes.transData.transform(at))[0] < _MIDDLE else -1
        box = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8}
        look = {"ha": "left" if side > 0 else "right", "fontsize": 8, "parse_math": False, "in_layout": False}
        text = axes.annotate(_short(name), at, xytext=(0, 0), textcoords="offset points", bbox=box, **look)
        for place in range(2 * len(points)):  # below and above, further and further
            away = 14 * (place // 2)
            text.xyann = (7 * side, 9 + away if place % 2 else -14 - away)
            covered = text.get_window_extent()
            if not any(map(covered.overlaps, taken)):
                break
        taken.append(covered)


def _at(candidate: Candidate, key: Key) -> float:
    return per_row(candidate, key).value / _SIZES[key][1]


def _bars(candidate: Candidate, key: Key) -> Sequence[Sequence[float]] | None:
    """Return how far the interval reaches to both sides, shape (2, 1); None where it has an open end."""
    found: Estimate = per_row(candidate, key)
    if found.low is None or found.high is None:
        return None
    unit = _SIZES[key][1]
    return [[max(0.0, found.value - found.low) / unit], [max(0.0, found.high - found.value) / unit]]


def _short(text: str, longest: int = _LONGEST_NAME) -> str:
    shown = visible(text)
    return shown if len(shown) <= longest else f"…{shown[1 - longest :]}"
