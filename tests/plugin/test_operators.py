"""`--hwperf-operators`: where the time of a call goes, asked of the runtime when the latency has been taken."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.worker_items import item_in_a_fresh_process

from pytest_hwperf.host.machine import describe_machine, save_peaks
from pytest_hwperf.host.worker_protocol import WorkerTask, decode_result
from pytest_hwperf.plugin.worker.roles import OneShotWorker
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.profiles import PeakRate, Peaks, ProfiledCalls

QUICK = ("-p", "fakes.simulated_time", "--hwperf-energy=off", "--hwperf-report=report.json")
TEST = """
import pytest
from dataclasses import replace
from fakes.simulated_time import spend
from pytest_hwperf import Predictor, Scenario
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.profiles import ProfiledCalls, ProfiledOperator
from pytest_hwperf.records.profiles import Work
from pytest_hwperf.plugin.fixture.targets import ReadyScenario

def predict(batch):
    spend(1000)
    return 1.0

def plain():
    return Scenario(
        name="plain", imports=(), conditions={}, context={}, model_bytes=1, size_source="file", classifies=False,
        load=lambda: Predictor(batches=lambda X, size: [X], predict=predict, labels=lambda outputs: outputs),
    )

def operators(X, batch_size):
    gemm = ProfiledOperator(name="layer", kind="Gemm", calls=1, seconds=9e-3)
    return ProfiledCalls(source="fake profile", operators=(gemm,), call_s=1e-2, calls=9, rows=batch_size)

def work(batch_size): return Work(flops=1e6 * batch_size, moved_bytes=1e4, nodes=1)
def no_work(batch_size): raise MeasurementError("its graph is torn")
def no_operators(X, batch_size): raise MeasurementError("its profile is torn")

SCENARIOS = (
    plain(),
    replace(plain(), name="profiled", operators=operators, work=work),
    replace(plain(), name="broken", operators=no_operators, work=no_work),
)

def test_it(hwperf):
    for scenario in SCENARIOS:
        ready = ReadyScenario(name=scenario.name, scenario=scenario, X=[1, 2], y=None, reference=plain)
        run = hwperf(ready, batch_size=2, label=scenario.name)
        assert run.result == 1.0
    hwperf(spend, 10, label="callable")
"""
NODE = "test_it.py::test_it"


def run(pytester: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, dict[str, Any]]:
    """Return the run, and of each label what the JSON report holds."""
    pytester.makepyfile(test_it=TEST)
    result = pytester.runpytest_inprocess(*QUICK, *options)
    result.assert_outcomes(passed=1)
    written = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]["judgements"]
    return result, {one["run"]["label"]: one["run"]["operators"] for one in written}


def test_operators_are_scaled_to_the_measured_median(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """90 % of a call of 1 ms, whatever the calls under the profiler took. A baseline keeps none of them."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(pytester.path))
    result, written = run(pytester, "--hwperf-operators", "--hwperf-save")
    stored = [path.read_text(encoding="utf-8") for path in (pytester.path / ".hwperf").rglob("*.jsonl")]
    result.stdout.fnmatch_lines(
        [
            f"operators of {NODE} plain",
            "  withheld: the runtime of plain shows no operators",
            f"operators of {NODE} profiled",
            "  90 % of * a call; fake profile, n=9 calls, scaled to the median without a profiler",
            "    Gemm  *90.0 %*s * layer",
            "    framework*10.0 %*s",
            f"operators of {NODE} broken",
            "  withheld: its profile is torn",
        ]
    )
    result.stdout.fnmatch_lines(["  what limits it is not known: *hwperf doctor*"])  # which measures numpy's rates
    assert written["callable"] is None
    assert 9e-4 == pytest.approx(written["profiled"]["operators"][0]["seconds"], rel=0.05)
    assert {False} == {"fake profile" in text for text in stored}


def test_a_latency_under_a_load_is_not_shared_out(pytester: pytest.Pytester) -> None:
    """It holds waiting, which is no operator's."""
    under = "@pytest.mark.hwload(kind='offline', calls=3)\ndef test_it"
    pytester.makepyfile(test_it=TEST.replace("def test_it", under))
    result = pytester.runpytest_inprocess(*QUICK, "-ohwperf_operators=true")
    lines = [f"operators of {NODE} profiled", "  withheld: a latency under a load holds waiting too*"]
    result.stdout.fnmatch_lines(lines)


def test_nothing_is_profiled_unasked(pytester: pytest.Pytester) -> None:
    result, written = run(pytester)
    assert written["profiled"] is None
    assert "operators of" not in result.stdout.str()


def test_the_work_of_a_call_is_held_against_numpy(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 MFLOP in 1 ms; at 4 GFLOP/s they take half of it."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(pytester.path))
    save_peaks(describe_machine(), Peaks(rates=(PeakRate(threads=1, flops_per_s=4e9, bytes_per_s=1e9),)))
    known, _ = run(pytester, "--hwperf-operators")
    lines = ["  a call: 2.00 MFLOP, 10.0 kB *", "  compute-bound: at the rates that numpy reaches here (4.00 GFLOP/s*"]
    known.stdout.fnmatch_lines(lines)
    assert 1 == known.stdout.str().count("a call: 2.00 MFLOP")


def answer(tmp_path: Path, item: pytest.Item, profile: Any) -> tuple[ProfiledCalls | None, Any]:
    """Return what a fresh process replies whose measurement has this profile."""
    reply = tmp_path / "reply.json"
    task = WorkerTask(role="operators", node=item.nodeid, reply_to=str(reply))
    subject: Any = SimpleNamespace(profile=profile, elsewhere=False)
    with pytest.raises(pytest.skip.Exception):
        OneShotWorker(task).measure(item_in_a_fresh_process(item.nodeid), subject, "")
    result = decode_result(reply.read_bytes())
    return result.operators, result.reasons


def test_a_fresh_process_profiles_once_or_says_why_there_is_no_profile(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = ProfiledCalls(source="fake", operators=(), call_s=1e-3, calls=20, rows=256)

    def torn() -> None:
        raise MeasurementError("its profile is torn")

    assert (found, {}) == answer(tmp_path, request.node, lambda: found)
    assert (None, {"operators": "its runtime shows no operators"}) == answer(tmp_path, request.node, None)
    assert (None, {"operators": "its profile is torn"}) == answer(tmp_path, request.node, torn)
