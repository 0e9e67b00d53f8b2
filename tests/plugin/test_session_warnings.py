"""Warnings of a whole session: what its measurements say together."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from fakes import records as fake

from pytest_hwperf.plugin.reporting.report import (
    _interrupted,
    _lost_classes,
    _shared_causes,
    _slower_int8,
    not_compared,
)
from pytest_hwperf.plugin.session.settings import read_settings
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import ComparisonOutcome, Judgement


def judged(test: str, scenario: str, precision: str, seconds: float, label: str = "") -> Judgement:
    run = fake.run(test=test, scenario=scenario, label=label)
    conditions = {**run.conditions, "form": "MatMul", "precision": precision}
    figure = fake.figure(at=fake.estimate(seconds, seconds, seconds, 100))
    return Judgement(run=replace(run, conditions=conditions), figures=(figure,), verdicts=())


def both(test: str, int8: float) -> list[Judgement]:
    return [
        judged(f"{test}[onnx_fp32]", "onnx_fp32", "float32", 10e-6),
        judged(f"{test}[onnx_int8]", "onnx_int8", "int8 static", int8),
    ]


def test_slower_scenarios_are_named_once_for_the_session() -> None:
    maybe, slower = both("t.py::z", 15e-6), [one for name in "abcde" for one in both(f"t.py::{name}", 20e-6)]
    assert [*_slower_int8([*maybe, *slower])] == [
        (
            "INT8 is slower than FP32, median of a call: "
            "t.py::a[onnx_int8]: onnx_int8 takes 20.0 µs, onnx_fp32 10.0 µs (×2.0); "
            "t.py::b[onnx_int8]: onnx_int8 takes 20.0 µs, onnx_fp32 10.0 µs (×2.0); "
            "t.py::c[onnx_int8]: onnx_int8 takes 20.0 µs, onnx_fp32 10.0 µs (×2.0); and 2 others"
        ),
        (
            "INT8 may be slower than FP32, median of a call: "
            "t.py::z[onnx_int8]: onnx_int8 takes 15.0 µs, onnx_fp32 10.0 µs (+50.0 %)"
            ". Measure in pairs: hwperf tradeoffs --pairs -- t.py::z"
        ),
    ]


def test_scenarios_of_different_tests_are_not_held_against_each_other() -> None:
    fp32, _ = both("t.py::a", 5e-6)
    _, int8 = both("t.py::b", 15e-6)
    assert [] == [*_slower_int8([fp32, int8])]


def test_scenarios_told_apart_by_label_belong_together() -> None:
    for seconds, named in ((15e-6, True), (5e-6, False)):
        judgements = [
            judged("t.py::t", "onnx_fp32", "float32", 10e-6, "onnx_fp32"),
            judged("t.py::t", "onnx_int8", "int8 dynamic", seconds, "onnx_int8"),
        ]
        assert named == ("t.py::t: onnx_int8 takes 15.0 µs" in "".join(_slower_int8(judgements)))


@pytest.mark.parametrize("outcome", ["equivalent", "regressed"])
def test_a_class_that_a_change_loses_is_named_unless_its_test_fails(outcome: ComparisonOutcome) -> None:
    """The failure of a test names it already."""
    lost = state("class lost", classes="class 3: 41 of 45 → 2 of 45", p=1e-12, of=10)
    judgement = fake.plain_judgement()
    compared = replace(judgement.comparisons[0], outcome=outcome, moved=lost)
    verdict = replace(judgement.verdicts[0], subject=compared, outcome=outcome)
    said = [*_lost_classes([replace(judgement, verdicts=(verdict,))])]
    assert (outcome == "equivalent") == (len(said) == 1)
    assert all("against the baseline: class 3: 41 of 45 → 2 of 45 right" in one for one in said)


GREEN = """
import pytest
@pytest.mark.hwbudget(latency_p95_ms=5)
def test_measured(): pass
def test_plain(): pass
def test_benchmarked(benchmark): pass
"""
# Options, whether a test is selected by its name → what is said to be left out.
LEFT_OUT: Sequence[tuple[Sequence[str], Sequence[str], str]] = (
    ((), ("measured", "plain", "benchmarked"), "2 tests that measure nothing (add --hwperf-all), "),
    ((), ("measured", "benchmarked"), "1 test that measures nothing (add --hwperf-benchmark), "),
    ((), ("measured",), ""),
    (("--hwperf-all",), ("measured", "plain"), ""),
)


def test_a_green_comparison_names_what_it_left_out(pytester: pytest.Pytester) -> None:
    """Tests that measure nothing, and statistics that nobody has named; what is named can be typed."""
    items = {item.name.removeprefix("test_"): item for item in pytester.getitems(GREEN)}
    report = gate_report("equivalent")
    for options, names, tests in LEFT_OUT:
        settings = read_settings(pytester.parseconfig(*options))
        (said,) = not_compared(settings, [items[name] for name in names], report)
        statistics = "latency p95 (add --hwperf-margin=latency_p95=10%), memory (add --hwperf-margin=memory=1%)"
        assert f"not compared: {tests}{statistics}" == said
    named = re.findall(r"--hwperf-margin=\S+%", said)
    margins = read_settings(pytester.parseconfig(*named)).margins
    assert [("latency", "p95"), ("memory", "p50")] == [one.key for one in margins]


def test_a_comparison_that_is_not_green_says_nothing_of_what_it_left_out(pytester: pytest.Pytester) -> None:
    """There is enough to read; and where nothing was compared, or no code that runs has changed, all was looked at."""
    settings, items = read_settings(pytester.parseconfig()), pytester.getitems(GREEN)
    for outcome in ("regressed", "inconclusive", "no baseline"):
        assert [] == [*not_compared(settings, items, gate_report(outcome))]
    assert [] == [*not_compared(settings, items, fake.empty_report())]


def gate_report(outcome: ComparisonOutcome) -> Report:
    """Return a report of one comparison of the median latency."""
    judgement = fake.plain_judgement()
    compared = replace(judgement.comparisons[0], metric="latency", statistic="p50", outcome=outcome)
    verdict = replace(judgement.verdicts[0], subject=compared, outcome=outcome, fails=outcome == "regressed")
    return replace(fake.report(), judgements=(replace(judgement, verdicts=(verdict,)),))


def test_what_several_tests_have_in_common_is_said_once() -> None:
    """A cause that several regressions share, and that other work has kept most comparisons from an answer."""
    moved = state(
        "function moved", name="weigh", where="core.py:1", moved=1e-4, share=1.0, low=0.9, high=1.1, repeats=3
    )

    def ended(test: str, outcome: ComparisonOutcome, **known: Any) -> Judgement:
        verdict = fake.comparison_verdict("latency", "p50", outcome, (0.3, 0.2, 0.4))
        verdict = replace(verdict, subject=replace(verdict.subject, **known))
        return Judgement(run=fake.run(test=test), figures=(), verdicts=(verdict,))

    slower = [ended(f"t.py::{name}", "regressed", moved=moved, interference=0.9) for name in "abcdef"]
    unclear = [ended(f"t.py::{name}", "inconclusive", interference=0.6) for name in "gh"]
    judgements = [*slower, *unclear, ended("t.py::i", "inconclusive", interference=0.4)]
    comparisons = [one for judgement in judgements for one in judgement.comparisons]
    assert ["6 tests regressed by one cause: weigh (core.py:1)"] == [*_shared_causes(judgements)]
    assert [] == [*_shared_causes(slower[:1])]
    most = "other work interrupted most turns of 2 inconclusive comparisons"
    assert f"{most}: stop it, or run on a machine with a free processor" == _interrupted(comparisons)
    assert "" == _interrupted(comparisons[:6])
