"""The history of tests as lines of text: a sparkline for each series, its changes and the team's notes."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby

from pytest_hwperf.core.foreign_text import shortened
from pytest_hwperf.core.metrics import metric_of
from pytest_hwperf.core.records import Estimate
from pytest_hwperf.core.trends import ALPHA, Change, Trend
from pytest_hwperf.core.units import counted, show_change_interval, show_interval, show_share

_LEVELS = "▁▂▃▄▅▆▇█"
_WIDEST = 60  # values of a sparkline: the newest
_DIGITS = 10  # of a commit


def lines_of(trends: Sequence[Trend]) -> Iterator[str]:
    """Yield the lines of some series; those of a test follow each other."""
    for (test, label), group in groupby(trends, lambda one: (one.series.test, one.series.label)):
        yield " ".join(filter(None, [test, label and f"[{label}]"]))
        for trend in group:
            yield from (f"  {line}" for line in _lines(trend))
    if any(not trend.is_too_short for trend in trends):
        yield (
            f"changes: normal scores, largest t of two means, simulated at the estimated autocorrelation; "
            f"{show_share(ALPHA)} false ones a series, and more where autocorrelation is strong and values are few"
        )


def sparkline(values: Sequence[float]) -> str:
    """Draw the newest values as bars from the smallest to the largest of them."""
    shown = values[-_WIDEST:]
    low, high = min(shown), max(shown)
    step = (high - low) / (len(_LEVELS) - 1)
    return "".join(_LEVELS[round((value - low) / step)] if step else _LEVELS[0] for value in shown)


def _lines(trend: Trend) -> Iterator[str]:
    series = trend.series
    what = metric_of(series.metric, series.better).called(series.statistic)
    against = f", change from {series.anchor[:_DIGITS]}" if series.anchor else ""
    machine = f"machine {series.machine.fingerprint} ({series.machine.cpu_model})"
    runs = counted(len(series.values), "run")
    yield f"{what}{against}, {series.source or 'pairs'}, {machine}: {runs}"
    newest = series.values[-1]
    code = f"{newest.revision[:_DIGITS]}{'+changes' * newest.changed}" if newest.revision else "no commit"
    drawn = sparkline([value.estimate.value for value in series.values])
    yield f"  {drawn} {_value(trend, newest.estimate)}, {newest.started_at}, {code}"
    for change in trend.changes:
        yield f"  changed {_changed(trend, change)}"
        if change.before and change.revision and change.before != change.revision:
            words = ("hwperf", "bisect", change.before[:_DIGITS], change.revision[:_DIGITS], "--", series.test)
            yield f"    {shlex.join(words)}"
    if trend.is_too_short:
        yield "  too few runs to look for changes"
    yield from (f"  noted at {note.revision[:_DIGITS]}: {shortened(note.text)}" for note in trend.notes)


def _value(trend: Trend, estimate: Estimate) -> str:
    if trend.series.anchor:
        return _interval(estimate, trend.scale)
    unit = metric_of(trend.series.metric, trend.series.better).unit
    return show_interval(estimate.value, estimate.low, estimate.high, unit)


def _changed(trend: Trend, change: Change) -> str:
    between = f"between {_code(change.before)} and {_code(change.revision)}"
    if change.earliest < change.latest:
        between += f" (95 %: run {change.earliest + 1} to {change.latest + 1} of {len(trend.series.values)})"
    allowed = f", autocorrelation {change.autocorrelation:.2f} allowed for" if change.autocorrelation else ""
    return f"{_interval(change.shift, trend.scale)} {between}; p={change.p_value:.2g}, n={change.shift.n} runs{allowed}"


def _code(revision: str) -> str:
    return revision[:_DIGITS] or "no commit"


def _interval(estimate: Estimate, scale: str) -> str:
    return show_change_interval(estimate.value, estimate.low, estimate.high, scale)
