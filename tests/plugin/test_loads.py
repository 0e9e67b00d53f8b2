"""Tests under a load: the marker `hwload`, what is measured under it, and how its lines say so."""

import json
import threading
from functools import partial
from typing import Any

import pytest

from pytest_hwperf.gate.load import served_by
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.loads.local import Times, schedule
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.measure.subjects import loader_of, subject_of_callable
from pytest_hwperf.plugin.loads import batch_size_under, block_under
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.loads import piece_of

QUICK = ("-v", "--hwperf-sample-time=0.02", "--hwperf-energy=off", "--hwperf-report=report.json")
SERVER = "hwload(kind='server', qps=2000, seconds=0.05)"


def judged(pytester: pytest.Pytester, body: str, *options: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    """Run one test; return its judgement too."""
    pytester.makepyfile(f"import pytest\n{body}")
    result = pytester.runpytest_inprocess(*QUICK, *options)
    (judgement,) = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]["judgements"]
    return result, judgement


def figures(judgement: dict[str, Any]) -> dict[str, Any]:
    return {figure["metric"]: figure for figure in judgement["figures"]}


@pytest.mark.parametrize(
    ("load", "arrivals"),
    [
        ("kind='single_stream', seconds=0.02", "calls one after the other, one thread"),
        ("kind='concurrency', in_flight=2, seconds=0.02", "a closed loop of 2, which hides queueing, 2 threads"),
        ("kind='offline', calls=40", "40 calls due at once, one thread"),
        ("kind='server', qps=2000, seconds=0.02", "from a schedule of 2000/s, one thread"),
    ],
)
def test_the_line_says_how_calls_arrive(pytester: pytest.Pytester, load: str, arrivals: str) -> None:
    result, judgement = judged(
        pytester,
        f"@pytest.mark.hwbudget(goodput_min_qps=1, latency_p50_ms=1000)\n@pytest.mark.hwload({load})\n"
        "def test_it(hwperf): hwperf(sum, range(9))",
    )
    found = figures(judgement)

    result.assert_outcomes(passed=1)
    assert {"latency", "throughput", "goodput", "cpu_time"} <= found.keys()
    assert f"perf_counter: {arrivals}" == found["latency"]["source"]
    assert "call of a load" == found["latency"]["per"]


def test_the_load_is_a_condition_of_the_run_and_a_body_is_measured_under_it_too(pytester: pytest.Pytester) -> None:
    _, judgement = judged(pytester, f"@pytest.mark.hwbudget(latency_p50_ms=9)\n@pytest.mark.{SERVER}\ndef test_it(): 1")
    assert judgement["run"]["conditions"]["load"] == "server qps=2000 seconds=0.05 seed=1"
    assert judgement["run"]["context"]["generator_lag"].endswith("s")


def test_rows_of_multi_stream_are_those_of_a_call(pytester: pytest.Pytester) -> None:
    """Every call of rows is given as many."""
    result, judgement = judged(
        pytester,
        "@pytest.mark.hwload(kind='multi_stream', rows=4, seconds=0.02)\n"
        "def test_it(hwperf):\n    assert hwperf(len, [1] * 12).result == 4",
    )
    result.assert_outcomes(passed=1)
    assert judgement["run"]["conditions"]["batch_size"] == "4"
    rates = figures(judgement)
    assert rates["sample_throughput"]["estimate"]["value"] == pytest.approx(
        4 * rates["throughput"]["estimate"]["value"], rel=0.01
    )


def test_async_calls_are_tasks(pytester: pytest.Pytester) -> None:
    result, judgement = judged(
        pytester,
        f"import asyncio\n@pytest.mark.{SERVER}\ndef test_it(hwperf):\n"
        "    async def call(): await asyncio.sleep(0)\n    hwperf(call)",
    )
    result.assert_outcomes(passed=1)
    assert figures(judgement)["latency"]["source"].endswith("tasks, at most 256 at once")


def test_items_of_streams_are_measured_under_a_load(pytester: pytest.Pytester) -> None:
    _, judgement = judged(
        pytester,
        f"@pytest.mark.{SERVER}\ndef test_it(hwperf):\n    def stream(): yield from range(3)\n    hwperf(stream)",
    )
    assert figures(judgement)["first_item"]["estimate"]["n"] == figures(judgement)["latency"]["estimate"]["n"]


def test_too_few_calls_are_not_applicable_and_their_budget_is_inconclusive(pytester: pytest.Pytester) -> None:
    result, judgement = judged(
        pytester,
        f"@pytest.mark.hwbudget(latency_p99_ms=1000)\n@pytest.mark.{SERVER}\ndef test_it(hwperf): hwperf(sum, [1])",
    )
    (verdict,) = judgement["verdicts"]
    assert "inconclusive" == verdict["outcome"]
    assert "p99 has no upper 99 % bound below n=662, have n=" in verdict["reason"]
    result.stdout.re_match_lines([r"\s*latency p99\s+n/a\s.*"])


def test_goodput_without_a_bound_says_what_it_needs(pytester: pytest.Pytester) -> None:
    result, _ = judged(
        pytester,
        f"@pytest.mark.hwbudget(goodput_min_qps=1)\n@pytest.mark.{SERVER}\ndef test_it(hwperf): hwperf(sum, [1])",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["goodput unmeasured*hwload(within_ms=...), or a budget on a percentile*"])


def test_a_call_that_fails_under_the_load_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import threading
        import pytest
        @pytest.mark.hwload(kind="offline", calls=20, in_flight=2)
        def test_it(hwperf):
            hwperf(lambda: 1 / (threading.current_thread() is threading.main_thread()))
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ZeroDivisionError*", "*hwperf: 20 of 20 calls failed under the load offline*"])


