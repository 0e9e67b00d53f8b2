"""`hwperf.compare(...)`: two models of the user's from within a test."""

from array import array

import pytest
from fakes.played_models import out_of_time, play
from fakes.records import comparison_verdict

from pytest_hwperf.cli import main
from pytest_hwperf.gate.turns import processors
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.records.verdict import ComparisonOutcome

MODELS = """
def quick(X):
    return X[:, 0]


def slow(X):
    sum(range(4000))
    return X[:, 0]
"""
TESTS = """
import numpy as np

X = np.ones((8, 3))


def test_models(hwperf):
    found = hwperf.compare({{"v1": "models:{old}", "v2": "models:{new}"}}, X)
    assert [one.metric for one in found] == ["latency"]
"""


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs")
def test_a_slower_model_fails_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(models=MODELS, test_models=TESTS.format(old="quick", new="slow"))
    result = pytester.runpytest_inprocess("--hwperf-report=report.json")

    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [r"latency p50 ×.*\[v2 against v1\]", r"  p=.*, \d+ fresh pairs, exact signed-rank.*per comparison"]
    )
    result.stdout.no_fnmatch_line("*unmeasured*")
    found = from_json(ReportFile, (pytester.path / "report.json").read_text(encoding="utf-8")).report
    assert [gate.against for gate in found.gates] == ["models:quick"]
    shared = {coin.processor for pair in found.gates[0].evidence.pairs for coin in pair.assignments}
    assert shared <= set[int | None](processors() or [None])
    assert main(["report", str(pytester.path / "report.json"), "--verify"]) == 0


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs")
def test_a_faster_model_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(models=MODELS, test_models=TESTS.format(old="slow", new="quick"))
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["hwperf: screen pair 1 of 6*", "hwperf: screen pair 6 of 6*"])


def test_a_disabled_run_compares_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf):\n    assert hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1]]) == ()\n")
    pytester.runpytest_inprocess("--hwperf-disable").assert_outcomes(passed=1)


@pytest.fixture
def _compared_at_once(monkeypatch: pytest.MonkeyPatch, outcome: ComparisonOutcome) -> None:
    evidence = Evidence(alpha=0.01, hypotheses=(), pairs=(), fixed_samples=())
    gate = Gate(against="x:y", revision="", seed=0, evidence=evidence, shared={}, seconds={})
    found = comparison_verdict("latency", "p50", outcome, (0.05, 0.04, 0.06)).subject
    monkeypatch.setattr("pytest_hwperf.gate.models.compare_models", lambda *_: ((found,), gate))


@pytest.mark.usefixtures("_compared_at_once")
@pytest.mark.parametrize(("outcome", "ended"), [("equivalent", "passed"), ("regressed", "failed")])
def test_a_comparison_leaves_nothing_to_save_or_to_accept(pytester: pytest.Pytester, ended: str) -> None:
    """It has no figure that a later run could be compared with."""
    pytester.makepyfile("def test_it(hwperf): hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1]])\n")
    result = pytester.runpytest_inprocess("--hwperf-save")

    result.assert_outcomes(**{ended: 1})
    result.stdout.fnmatch_lines(["hwperf: 0 runs saved to baseline main in *"])
    result.stdout.no_fnmatch_line("*baseline accept*")
    assert [] == list(pytester.path.rglob("*.jsonl"))


@pytest.mark.parametrize(("more", "ended"), [([], "passed"), (["--hwperf-strict"], "failed")])
def test_a_time_that_is_up_in_the_first_pair_is_inconclusive(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, more: list[str], ended: str
) -> None:
    play(monkeypatch, out_of_time, label="b against a")
    pytester.makepyfile("def test_it(hwperf): assert hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1.0]])\n")
    result = pytester.runpytest_inprocess("--hwperf-time-limit=6", *more)
    result.assert_outcomes(**{ended: 1})
    result.stdout.fnmatch_lines(["*inconclusive*latency p50*", "*the time of 6 s was too short"])


@pytest.mark.parametrize(
    ("count", "whole"),
    [(1, "at most 1 % false alarms per build"), (3, "in each of 3 comparisons in pairs, 3 % in all")],
)
def test_each_comparison_says_that_its_false_alarm_rate_is_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, count: int, whole: str
) -> None:
    right = {"baseline": array("d", [1.0] * 40), "candidate": array("d", [0.0] * 40)}
    play(monkeypatch, out_of_time, right.__getitem__, label="b against a")
    call = "hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1.0]], y_true=[1])"
    pytester.makepyfile("".join(f"def test_{number}(hwperf): {call}\n" for number in range(count)))
    result = pytester.runpytest_inprocess("--hwperf-report=report.html", "--hwperf-report=report.md")

    result.assert_outcomes(failed=count)
    result.stdout.fnmatch_lines(["  p=*McNemar*at most 1 % false alarms per comparison (*"])
    result.stdout.no_fnmatch_line("  p=*per build*")
    assert whole in (pytester.path / "report.md").read_text(encoding="utf-8")


MEASURE, COMPARE = "hwperf(int, label='v')", "hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1]], label='v')"


@pytest.mark.usefixtures("_compared_at_once")
@pytest.mark.parametrize("outcome", ["equivalent"])
@pytest.mark.parametrize(
    ("first", "second", "reported"),
    [
        (MEASURE, COMPARE, "hwperf.compare: the label 'v' is used twice; give each its own label="),
        (COMPARE, COMPARE, "hwperf.compare: the label 'v' is used twice; give each its own label="),
        (
            COMPARE,
            MEASURE,
            "label='v' is used twice: give each hwperf(...) of a test its own, such as label='batch 32'",
        ),
    ],
)
def test_a_label_names_one_measurement_or_comparison(
    pytester: pytest.Pytester, first: str, second: str, reported: str
) -> None:
    pytester.makepyfile(f"def test_it(hwperf):\n    {first}\n    {second}\n")
    result = pytester.runpytest_inprocess("--hwperf-sample-time=0.05", "--hwperf-energy=off")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*UsageProblem: {reported}*"])


@pytest.mark.parametrize("models", ["{'a': 'x:y'}", "['x:y', 'x:z']", "{'a': print, 'b': print}"])
def test_anything_but_two_models_is_refused(pytester: pytest.Pytester, models: str) -> None:
    pytester.makepyfile(f"def test_it(hwperf):\n    hwperf.compare({models}, [[1.0]])\n")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*UsageProblem: hwperf.compare takes two names with their models, the base*"])


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs")
def test_a_model_that_cannot_be_loaded_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf):\n    hwperf.compare({'a': 'none:f', 'b': 'none:f'}, [[1.0]])\n")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*UsageProblem: none:f cannot be measured: none:f cannot be imported*"])
