"""The text of each cell of the table."""

from collections.abc import Mapping

from pytest_hwperf.core import metrics
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.metrics import Metric
from pytest_hwperf.core.records import OF_A_LOAD, Budget, Comparison, Figure, Run, Verdict
from pytest_hwperf.core.statements import is_lacking
from pytest_hwperf.core.units import (
    counted,
    show_change,
    show_change_interval,
    show_interval,
    show_limit,
    show_measured,
)
from pytest_hwperf.reports.entries import Entry

_WHOLE_FROM = 10  # % or pp: from here on a change is shown without decimals


def cells_of(run: Run, entry: Entry) -> Mapping[str, str]:
    """Return the cells of a row under the names of their columns."""
    metric, figure, comparison = metric_of(run, entry.key[0]), entry.figure, entry.comparison
    budget = next((verdict.subject for verdict in entry.verdicts if isinstance(verdict.subject, Budget)), None)
    return {
        "metric": entry.name,
        "value": _value(figure, metric) if figure else _value_without_figure(run, comparison, metric),
        "n": _n(figure, comparison),
        "budget": show_limit(budget.limit, metric.unit, metric.better) if budget else "",
        "baseline": show_measured(comparison.baseline, metric.unit)
        if comparison and comparison.baseline is not None
        else "",
        "change": _change(comparison) if comparison else "",
        "outcome": ", ".join(dict.fromkeys(map(_outcome, entry.verdicts))),
    }


def metric_of(run: Run, name: str) -> Metric:
    """Return the metric; one that only the baseline knows is taken as a plain number."""
    return metrics.metric_of(name, run.directions.get(name, "lower"))


def unit_of(per: str) -> str:
    """Return what is counted in one word: `batch of 9 calls` → `batch`, `fresh process` → `process`."""
    return " ".join(per.partition(" of ")[0].split()[-1:])


def _n(figure: Figure | None, comparison: Comparison | None) -> str:
    if figure:
        return counted(figure.estimate.n, visible(unit_of(figure.per)))
    if comparison and (comparison.candidate is not None or comparison.is_left_out):
        return counted(comparison.pairs, visible(unit_of(comparison.per)))
    return ""


def _value_without_figure(run: Run, comparison: Comparison | None, metric: Metric) -> str:
    """Write the candidate's value of a comparison; a run of comparisons alone was to measure nothing by itself."""
    if comparison and comparison.candidate is not None:
        return show_measured(comparison.candidate, metric.unit)
    if comparison and comparison.is_left_out:
        return ""
    return "unmeasured" if run.samples or run.unmeasured else ""


def _value(figure: Figure, metric: Metric) -> str:
    """Write the value with its interval, alone where it has none or where every reading is the same."""
    value, low, high = figure.estimate.value, figure.estimate.low, figure.estimate.high
    if figure.per == OF_A_LOAD and any(is_lacking(one) for one in figure.estimate.warnings):
        return "n/a"
    if (low, high) in {(None, None), (value, value)}:
        return show_measured(value, metric.unit)
    return show_interval(value, low, high, metric.unit)


def _change(comparison: Comparison) -> str:
    """Write `+4.8 % (+3.1 .. +6.5)`; "" where nothing could be compared. A footnote gives its n and method."""
    change = comparison.change
    if change is None:
        return ""
    if comparison.is_equal:
        return "0 pp"
    return show_change_interval(change.value, change.low, change.high, comparison.scale, write=_short)


def _short(change: float, scale: str, like: float) -> str:
    """Write a change in few letters: without decimals where it is large, and none at all as `0 %`."""
    if like >= 1 and scale == "relative":
        return show_change(change, scale, like=like)
    unit, digits = ("pp", 2) if scale == "absolute" else ("%", 1)
    shown = round(100 * change, digits)
    if not shown:
        return f"0 {unit}"
    if abs(shown) < _WHOLE_FROM:
        return show_change(change, scale, like=like)
    return f"{shown:+.0f} {unit}"


def _outcome(verdict: Verdict) -> str:
    """Return the outcome; where the user's settings make an inconclusive one fail, say so."""
    says_it = not verdict.fails or verdict.outcome in {"failed", "regressed"}
    return verdict.outcome if says_it else f"{verdict.outcome} (fails)"
