"""A sweep as a picture: latency and throughput of each point, with the limits."""

from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.records import Key, figure_of
from pytest_hwperf.core.sweeps import BATCH, Sweep, SweepRow
from pytest_hwperf.core.units import show

_PANELS: tuple[tuple[str, tuple[Key, ...]], ...] = (
    ("latency", (("latency", "p50"), ("latency", "p95"))),
    ("samples/s", (("sample_throughput", "mean"),)),
)
_CALLS = ("calls/s", (("throughput", "mean"),))
_STYLES = ("-", "--")


def is_matplotlib_there() -> bool:
    """Whether pictures can be drawn."""
    return find_spec("matplotlib") is not None


def check_matplotlib() -> None:
    """Refuse before anything is measured."""
    if not is_matplotlib_there():
        raise UsageProblem("a plot needs matplotlib: pip install 'pytest-hwperf[plot]'")


def render(sweep: Sweep) -> bytes:
    """Draw a sweep as PNG: a line for each scenario and each combination of the other swept values."""
    check_matplotlib()
    from matplotlib.figure import Figure as Canvas

    rows = [row for row in sweep.rows if row.is_measured]
    along = _along(rows)
    sampled = all(figure_of(row.figures, ("sample_throughput", "mean")) for row in rows)
    panels = (_PANELS[0], _PANELS[1] if sampled else _CALLS)
    canvas = Canvas(figsize=(10, 4.2), layout="constrained")
    canvas.suptitle(f"sweep of {sweep.name}", fontsize=10, parse_math=False)
    for axes, (title, keys) in zip(canvas.subplots(1, len(panels)), panels, strict=True):
        _draw(axes, rows, along, keys)
        _limit(axes, rows, keys)
        axes.set(xlabel=along, ylabel=title)
        axes.grid(visible=True, alpha=0.3)
        if rows:
            axes.legend(fontsize=7)
    out = BytesIO()
    canvas.savefig(out, format="png", dpi=120, metadata={"Software": None})
    return out.getvalue()


def _along(rows: Sequence[SweepRow]) -> str:
    """Return the swept name of the horizontal axis: the batch size, else the first one."""
    names = list(rows[0].point.values) if rows else []
    return BATCH if BATCH in names else next(iter(names), "")


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
            values = [one.value for _, one in points]
            ends = [
                [one.value - (one.value if one.low is None else one.low) for _, one in points],
                [(one.value if one.high is None else one.high) - one.value for _, one in points],
            ]
            axes.errorbar(
                [at for at, _ in points],
                values,
                yerr=ends,
                fmt=f"o{style}",
                ms=3,
                lw=1.2,
                capsize=2,
                color=f"C{place}",
                label=label,
            )
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


def _limit(axes: Any, rows: Sequence[SweepRow], keys: Sequence[Key]) -> None:
    limits = {limit.key: limit for row in rows for limit in row.point.limits if limit.metric == keys[0][0]}
    for limit in limits.values():
        label = f"limit {limit.statistic} {show(limit.limit, metric_of(limit.metric).unit)}"
        axes.axhline(limit.limit, color="black", lw=1, ls=":", label=label)