@pytest.mark.parametrize(
    ("marker", "reported"),
    [
        ("hwload(kind='servr', qps=2)", "kind='servr' is no load. Did you mean 'server'? Allowed: "),
        ("hwload('server')", "hwload('server'): only keywords are taken, such as hwload(kind="),
        ("hwload()", "hwload(): name at least one keyword, such as hwload(kind="),
        ("hwload(kind='server', qps=2, second=3)", "Did you mean 'seconds'? Allowed: qps, seconds, "),
    ],
)
def test_a_bad_load_is_a_usage_error(pytester: pytest.Pytester, marker: str, reported: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_it(hwperf): raise SystemExit('ran')")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert reported in result.stderr.str()


def test_a_load_on_a_test_that_measures_nothing_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{SERVER}\ndef test_it(): pass")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*hwload: nothing of this test is measured*"])


def test_rows_are_given_once() -> None:
    load = Load(kind="multi_stream", rows=4)
    assert [4, 4] == [batch_size_under(load, size) for size in (None, 4)]
    assert 3 == batch_size_under(None, 3) == batch_size_under(Load(kind="offline"), 3)
    with pytest.raises(UsageProblem, match="give the rows of a call once"):
        batch_size_under(load, 3)


def test_a_turn_of_a_pair_is_a_piece_of_the_load() -> None:
    made, stream = list[int](), Stream(lambda: made.append(1), None)
    stream.first()
    block = block_under(Load(kind="server", qps=5000, seconds=60))
    assert block is not None
    assert 7 == len(block(stream, 7).due) == len(made) - 1
    assert block_under(None) is None
    with pytest.raises(MeasurementError, match="5 calls a second are the fewest"):
        block_under(Load(kind="server", qps=4))


def test_a_turn_of_a_load_of_processes_is_the_share_of_one() -> None:
    """At a fourth of the rate, in one thread, so that no call waits for the lock of another."""
    made, stream = list[int](), Stream(lambda: made.append(threading.get_ident()), None)
    stream.first()
    load = Load(kind="server", qps=8000, seconds=60, in_flight=4, carriers="processes")
    block = block_under(load)
    assert block is not None
    served = block(stream, 5)
    assert [threading.get_ident()] * 6 == made
    assert schedule(piece_of(replace(load, qps=2000), 5)) == served.due
    with pytest.raises(MeasurementError, match="5 calls a second are the fewest"):
        block_under(replace(load, qps=12))


def test_the_peak_of_memory_is_that_of_the_load() -> None:
    """The first call is alone, the second one is the whole load, and those after it are alone again."""
    made = list[int]()
    subject = subject_of_callable(lambda: made.append(1), (), {}, y_true=None, batch_size=None)
    call, counts = loader_of(subject, partial(served_by, Load(kind="offline", calls=9)))(), list[int]()
    for _ in range(3):
        call()
        counts.append(len(made))
    assert [1, 10, 11] == counts


PROCESSES = "hwload(kind='offline', calls=60, in_flight=2, carriers='processes')"


def test_processes_carry_the_calls_and_count_their_own_time(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body reads the value of a call here; what runs here meanwhile is no part of the load."""

    def run(load: Load, task: WorkerTask, _command: Any, times: Times) -> float:
        assert (2, "load") == (load.processes, task.role)
        for number in range(60):
            times.note(number, 0.0, 0.0, 0.001 * (number + 1))
        return 0.03

    monkeypatch.setattr("pytest_hwperf.plugin.loads.run_by_processes", run)
    result, judgement = judged(
        pytester,
        f"@pytest.mark.{PROCESSES}\n@pytest.mark.hwbudget(cpu_time_max_ms=1, energy_budget_mj=1)\n"
        "def test_it(hwperf): assert hwperf(sum, [1, 2]).result == 3",
    )
    found = figures(judgement)
    assert found["latency"]["source"] == "perf_counter: 60 calls due at once, 2 processes"
    assert found["cpu_time"]["estimate"]["value"] == pytest.approx(0.0005)
    assert found["throughput"]["estimate"]["value"] == pytest.approx(1000)
    assert judgement["run"]["conditions"]["load"] == "offline calls=60 in_flight=2 carriers=processes"
    result.stdout.fnmatch_lines(["energy unmeasured*energy is not counted where processes carry the calls*"])


def test_async_calls_under_processes_are_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"import pytest\n@pytest.mark.{PROCESSES}\ndef test_it(hwperf):\n    async def call(): pass\n    hwperf(call)"
    )
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*hwload(carriers='processes'): async calls only wait*leave carriers= out*"])


@pytest.mark.live
@pytest.mark.usefixtures("other_plugins")
def test_two_processes_share_a_load(pytester: pytest.Pytester) -> None:
    """Each call of the schedule is made once, by one of the two; they say which."""
    _, judgement = judged(
        pytester,
        """
import os, pathlib
@pytest.mark.hwload(kind="server", qps=400, seconds=0.3, in_flight=2, carriers="processes")
def test_it(hwperf):
    hwperf(lambda: pathlib.Path(f"called_by_{os.getpid()}").touch())
""",
    )
    asked = Load(kind="server", qps=400, seconds=0.3, in_flight=2, carriers="processes")
    assert figures(judgement)["latency"]["estimate"]["n"] == len(schedule(asked))
    assert len([*pytester.path.glob("called_by_*")]) == 3  # the test's own, and two
