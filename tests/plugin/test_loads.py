"""Tests under a load: the marker `hwload`, what is measured under it, and how its lines say so."""

import json
import sys
import threading
from functools import partial
from typing import Any

import pytest

from pytest_hwperf.gate.models.load import served_by
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.loads.local import Times, schedule
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.measure.subjects import loader_of, subject_of_callable
from pytest_hwperf.plugin.measuring.load import batch_size_under, block_under
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.service.loads import piece_of

QUICK = ("-v", "--hwperf-sample-time=0.02", "--hwperf-energy=off", "--hwperf-report=report.json")
PROCESSES = "hwload(kind='offline', calls=60, in_flight=2, carriers='processes')"
SERVER = "hwload(kind='server', qps=2000, seconds=0.05)"


def judgements(pytester: pytest.Pytester) -> dict[str, Any]:
    """Return those of the last run by the names of their tests."""
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    return {one["run"]["test"].partition("::test_")[2]: one for one in report["judgements"]}


def figures(judgement: dict[str, Any]) -> dict[str, Any]:
    return {figure["metric"]: figure for figure in judgement["figures"]}


LOADS = f"""
import asyncio
import pytest

budget = pytest.mark.hwbudget(goodput_min_qps=1, latency_p50_ms=1000)

@budget
@pytest.mark.hwload(kind="single_stream", seconds=0.02)
def test_single(hwperf): hwperf(sum, range(9))

@budget
@pytest.mark.hwload(kind="concurrency", in_flight=2, seconds=0.02)
def test_concurrency(hwperf): hwperf(sum, range(9))

@budget
@pytest.mark.hwload(kind="offline", calls=40)
def test_offline(hwperf): hwperf(sum, range(9))

@budget
@pytest.mark.hwload(kind="server", qps=2000, seconds=0.02)
def test_server(hwperf): hwperf(sum, range(9))

@pytest.mark.hwload(kind="multi_stream", rows=4, seconds=0.02)
def test_rows(hwperf): assert hwperf(len, [1] * 12).result == 4

@pytest.mark.{SERVER}
def test_async(hwperf):
    async def call(): await asyncio.sleep(0)
    hwperf(call)

@pytest.mark.{SERVER}
def test_stream(hwperf):
    def stream(): yield from range(3)
    hwperf(stream)

@pytest.mark.hwbudget(latency_p50_ms=9)
@pytest.mark.{SERVER}
def test_body(): 1

@pytest.mark.hwbudget(latency_p99_ms=1000)
@pytest.mark.{SERVER}
def test_few(hwperf): hwperf(sum, [1])
"""


def test_calls_are_made_under_the_load_of_their_test(pytester: pytest.Pytester) -> None:
    """Each source says how they arrive; the load is a condition of the run, also of a body."""
    pytester.makepyfile(test_it=LOADS)
    result = pytester.runpytest_inprocess(*QUICK)
    judged = judgements(pytester)
    found = {name: figures(judgement) for name, judgement in judged.items()}
    rows, stream, (few,) = found["rows"], found["stream"], judged["few"]["verdicts"]

    result.assert_outcomes(passed=9)
    assert {
        "single": "perf_counter: calls one after the other, one thread",
        "concurrency": "perf_counter: a closed loop of 2, which hides queueing, 2 threads",
        "offline": "perf_counter: 40 calls due at once, one thread",
        "server": "perf_counter: from a schedule of 2000/s, one thread",
        "async": "perf_counter: from a schedule of 2000/s, tasks, at most 256 at once",
    } == {name: found[name]["latency"]["source"] for name in ("single", "concurrency", "offline", "server", "async")}
    for name in ("single", "concurrency", "offline", "server"):
        assert {"latency", "throughput", "goodput", "cpu_time"} <= found[name].keys()
        assert "call of a load" == found[name]["latency"]["per"]
    assert "server qps=2000 seconds=0.05 seed=1" == judged["body"]["run"]["conditions"]["load"]
    assert judged["body"]["run"]["context"]["generator_lag"].endswith("s")
    assert "4" == judged["rows"]["run"]["conditions"]["batch_size"]
    rate = rows["throughput"]["estimate"]["value"]
    assert pytest.approx(4 * rate, rel=0.01) == rows["sample_throughput"]["estimate"]["value"]
    assert stream["first_item"]["estimate"]["n"] == stream["latency"]["estimate"]["n"]
    assert "inconclusive" == few["outcome"]
    assert "p99 has no upper 99 % bound below n=662, have n=" in few["reason"]
    result.stdout.re_match_lines([r"\s*latency p99\s+n/a\s.*"])


