"""A series over time as people read it: where its level changed, by how much, and what was noted there."""

import math
from collections.abc import Sequence

from pytest_hwperf.core.change_points import FEWEST, ChangePoint, change_points
from pytest_hwperf.core.history import Annotation, PastValue, Series
from pytest_hwperf.core.metrics import METRICS, Scale
from pytest_hwperf.core.records import SCHEMA, Estimate
from pytest_hwperf.core.structs import Count, ErrorRate, Record, Share
from pytest_hwperf.core.units import relative_change

ALPHA = 0.01  # of a false change in a series without one


class Change(Record, frozen=True, kw_only=True):
    """One change of level of a series."""

    place: Count  # of the first value that is others, from 0
    earliest: Count  # of the same, 95 % confidence
    latest: Count
    revision: str  # of that value
    before: str  # revision of the value before it
    shift: Estimate  # of the median: relative, or a difference, by `Trend.scale`
    p_value: Share
    autocorrelation: Share  # of successive values, that was allowed for


class Trend(Record, frozen=True, kw_only=True):
    """A series with its changes and what was noted at its revisions."""

    series: Series
    scale: Scale  # of the changes
    changes: tuple[Change, ...]
    notes: tuple[Annotation, ...]  # at revisions that are in the series

    @property
    def is_too_short(self) -> bool:
        """Whether it has too few values to look for changes."""
        return len(self.series.values) < FEWEST


class TrendFile(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf history"):
    """What `hwperf history` has shown, as a file for other programs."""

    schema: int = SCHEMA
    baseline: str
    alpha: ErrorRate  # of a false change in each series
    trends: tuple[Trend, ...]


def trend_of(series: Series, notes: Sequence[Annotation], alpha: float = ALPHA) -> Trend:
    """Look for changes of level in a series."""
    scale, values = _scaled(series)
    past = series.values
    revisions = {value.revision for value in past}
    return Trend(
        series=series,
        scale=scale,
        changes=tuple(_change(one, past, scale) for one in change_points(values, alpha)),
        notes=tuple(note for note in notes if note.revision in revisions),
    )


def _scaled(series: Series) -> tuple[Scale, list[float]]:
    """Return the values on the scale on which levels are compared: logarithms, or points of what is a share."""
    values = [value.estimate.value for value in series.values]
    known = METRICS.get(series.metric)
    if series.anchor and min(values) > -1:
        return "relative", [math.log1p(value) for value in values]
    is_share = any(one.scale == "absolute" for one in known.margins) if known else False
    if not series.anchor and min(values) > 0 and not is_share:
        return "relative", [math.log(value) for value in values]
    return "absolute", values


def _change(one: ChangePoint, past: Sequence[PastValue], scale: Scale) -> Change:
    shift = one.shift
    if scale == "relative":
        low, high = (None if end is None else relative_change(end) for end in (shift.low, shift.high))
        shift = Estimate(
            value=relative_change(shift.value), low=low, high=high, confidence=shift.confidence, n=shift.n,
            method=shift.method,
        )  # fmt: skip
    return Change(
        place=one.at,
        earliest=one.earliest,
        latest=one.latest,
        revision=past[one.at].revision,
        before=past[one.at - 1].revision,
        shift=shift,
        p_value=one.p_value,
        autocorrelation=one.autocorrelation,
    )
