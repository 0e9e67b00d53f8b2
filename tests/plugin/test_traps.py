"""Traps of measuring: each has a sentence where a user sees it. The numbers behind them are tested where they arise."""

from pathlib import Path
from typing import Any

import pytest

from pytest_hwperf.host.disturbance import Snapshot

QUICK = ("-v", "-p", "no:cacheprovider", "-p", "no:benchmark", "--hwperf-energy=off", "--hwperf-sample-time=0.02")


def shown(pytester: pytest.Pytester, source: str, *options: str) -> str:
    """Run a test and return what is shown, without the breaks between lines."""
    pytester.makepyfile(source)
    return " ".join(pytester.runpytest_inprocess(*QUICK, *options).stdout.str().split())


def test_cold_calls_in_the_sample(pytester: pytest.Pytester) -> None:
    """The warm-up is capped by the time: the first call alone takes more than half of it."""
    text = shown(pytester, "import time\ndef test_it(hwperf): hwperf(time.sleep, 0.02)")
    assert "no warm-up: the first call took " in text
    assert "raise --hwperf-sample-time" in text


def test_another_batch_than_the_served_one(pytester: pytest.Pytester) -> None:
    source = "def test_it(hwperf): hwperf(len, list(range(8)), batch_size=4)"
    assert "warning: batches of 8 rows are served" in shown(pytester, source, "-ohwperf_serving_batch=8")
    assert "are served" not in shown(pytester, source, "-ohwperf_serving_batch=4")


def test_limits_on_means_alone(pytester: pytest.Pytester) -> None:
    source = "import pytest\n@pytest.mark.hwbudget({}=1e5)\ndef test_it(): pass"
    assert "limit a mean alone (latency_mean_ms," in shown(pytester, source.format("latency_mean_ms"))
    assert "limit a mean alone" not in shown(pytester, source.format("latency_p95_ms"))


def test_pools_larger_than_the_cores(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = [{"internal_api": "openblas", "num_threads": 4096}]
    monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: pools)
    assert "openblas may use 4,096 threads on " in shown(pytester, "def test_it(hwperf): hwperf(sum, [1])")


def test_predictions_that_nobody_checks_and_rows_that_are_the_same(pytester: pytest.Pytester) -> None:
    """One session, since the model is converted for it."""
    text = shown(
        pytester,
        """
        import numpy as np, pytest
        from sklearn.linear_model import LogisticRegression

        X = np.ones((60, 4), dtype="float32")

        @pytest.fixture
        def hwperf_data(): return X

        @pytest.fixture
        def hwperf_model(): return LogisticRegression().fit(X + np.eye(60, 4), np.arange(60) % 2)

        @pytest.mark.hwbudget(latency_p50_ms=1e6)
        @pytest.mark.hwscenarios("onnx_fp32")
        def test_it(hwperf, scenario): hwperf(scenario)
        """,
    )
    assert "nothing checks its predictions: test_predictions_that_nobody_checks" in text
    assert "every call gets the same values (60 rows): caches and branch predictors learn them" in text


def test_an_array_that_is_computed_after_its_call(pytester: pytest.Pytester) -> None:
    source = """
        class Later:
            def is_ready(self): return False
            def block_until_ready(self): return self

        def test_it(hwperf): hwperf(Later)
    """
    assert "Later before it was computed: end it with .block_until_ready()" in shown(pytester, source)


def test_too_few_examples(pytester: pytest.Pytester) -> None:
    """8 of 10 reach from 49 to 96 %, so that 0.7 is not decided: (30.7 / 10)² times as many would."""
    source = """
        import numpy as np, pytest
        X, y = np.arange(10.0).reshape(10, 1), np.array([1] * 8 + [0] * 2)

        @pytest.mark.hwbudget(accuracy_min=0.7)
        def test_it(hwperf): hwperf(lambda rows: np.ones(len(rows)), X, y_true=y)
    """
    assert "10 examples cannot decide this: about 95 would, if the share stays the same" in shown(pytester, source)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"switches": 10_000}, "times a second: other work wanted the same cores"),
        ({"heat": 9}, "thermal throttling: its counters rose by 2"),
        ({"hz": 2.0e9}, "the clock rate fell from 3.40 to 2.00 GHz during the measurement"),
    ],
    ids=["interference", "heat", "clock rate"],
)
def test_a_machine_that_was_disturbed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], sentence: str
) -> None:
    before = Snapshot(switches=0, cpu=None, load=0.0, wall_s=0.0, heat=7, hz=3.4e9)
    moments = iter([before, before._replace(wall_s=1.0, **change)])
    monkeypatch.setattr("pytest_hwperf.plugin.measurement.snapshot", lambda **_: next(moments))
    assert sentence in shown(pytester, "def test_it(hwperf): hwperf(sum, [1])")


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
