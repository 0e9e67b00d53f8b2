"""What disturbed a measurement stands in its run and below the table."""

import json
from pathlib import Path

import pytest

from pytest_hwperf.host.disturbance import MachineCpuTime, Snapshot
from pytest_hwperf.host.machine import describe_machine

QUICK = ("-v", "--hwperf-energy=off", "--hwperf-sample-time=0.05")
SIMULATED = (*QUICK, "-pfakes.simulated_time")


def test_more_threads_than_cores_are_a_footnote(pytester: pytest.Pytester) -> None:
    """The scenario is measured as asked, and the timings say what to set."""
    threads = describe_machine().cores + 1
    pytester.makepyfile(
        f"""
        from fakes.simulated_time import spend
        from pytest_hwperf import Predictor, Scenario
        from pytest_hwperf.plugin.fixture.targets import ReadyScenario

        crowd = Scenario(
            name="own", imports=(), conditions={{"threads": "{threads}"}}, context={{}}, model_bytes=1,
            size_source="file", classifies=False,
            load=lambda: Predictor(batches=lambda X, size: [X], predict=lambda _: spend(1000), labels=list),
        )

        def test_crowd(hwperf):
            hwperf(ReadyScenario(name="own", scenario=crowd, X=[1], y=None, reference=lambda: crowd))
        """
    )
    result = pytester.runpytest_inprocess(*SIMULATED)
    result.assert_outcomes(passed=1)
    said = " ".join(result.stdout.str().split())
    assert f"wait for each other: set threads={threads - 1}, or allot more cores" in said


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this system does not tell how long a thread waits"
)
def test_threads_of_a_callable_that_wait_for_a_processor_are_a_footnote(pytester: pytest.Pytester) -> None:
    """Threads that no numerical library has made: they are seen as they compute."""
    threads = 6 * describe_machine().cores
    pytester.makepyfile(
        f"""
        from concurrent.futures import ThreadPoolExecutor
        from hashlib import sha256

        POOL, DATA = ThreadPoolExecutor({threads}), bytes(2_000_000)

        def digests():  # hashing lets go of the interpreter's lock
            list(POOL.map(lambda _: sha256(DATA).digest(), range({threads})))

        def test_crowd(hwperf):
            hwperf(digests)
        """
    )
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-sample-time=0.4")
    result.assert_outcomes(passed=1)
    assert "computed at once and waited" in result.stdout.str()


def test_a_quota_that_stops_the_process_is_a_footnote(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seven periods since the first reading, as the call itself writes them."""
    stat = tmp_path / "cpu.stat"
    stat.write_text("nr_throttled 1\nthrottled_usec 0\n")
    monkeypatch.setattr("pytest_hwperf.host.disturbance.control_groups", lambda *_: [tmp_path])
    pytester.makepyfile(
        f"""
        from pathlib import Path
        from fakes.simulated_time import spend

        def call():
            spend(1000)
            Path({str(stat)!r}).write_text("nr_throttled 8\\nthrottled_usec 50000\\n")

        def test_stopped(hwperf):
            hwperf(call)
        """
    )
    result = pytester.runpytest_inprocess(*SIMULATED)

    result.assert_outcomes(passed=1)
    assert "stopped its processes in 7 periods, 50.0 ms of CPU time in all" in result.stdout.str()


def test_every_run_keeps_what_disturbed_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """7 switches, 10 of 1000 s stolen, and the load at the end; none is much, so that nothing is warned of."""
    snapshots = iter(
        [
            Snapshot(switches=3, cpu=MachineCpuTime(1.0, 5.0, 1000.0), load=0.25, wall_s=0.0),
            Snapshot(switches=10, cpu=MachineCpuTime(1.0, 15.0, 2000.0), load=0.5, wall_s=1.0),
        ]
    )
    monkeypatch.setattr("pytest_hwperf.plugin.measuring.run.snapshot", lambda **_: next(snapshots))
    pytester.makepyfile("from fakes.simulated_time import spend\ndef test_it(hwperf): hwperf(spend, 1000)")
    result = pytester.runpytest_inprocess(*SIMULATED, "--hwperf-report=report.json")
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    (judgement,) = report["judgements"]

    result.assert_outcomes(passed=1)
    assert {"involuntary_switches": "7", "load_1min": "0.50", "steal": "1.0%"} == judgement["run"]["context"]
