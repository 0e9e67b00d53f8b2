"""Accuracy by class: limits on the worst class and on the mean of classes, and the class that a scenario loses."""

import json

import pytest

QUICK = ("-p", "fakes.simulated_time", "--hwperf-energy=off", "--hwperf-report=report.json", "--hwperf-report=out")
TEST = """
import numpy as np
import pytest
from functools import partial
from fakes.simulated_time import spend
from pytest_hwperf import Predictor, Scenario
from pytest_hwperf.plugin.fixture.targets import ReadyScenario

Y = np.repeat(np.arange(10), 45)
BAD = (Y == 3) & (np.arange(len(Y)) % 45 >= 2)

def answers(X, lost):
    spend(1000)
    return np.where(lost & BAD, 4, Y) + 0 * X

@pytest.mark.hwbudget(accuracy_min=0.85, accuracy_worst_class_min=0.8, balanced_accuracy_min=0.85)
def test_whole(hwperf):
    hwperf(answers, Y, True, y_true=Y, batch_size=len(Y))

@pytest.mark.hwbudget(accuracy_worst_class_min=0.8, balanced_accuracy_min=0.85)
def test_kept(hwperf):
    hwperf(answers, Y, False, y_true=Y, batch_size=len(Y))

@pytest.mark.hwbudget(accuracy_worst_class_min=0.8)
def test_values(hwperf):
    hwperf(lambda X: spend(1000) or X, Y / 7, y_true=Y / 7, batch_size=len(Y))

def scenario_of(name, precision):
    return Scenario(
        name=name, imports=(), conditions={"precision": precision}, context={}, model_bytes=1, size_source="file",
        classifies=True, load=lambda: Predictor(
            batches=lambda X, size: [X],
            predict=lambda batch: answers(batch, "int8" in name),
            labels=lambda outputs: outputs,
        ),
    )

def test_int8(hwperf):
    for one in (scenario_of("onnx_fp32", "float32"), scenario_of("onnx_int8", "int8")):
        reference = partial(scenario_of, "onnx_fp32", "float32")
        ready = ReadyScenario(name=one.name, scenario=one, X=Y, y=Y, reference=reference)
        hwperf(ready, batch_size=len(Y), label=one.conditions["precision"])
"""


def test_a_lost_class_fails_its_limit_and_is_named(pytester: pytest.Pytester) -> None:
    """43 of 45 examples of one class in ten are wrong: 90 % of all are right."""
    pytester.makepyfile(test_it=TEST)
    result = pytester.runpytest_inprocess(*QUICK)
    shown = " ".join(result.stdout.str().split())

    result.assert_outcomes(failed=2, passed=2)
    assert "accuracy_worst_class 0.0444 (0.00232 .. 0.190), limit >= 0.8; 45 examples, class 3, callable" in shown
    assert "accuracy_worst_class unmeasured, limit >= 0.8: y_true has fractions, or more than 1,000 different" in shown
    assert (
        "test_int8 against onnx_fp32, float32: class 3: 45 of 45 → 2 of 45 right (McNemar by class, Holm over 10 cl"
        in shown
    )
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    worst = [
        one["estimate"]["value"]
        for judgement in report["judgements"]
        for one in judgement["figures"]
        if one["metric"] == "accuracy_worst_class"
    ]
    assert [pytest.approx(2 / 45), 1.0, 1.0, pytest.approx(2 / 45)] == worst
    for name in ("hardware_tradeoffs.csv", "stat_benchmark_summary.csv"):
        written = (pytester.path / "out" / name).read_text(encoding="utf-8")
        assert "accuracy_worst_class_mean" in written
        assert "balanced_accuracy_mean" in written
    summary = json.loads((pytester.path / "out/hardware_tradeoffs_summary.json").read_text(encoding="utf-8"))
    assert ["onnx_int8"] == [name.partition(",")[0] for test in summary["tests"] for name in test["lost_classes"] or ()]