def test_tests_that_fail_under_a_load_say_why(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import threading
        import pytest

        @pytest.mark.hwbudget(goodput_min_qps=1)
        @pytest.mark.{SERVER}
        def test_unbounded(hwperf): hwperf(sum, [1])

        @pytest.mark.hwload(kind="offline", calls=20, in_flight=2)
        def test_raising(hwperf):
            hwperf(lambda: 1 / (threading.current_thread() is threading.main_thread()))

        @pytest.mark.{PROCESSES}
        def test_async(hwperf):
            async def call(): pass
            hwperf(call)
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "goodput unmeasured*hwload(within_ms=...), or a budget on a percentile*",
            "*ZeroDivisionError*",
            "*hwperf: 20 of 20 calls failed under the load offline*",
            "*hwload(carriers='processes'): async calls only wait*leave carriers= out*",
        ]
    )


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


@pytest.mark.skipif(sys.platform == "win32", reason="processes carry loads on POSIX only")
def test_processes_carry_the_calls_and_count_their_own_time(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body reads the value of a call here; what runs here meanwhile is no part of the load."""

    def run(load: Load, task: WorkerTask, _command: Any, times: Times) -> float:
        assert (2, "load") == (load.processes, task.role)
        for number in range(60):
            times.note(number, 0.0, 0.0, 0.001 * (number + 1))
        return 0.03

    monkeypatch.setattr("pytest_hwperf.plugin.measuring.load.run_by_processes", run)
    pytester.makepyfile(
        f"""
        import pytest
        @pytest.mark.{PROCESSES}
        @pytest.mark.hwbudget(cpu_time_max_ms=1, energy_budget_mj=1)
        def test_it(hwperf): assert hwperf(sum, [1, 2]).result == 3
        """
    )
    result = pytester.runpytest_inprocess(*QUICK)
    judgement = judgements(pytester)["it"]
    found = figures(judgement)
    assert found["latency"]["source"] == "perf_counter: 60 calls due at once, 2 processes"
    assert found["cpu_time"]["estimate"]["value"] == pytest.approx(0.0005)
    assert found["throughput"]["estimate"]["value"] == pytest.approx(1000)
    assert judgement["run"]["conditions"]["load"] == "offline calls=60 in_flight=2 carriers=processes"
    result.stdout.fnmatch_lines(["energy unmeasured*energy is not counted where processes carry the calls*"])


@pytest.mark.live
@pytest.mark.usefixtures("other_plugins")
def test_two_processes_share_a_load(pytester: pytest.Pytester) -> None:
    """Each call of the schedule is made once, by one of the two; they say which."""
    pytester.makepyfile(
        """
        import os, pathlib
        import pytest
        @pytest.mark.hwload(kind="server", qps=400, seconds=0.3, in_flight=2, carriers="processes")
        def test_it(hwperf): hwperf(lambda: pathlib.Path(f"called_by_{os.getpid()}").touch())
        """
    )
    pytester.runpytest_inprocess(*QUICK).assert_outcomes(passed=1)
    asked = Load(kind="server", qps=400, seconds=0.3, in_flight=2, carriers="processes")
    assert figures(judgements(pytester)["it"])["latency"]["estimate"]["n"] == len(schedule(asked))
    assert len([*pytester.path.glob("called_by_*")]) == 3  # the test's own, and two
