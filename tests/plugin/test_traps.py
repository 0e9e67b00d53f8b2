"""Traps of measuring: each has a sentence where a user sees it. The numbers behind them are tested where they arise."""

from pathlib import Path

import pytest

from pytest_hwperf.host.disturbance import Snapshot

QUICK = ("-v", "-p", "no:cacheprovider", "--hwperf-energy=off", "--hwperf-sample-time=0.02")
TESTS = """
import time
import numpy as np, pytest
from sklearn.linear_model import LogisticRegression

class Later:
    def is_ready(self): return False
    def block_until_ready(self): return self

@pytest.fixture
def hwperf_data(): return np.ones((60, 4), dtype="float32")

@pytest.fixture
def hwperf_model(): return LogisticRegression().fit(np.ones((60, 4)) + np.eye(60, 4), np.arange(60) % 2)

def test_cold(hwperf): hwperf(time.sleep, 0.02)

def test_batch(hwperf): hwperf(len, list(range(8)), batch_size=4)

@pytest.mark.hwbudget(latency_mean_ms=1e5)
def test_mean(): pass

@pytest.mark.hwbudget(latency_p50_ms=1e6)
@pytest.mark.hwscenarios("onnx_fp32")
def test_predictions(hwperf, scenario): hwperf(scenario)

def test_later(hwperf): hwperf(Later)

@pytest.mark.hwbudget(accuracy_min=0.7)
def test_examples(hwperf):
    X, y = np.arange(10.0).reshape(10, 1), np.array([1] * 8 + [0] * 2)
    hwperf(lambda rows: np.ones(len(rows)), X, y_true=y)
"""
SAID = (
    "no warm-up: the first call took ",  # which takes more than half of the time
    "batches of 8 rows are served",
    "limit a mean alone (latency_mean_ms,",
    "openblas may use 4,096 threads on ",
    "nothing checks its predictions: test_it.py::test_predictions[onnx_fp32]",
    "every call gets the same values (60 rows): ",
    "Later before it was computed: ",
    "10 examples cannot decide this: about 95 would",  # (30.7 / 10)²: 8 of 10 reach from 49 to 96 %
)


def shown(pytester: pytest.Pytester, source: str, *options: str) -> str:
    """Run a test and return what is shown, without the breaks between lines."""
    pytester.makepyfile(test_it=source)
    return " ".join(pytester.runpytest_inprocess(*QUICK, *options).stdout.str().split())


def test_each_trap_is_said(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none of them where the served batch is measured, a percentile limited and no pool larger than the cores."""
    pools = [{"user_api": "blas", "internal_api": "openblas", "num_threads": 4096, "version": "0.3", "prefix": ""}]
    with monkeypatch.context() as patch:
        patch.setattr("threadpoolctl.threadpool_info", lambda: pools)
        text = shown(pytester, TESTS, "-ohwperf_serving_batch=8")
    calm = "@pytest.mark.hwbudget(latency_p95_ms=1e5)\ndef test_it(hwperf): hwperf(len, [1] * 4, batch_size=4)"
    without = shown(pytester, f"import pytest\n{calm}", "-ohwperf_serving_batch=4")
    assert [] == [one for one in SAID if one not in text]
    assert [] == [one for one in ("are served", "limit a mean alone", "may use 4,096", "no warm-up") if one in without]


def test_a_machine_that_was_disturbed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Snapshot(switches=0, cpu=None, load=0.0, wall_s=0.0, heat=7, hz=3.4e9)
    moments = iter([before, before._replace(wall_s=1.0, switches=10_000, heat=9, hz=2.0e9)])
    monkeypatch.setattr("pytest_hwperf.plugin.measuring.run.snapshot", lambda **_: next(moments))
    text = shown(pytester, "def test_it(hwperf): hwperf(sum, [1])")
    assert "times a second: other work wanted the same cores" in text
    assert "thermal throttling: its counters rose by 2" in text
    assert "the clock rate fell from 3.40 to 2.00 GHz during the measurement" in text


def test_a_processor_that_becomes_slower_is_read_from_the_system(tmp_path: Path) -> None:
    """Counters of heat and the clock rate lie in sysfs, of which this is a copy."""
    from pytest_hwperf.host.disturbance import Interference, snapshot

    cpu = tmp_path / "sys/devices/system/cpu/cpu0"
    for name, text in (("thermal_throttle/core_throttle_count", "7"), ("cpufreq/scaling_cur_freq", "3400000")):
        (cpu / name).parent.mkdir(parents=True)
        (cpu / name).write_text(text, encoding="utf-8")
    watched = Interference(lambda: snapshot(tmp_path), cores=10_000)
    (cpu / "thermal_throttle/core_throttle_count").write_text("9", encoding="utf-8")
    (cpu / "cpufreq/scaling_cur_freq").write_text("2000000", encoding="utf-8")
    kinds = {statement.kind for statement in watched.end()[1]}
    assert {"heat", "clock rate"} <= kinds
