"""Trade-offs as a picture: median latency against accuracy, or against memory where no accuracy was measured."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from pytest_hwperf.core.candidates import Measured, measured_together
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.records import Estimate, Key
from pytest_hwperf.core.report import Report
from pytest_hwperf.core.rivals import ACCURACY, MEMORY, Candidate, per_row
from pytest_hwperf.reports.sweep_plot import check_matplotlib

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


def is_drawn(report: Report) -> bool:
    """Whether there is anything to choose from: two candidates of one test with a latency and one more figure."""
    return bool(_panels(report))


def render(report: Report) -> bytes:
    """Draw a panel for each test, its Pareto set over all dimensions as filled points."""
    check_matplotlib()
    from matplotlib.figure import Figure as Canvas

    panels = _panels(report)
    shown = panels[:_MOST_PANELS]
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    canvas = Canvas(figsize=(6.4 * columns, 4.6 * rows + 0.4), layout="constrained")
    for axes, (measured, key) in zip(canvas.subplots(rows, columns, squeeze=False).flat, shown, strict=False):
        _draw(axes, measured, key)
    for axes in [*canvas.axes][len(shown) :]:
        axes.set_visible(False)
    canvas.draw_without_rendering()  # places the panels
    for axes, (measured, key) in zip(canvas.axes, shown, strict=False):
        _write_names(axes, [(_at(one, MEDIAN_LATENCY), _at(one, key), one.name) for one in measured.candidates])
    left = f"; {len(panels) - len(shown)} further tests are not drawn" if len(panels) > len(shown) else ""
    told = "Trade-offs: filled points are in the Pareto set over all dimensions; bars are intervals"
    canvas.suptitle(f"{told}{left}", fontsize=10)
    out = BytesIO()
    canvas.savefig(out, format="png", dpi=120, metadata={"Software": None})
    return out.getvalue()


def _panels(report: Report) -> list[tuple[Measured, Key]]:
    """Return what is drawn, each with the metric of its upright axis."""
    found = list[tuple[Measured, Key]]()
    for measured in measured_together(report.judgements):
        keys = [key for key in _UPRIGHT if all(key in one.values for one in measured.candidates)]
        whole = keys and all(MEDIAN_LATENCY in one.values for one in measured.candidates)
        if whole and 1 < len(measured.candidates) <= _MOST_CANDIDATES:
            found.append((measured, keys[0]))
    return found


def _draw(axes: Any, measured: Measured, key: Key) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator

    front = measured.front
    for one in measured.candidates:
        best = one in front
        axes.errorbar(
            _at(one, MEDIAN_LATENCY),
            _at(one, key),
            xerr=_bars(one, MEDIAN_LATENCY),
            yerr=_bars(one, key),
            fmt="o",
            color=_FRONT if best else _OTHER,
            mfc=_FRONT if best else "white",
            ms=7,
            capsize=3,
        )
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
        text = axes.annotate(
            _short(name),
            at,
            xytext=(0, 0),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            fontsize=8,
            parse_math=False,
            in_layout=False,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8},
        )
        for place in range(2 * len(points)):  # below and above, further and further
            away = 14 * (place // 2)
            text.xyann = (7 * side, 9 + away if place % 2 else -14 - away)
            box = text.get_window_extent()
            if not any(map(box.overlaps, taken)):
                break
        taken.append(box)


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
