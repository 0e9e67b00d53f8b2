"""Series of values over time, made of runs."""

import pytest
from fakes import records as fake

from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.stats.history import PastValue, Statistic, is_anchor, lined_up, series_of


def value(started_at: str, median: float) -> PastValue:
    return PastValue(
        started_at=started_at, revision="abc", estimate=fake.estimate(median, None, None, 1), accepted=True
    )


@pytest.mark.parametrize(
    ("against", "pinned"),
    [("anchor", True), ("anchor v1.4", True), ("anchors/new", False), ("main", False), ("", False)],
)
def test_the_pinned_anchor_is_told_from_branches(against: str, *, pinned: bool) -> None:
    assert pinned == is_anchor(against)


def test_values_are_in_the_order_of_time() -> None:
    one = Statistic("latency", "p50", "perf_counter", "lower")
    other = Statistic("latency", "p50", "perf_counter", "lower", "4f2c1e9")
    late, early = value("2026-03-02T00:00:00+00:00", 2.0), value("2026-03-01T00:00:00+00:00", 1.0)
    first, second = lined_up("t", "l", fake.machine(), [(one, late), (other, late), (one, early)])
    assert (first.values, second.values) == ((early, late), (late,))
    assert (first.anchor, second.anchor) == ("", "4f2c1e9")
    assert (first.test, first.label, first.machine, first.key) == ("t", "l", fake.machine(), ("latency", "p50"))


def test_every_figure_of_accepted_runs_is_a_value() -> None:
    """Of a metric of the user's own, the direction is that of its run."""
    run = replace(fake.run(), directions={"own": "higher"}, changed=True)
    stored = StoredRun(run=run, figures=(fake.figure(), fake.figure("own", "mean", source="record")))
    latency, own = series_of([stored, stored])
    assert (latency.better, own.better, own.source) == ("lower", "higher", "record")
    assert len(own.values) == 2
    past = own.values[0]
    assert (past.started_at, past.revision, past.changed, past.accepted) == (fake.STARTED, "4f2c1e9", True, True)
    assert past.estimate == stored.figures[1].estimate
