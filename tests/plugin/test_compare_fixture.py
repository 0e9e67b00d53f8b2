"""`hwperf.compare(...)`: two models of the user's from within a test."""

from array import array

import pytest
from fakes import repeated_pairs
from fakes.played_models import out_of_time, play
from fakes.records import comparison_verdict

from pytest_hwperf.cli import main
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.host.pinning import processors
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


def compared(hwperf, old, new):
    found = hwperf.compare({"v1": f"models:{old}", "v2": f"models:{new}"}, X)
    assert [one.metric for one in found] == ["latency"]


def test_slower(hwperf):
    compared(hwperf, "quick", "slow")


def test_faster(hwperf):
    compared(hwperf, "slow", "quick")


def test_missing(hwperf):
    hwperf.compare({"a": "none:f", "b": "none:f"}, [[1.0]])
"""


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs")
def test_a_slower_model_fails_its_test_a_faster_one_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each comparison one pair is real, which counts as often as is asked."""
    monkeypatch.setattr(Conductor, "conduct", repeated_pairs.conduct)
    pytester.makepyfile(models=MODELS, test_models=TESTS)
    result = pytester.runpytest_inprocess("--hwperf-report=report.json")

    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["hwperf: screen pair 1 of 6*"])
    result.stdout.re_match_lines(
        [r"latency p50 ×.*\[v2 against v1\]", r"  p=.*, \d+ fresh pairs, exact signed-rank.*per comparison"]
    )
    result.stdout.fnmatch_lines(["*UsageProblem: none:f cannot be measured: none:f cannot be imported*"])
    result.stdout.no_fnmatch_line("*unmeasured*")
    found = from_json(ReportFile, (pytester.path / "report.json").read_text(encoding="utf-8")).report
    assert ["models:quick", "models:slow"] == [gate.against for gate in found.gates]
    shared = {coin.processor for gate in found.gates for pair in gate.evidence.pairs for coin in pair.assignments}
    assert shared <= set[int | None](processors() or [None])
    assert main(["report", str(pytester.path / "report.json"), "--verify"]) == 0


def test_a_disabled_run_compares_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf):\n    assert hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1]]) == ()\n")
    pytester.runpytest_inprocess("--hwperf-disable").assert_outcomes(passed=1)


def compare_at_once(monkeypatch: pytest.MonkeyPatch, *outcomes: ComparisonOutcome) -> None:
    """Let comparisons end so, one after the other."""
    evidence = Evidence(alpha=0.01, hypotheses=(), pairs=(), fixed_samples=())
    gate = Gate(against="x:y", revision="", seed=0, evidence=evidence, shared={}, seconds={})
    found = (comparison_verdict("latency", "p50", outcome, (0.05, 0.04, 0.06)).subject for outcome in outcomes)
    monkeypatch.setattr("pytest_hwperf.gate.models.compare.compare_models", lambda *_: ((next(found),), gate))


COMPARE = "hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1]], label='v')"


def test_a_comparison_leaves_nothing_to_save_or_to_accept(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no figure that a later run could be compared with."""
    compare_at_once(monkeypatch, "equivalent", "regressed")
    pytester.makepyfile(f"def test_it(hwperf): {COMPARE}\ndef test_worse(hwperf): {COMPARE}\n")
    result = pytester.runpytest_inprocess("--hwperf-save")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["hwperf: 0 runs saved to baseline main in *"])
    result.stdout.no_fnmatch_line("*baseline accept*")
    assert [] == list(pytester.path.rglob("*.jsonl"))


def test_a_time_that_is_up_in_the_first_pair_is_inconclusive(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, out_of_time, label="b against a")
    pytester.makepyfile("def test_it(hwperf): assert hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1.0]])\n")
    for more, ended in (([], "passed"), (["--hwperf-strict"], "failed")):
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


def test_labels_are_used_once_and_two_models_are_compared(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_at_once(monkeypatch, "equivalent", "equivalent")
    measure = "hwperf(int, label='v')"
    twice = "hwperf.compare: the label 'v' is used twice; give each its own label="
    no_two = "hwperf.compare takes two names with their models, the base"
    reported = {
        f"{measure}; {COMPARE}": twice,
        f"{COMPARE}; {COMPARE}": twice,
        f"{COMPARE}; {measure}": "label='v' is used twice: give each hwperf(...) of a test its own, such as label='bat",
        "hwperf.compare({'a': 'x:y'}, [[1.0]])": no_two,
        "hwperf.compare(['x:y', 'x:z'], [[1.0]])": no_two,
        "hwperf.compare({'a': print, 'b': print}, [[1.0]])": no_two,
    }
    pytester.makepyfile("".join(f"def test_{number}(hwperf): {body}\n" for number, body in enumerate(reported)))
    result = pytester.runpytest_inprocess("--hwperf-sample-time=0.05", "--hwperf-energy=off")
    logged = result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined] # of runs in process
    failures = [one.longreprtext for one in logged if one.when == "call"]
    told = [f"UsageProblem: {text}" for text in reported.values()]
    assert [] == [pair for pair in zip(told, failures, strict=True) if pair[0] not in pair[1]]
