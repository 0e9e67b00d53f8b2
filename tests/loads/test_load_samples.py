"""Samples of a load, and the doubts with which none of its budgets passes."""

from array import array

import pytest

from pytest_hwperf.loads.local import load_samples
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.run import Sample, Served
from pytest_hwperf.stats.figures.estimates import clear_of, estimate

LOAD = Load(kind="single_stream", seconds=1)


def samples(served: Served, within_s: float | None = 0.002, rows: int | None = 4) -> dict[str, Sample]:
    found = load_samples(LOAD, served, "clock", rows=rows, within_s=within_s, warnings=())
    return {sample.metric: sample for sample in found}


def paced(calls: int, call_s: float = 0.001) -> Served:
    due = array("d", (number * call_s for number in range(calls)))
    return Served(due=due, issued=due, ended=array("d", (moment + call_s for moment in due)))


def test_a_load_gives_latency_rates_and_goodput() -> None:
    found = samples(paced(1000))
    assert [*found] == ["latency", "throughput", "sample_throughput", "goodput"]
    assert estimate(found["throughput"], "mean").value == pytest.approx(1000)
    assert estimate(found["sample_throughput"], "mean").value == pytest.approx(4000)
    assert estimate(found["goodput"], "mean").value == pytest.approx(1000)
    assert {()} == {sample.warnings for sample in found.values()}
    assert [*samples(paced(1000), within_s=None, rows=None)] == ["latency", "throughput"]


def test_a_percentile_has_a_bound_from_as_many_calls_as_the_reference_says() -> None:
    for statistic, fewest in (("p90", 64), ("p95", 130), ("p99", 662), ("p99_9", 6636)):
        enough, few = (estimate(samples(paced(calls))["latency"], statistic) for calls in (fewest, fewest - 1))
        assert enough.high == pytest.approx(0.001)
        assert not enough.warnings or fewest == 64
        assert few.high is None
        assert f"{statistic} has no upper 99 % bound below n={fewest}, have n={fewest - 1}" in map(str, few.warnings)


def test_answers_that_are_all_too_late_are_a_goodput_of_nothing() -> None:
    found = estimate(samples(paced(1000), within_s=0.0005)["goodput"], "mean")
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_a_window_without_calls_makes_the_rate_one_over_the_whole() -> None:
    calm = paced(600)
    ended = array("d", [*calm.ended[:599], 3.0])
    found = samples(Served(due=calm.due, issued=calm.due, ended=ended))
    assert [200.0] == list(found["throughput"].values)


def test_a_doubted_load_passes_no_budget_and_still_fails_one() -> None:
    calm = paced(1000)
    found = samples(Served(due=calm.due, issued=calm.issued, ended=calm.ended, failed=5))
    latency, rate = estimate(found["latency"], "p50"), estimate(found["throughput"], "mean")
    assert clear_of(latency, 5.0, "lower") is None
    assert clear_of(latency, 0.0001, "lower") is False
    assert clear_of(rate, 10.0, "higher") is None
    assert "5 of 1005 calls failed" in map(str, latency.warnings)


def test_a_late_generator_is_doubted_in_times_and_not_in_rates() -> None:
    """One that only adds to the median is said, and decides nothing."""
    calm = paced(1000)
    late = Served(due=calm.due, issued=array("d", (due + 0.0009 for due in calm.due)), ended=calm.ended)
    for within_s, kind in ((0.002, "generator late"), (0.02, "generator adds")):
        found = samples(late, within_s=within_s)
        assert [kind] == [one.kind for one in found["latency"].warnings if not isinstance(one, str)]
        assert not found["throughput"].warnings
    assert clear_of(estimate(found["latency"], "p50"), 0.002, "lower") is True
