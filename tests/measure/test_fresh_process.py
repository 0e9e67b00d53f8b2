"""Answers of fresh processes become samples, and growth becomes a leak or none."""

import mmap

import pytest

from pytest_hwperf.host.memory import COUNTED, EXACT
from pytest_hwperf.host.worker_protocol import WorkerResult
from pytest_hwperf.measure.samples import cold_samples, memory_samples
from pytest_hwperf.measure.worker_tasks import GROWTH
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.metrics import taken_by

MEMORY = taken_by("memory")
LATE = "exact within 262 kB here"
LEAKING = [float(100_000 * call) for call in range(60)]
LEVEL = [5_000_000.0] * 60
ALL = {metric: 1e6 for metric in MEMORY if metric != "memory_leak"}


def answer(
    series: list[float],
    *,
    now: str = EXACT,
    reasons: dict[str, str] | None = None,
    values: dict[str, float] | None = None,
) -> WorkerResult:
    return WorkerResult(
        values=ALL if values is None else values,
        reasons=reasons or {},
        notes=[LATE],
        runs=[],
        sources={**dict.fromkeys(MEMORY, "VmHWM after clear_refs"), "memory_retained": now, "memory_leak": now},
        series={GROWTH: series},
    )


def test_each_process_gives_a_value_of_each_metric() -> None:
    samples, reasons = memory_samples(MEMORY, [answer(LEVEL)] * 3, limits={})
    assert [*MEMORY] == [sample.metric for sample in samples]
    assert {3} == {len(sample.values) for sample in samples}
    assert {"fresh process"} == {sample.per for sample in samples}
    assert {} == reasons


def test_only_what_is_counted_late_carries_that_warning() -> None:
    samples, _ = memory_samples(MEMORY, [answer(LEVEL)] * 3, limits={})
    late = {sample.metric for sample in samples if LATE in sample.warnings}
    peaks = {"memory", "memory_import", "memory_fixtures", "memory_call", "memory_first_call", "memory_steady"}
    assert peaks == late


def test_memory_on_a_gpu_is_what_its_own_source_says() -> None:
    """No setting of this process's allocator is part of it, and it is absent where no process has used a GPU."""
    reasons = {"memory_leak": "not asked"}
    told = WorkerResult(
        values={"gpu_memory": 5e6}, reasons=reasons, notes=[LATE], runs=[], sources={"gpu_memory": "fake boards"}
    )
    (sample,), _ = memory_samples(("gpu_memory",), [told] * 3, limits={})
    without, missing = memory_samples(("gpu_memory",), [answer(LEVEL, values={}, reasons=reasons)] * 3, limits={})
    assert ("fake boards", ()) == (sample.source, sample.warnings)
    assert ([], ["memory_leak"]) == (without, [*missing])


def test_a_leak_is_reported_beside_the_peak_and_the_growth() -> None:
    """100 kB with every call in all three."""
    samples, _ = memory_samples(MEMORY, [answer(LEAKING)] * 3, limits={})
    reported = (
        "memory leaks: 100 kB (100 .. 100) more is held after each of 60 calls, in each of 3 fresh processes; "
        "memory_leak_max_kb sets a limit"
    )
    assert {"memory", "memory_leak"} == {sample.metric for sample in samples if reported in map(str, sample.warnings)}
    assert [100_000.0] * 3 == list(next(sample for sample in samples if sample.metric == "memory_leak").values)


@pytest.mark.parametrize(("grown", "limit"), [([LEAKING, LEAKING, LEVEL], None), ([LEAKING] * 3, 1e6)])
def test_no_leak_is_reported_where_one_process_is_level_or_a_budget_decides(
    grown: list[list[float]],
    limit: float | None,
) -> None:
    samples, _ = memory_samples(
        MEMORY, [answer(series) for series in grown], limits={} if limit is None else {"memory_leak": limit}
    )
    assert not any("leaks" in str(warning) for sample in samples for warning in sample.warnings)


def test_readings_that_lag_take_more_growth_to_be_a_leak() -> None:
    """Two and a half pages with each call are below what a lag can feign: on two CPUs 2 x 64 pages over 30 calls."""
    series = [2.5 * mmap.PAGESIZE * call for call in range(60)]
    reported = [
        any(
            "leaks" in str(warning)
            for sample in memory_samples(MEMORY, [one] * 3, limits={})[0]
            for warning in sample.warnings
        )
        for one in (answer(series), answer(series, now=COUNTED))
    ]
    assert [True, False] == reported


# 1 MB a call on average, in steps of 4 MB with every fourth of ten calls: no step falls between the last five.
IN_STEPS = [0.0, 0.0, 4e6, 4e6, 4e6, 8e6, 8e6, 8e6, 8e6, 8e6]


@pytest.mark.parametrize(("limit", "reported"), [(50_000.0, False), (2e6, True), (None, True)])
def test_growth_in_steps_keeps_no_limit_that_its_mean_breaks(limit: float | None, *, reported: bool) -> None:
    """It may be a leak or a cache that fills up: what is not known is not passed."""
    samples, reasons = memory_samples(
        MEMORY, [answer(IN_STEPS)] * 3, limits={} if limit is None else {"memory_leak": limit}
    )
    assert reported == ("memory_leak" in {sample.metric for sample in samples})
    assert reported or str(reasons["memory_leak"]).startswith("grew by 889 kB a call over 10 calls, but not steadily")


def test_the_point_of_a_leak_lies_within_what_is_shown_around_it() -> None:
    uneven = [[6000.0 * call + 3000 * (call % 2) + step * call for call in range(60)] for step in (0, 100, 300)]
    samples, _ = memory_samples(MEMORY, [answer(series) for series in uneven], limits={})
    leak = next(sample for sample in samples if sample.metric == "memory_leak")
    (reported,) = leak.warnings
    assert min(leak.values) <= sorted(leak.values)[1] <= max(leak.values)
    assert f"({min(leak.values) / 1000:.2f} .. {max(leak.values) / 1000:.2f})" in str(reported)


def test_growth_that_was_counted_late_says_so() -> None:
    samples, _ = memory_samples(MEMORY, [answer(LEVEL, now=COUNTED)] * 3, limits={"memory_leak": 1e3})
    assert LATE in next(sample for sample in samples if sample.metric == "memory_leak").warnings


def test_what_one_process_could_not_tell_is_unmeasured() -> None:
    """The others' values alone would be another n, and nobody would see it."""
    without = {metric: value for metric, value in ALL.items() if metric != "memory_steady"}
    odd = answer(LEVEL, values=without, reasons={"memory_steady": "not here", "memory_leak": "too slow"})
    samples, reasons = memory_samples(MEMORY, [answer(LEVEL), odd, answer(LEVEL)], limits={})
    assert {"memory_steady": "not here", "memory_leak": "too slow"} == {
        metric: str(why) for metric, why in reasons.items()
    }
    unmeasured = {"memory_steady", "memory_leak"}
    assert [metric for metric in MEMORY if metric not in unmeasured] == [sample.metric for sample in samples]


def test_a_series_that_is_too_short_is_never_taken_for_level() -> None:
    with pytest.raises(MeasurementError, match="takes 10 calls, there were 3"):
        memory_samples(MEMORY, [answer(LEVEL[:3])] * 3, limits={})


def test_cold_starts_keep_their_notes() -> None:
    one = WorkerResult(values={"cold_start": 0.5}, reasons={}, notes=["known before"], runs=[])
    samples, reasons = cold_samples(["cold_start"], [one] * 5)
    assert ([0.5] * 5, ("known before",), {}) == (list(samples[0].values), samples[0].warnings, reasons)
