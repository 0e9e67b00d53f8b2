"""Measurements in a process that something observes: coverage.py is suspended, anything else refused."""

import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fakes.tracers import CoverageTracer

from pytest_hwperf.measure.pair_target import ready_target
from pytest_hwperf.measure.subjects import subject_of_callable
from pytest_hwperf.measure.worker_tasks import Startup, measure_cold_start
from pytest_hwperf.records.errors import MeasurementError

OPTIONS = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "--hwperf-report=report.json")
TEST = """
    import pytest

    def work():
        return 1

    @pytest.mark.hwbudget(latency_p50_ms=1000, accuracy_min=0.5)
    def test_it(hwperf):
        {before}
        hwperf(lambda rows: [work()] * len(rows), [1, 2], y_true=[1, 1])
"""


@pytest.fixture
def tracer() -> Iterator[CoverageTracer]:
    """Trace the test by a stand-in of coverage.py."""
    before, fake = sys.gettrace(), CoverageTracer()
    sys.settrace(fake)
    try:
        yield fake
    finally:
        sys.settrace(before)


def measured(pytester: pytest.Pytester, before: str = "pass", *options: str) -> tuple[pytest.RunResult, Any]:
    pytester.makepyfile(TEST.format(before=before))
    result = pytester.runpytest_inprocess(*OPTIONS, *options)
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    return result, report["judgements"][0]["run"]


def test_coverage_sees_the_first_call_and_no_timed_one(pytester: pytest.Pytester, tracer: CoverageTracer) -> None:
    """What only a measurement calls counts as covered; the first call is then no measurement of itself."""
    result, run = measured(pytester)

    result.assert_outcomes(passed=1)
    assert 2 == tracer.seen.count("work")  # and once for the accuracy
    assert "coverage.py (suspended)" == run["conditions"]["traced_by"]
    assert "first_call" in run["unmeasured"]
    assert "first_call" not in {sample["metric"] for sample in run["samples"]}
    assert sys.gettrace() is tracer


def test_coverage_sees_the_first_awaited_call_and_no_timed_one(
    pytester: pytest.Pytester, tracer: CoverageTracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which the thread of the test's loop makes, while another one measures."""
    pytest.importorskip("pytest_asyncio")
    monkeypatch.setattr(threading, "_trace_hook", tracer)  # as `threading.settrace`, and taken back
    pytester.makepyfile(
        """
        import pytest

        async def work():
            return 1

        @pytest.mark.asyncio
        async def test_it(hwperf):
            run = await hwperf.awaitable(work)
            assert run.conditions["traced_by"] == "coverage.py (suspended)"
        """
    )
    result = pytester.runpytest_inprocess(
        *OPTIONS, "-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function"
    )

    result.assert_outcomes(passed=1)
    assert tracer.seen.count("work") == 1
    assert sys.gettrace() is tracer


def test_timings_under_another_tool_are_unmeasured(pytester: pytest.Pytester) -> None:
    """What needs no clock is measured."""
    result, run = measured(pytester, "import tracemalloc; tracemalloc.start()", "-p", "no:tracemalloc")
    import tracemalloc

    tracemalloc.stop()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["latency p50 unmeasured, limit 1 s: traced by tracemalloc*"])
    assert "tracemalloc" == run["conditions"]["traced_by"].split(", ")[-1]  # after coverage.py, where that runs
    assert ["accuracy"] == [sample["metric"] for sample in run["samples"]]


OWN = """
    import pytest, sys

    def profiled(frame, event, argument): pass

    @pytest.mark.hwbudget(accuracy_min=0.5)
    @pytest.mark.parametrize("order", ["recorded first", "measured first"])
    @pytest.mark.parametrize("tool", [None, profiled])
    def test_it(hwperf, order, tool):
        sys.setprofile(tool)
        try:
            if order == "recorded first":
                hwperf.record("rouge_l", 0.5, better="higher")
            hwperf(list, [1, 1], y_true=[1, 1])
            if order == "measured first":
                hwperf.record("rouge_l", 0.5, better="higher")
            with pytest.raises(Exception, match="^a second measurement without a label: "):
                hwperf(list, [1, 1])
        finally:
            sys.setprofile(None)

    @pytest.mark.hwbudget(latency_p50_ms=1000)
    def test_timings(hwperf):
        sys.setprofile(profiled)
        try:
            hwperf(int)
        finally:
            sys.setprofile(None)
"""


def test_what_is_recorded_belongs_to_the_measurement_whatever_the_order_and_the_tool(pytester: pytest.Pytester) -> None:
    """One run under one label; a second measurement needs another, though a profiler leaves no timing of the first.

    A measurement that has timings alone says why it has none.
    """
    pytester.makepyfile(OWN)
    result = pytester.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["latency p50 unmeasured, limit 1 s: traced by test_*"])
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    found = [{sample["metric"] for sample in judgement["run"]["samples"]} for judgement in report["judgements"]]
    assert [True] * 4 == [{"accuracy", "rouge_l"} <= metrics for metrics in found[:4]]


def test_a_traced_process_of_a_pair_refuses_to_measure_and_has_no_cold_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.host.tracing.lasting_tracers", lambda: ("cProfile",))
    target = ready_target(subject_of_callable(int, (), {}, y_true=None, batch_size=None), lambda: None)
    with pytest.raises(MeasurementError, match="traced by cProfile"), target:
        pass
    result = measure_cold_start([], lambda: int, Startup(lambda _: False))
    assert not result.values
    assert result.reasons["cold_start"].startswith("traced by cProfile")
