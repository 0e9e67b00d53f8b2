"""A run at the end of its own history: stored series of its test, with what it has measured itself as the newest."""

from collections.abc import Sequence

from pytest_hwperf.core.evidence import Gate
from pytest_hwperf.core.history import PastValue, Series, is_anchor
from pytest_hwperf.core.records import Estimate, Judgement, figure_of, replace

FEWEST = 3  # runs before this one, below which a series tells too little to be drawn


def with_run(series: Series, judgement: Judgement, gates: Sequence[Gate]) -> Series:
    """Return a series of a test that ends with a run of it, whether that is stored already or not."""
    run = judgement.run
    if series.machine.fingerprint != run.machine.fingerprint:
        return series
    estimate = _change(series, judgement, gates) if series.anchor else _figure(series, judgement)
    earlier = tuple(one for one in series.values if one.started_at != run.started_at)
    stored = next((one for one in series.values if one.started_at == run.started_at), None)
    if estimate is None:
        return series
    now = PastValue(
        started_at=run.started_at, revision=run.revision, changed=run.changed, estimate=estimate,
        accepted=stored is not None and stored.accepted,
    )  # fmt: skip
    return replace(series, values=(*earlier, now))


def _figure(series: Series, judgement: Judgement) -> Estimate | None:
    figure = figure_of(judgement.figures, series.key)
    return figure.estimate if figure is not None and figure.source == series.source else None


def _change(series: Series, judgement: Judgement, gates: Sequence[Gate]) -> Estimate | None:
    """Return the change from the anchor of a series, if a gate of the run was against it."""
    run = judgement.run
    if not any(is_anchor(one.against) and one.revision == series.anchor and one.kind == run.kind for one in gates):
        return None
    found = (one for one in judgement.comparisons if one.key == series.key and one.scale == "relative")
    return next((one.change for one in found), None)
