"""`hwregression` and `--hwperf-margin`: five points of accuracy less pass or fail as they say."""

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.reruns import SIMULATED

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "-p", "no:cacheprovider", *SIMULATED)

pytestmark = pytest.mark.usefixtures("fakes_in_reach")

# `predict` is right in as many of 1000 rows as asked.
MODEL = """
from fakes.simulated_time import spend

def predict(rows):
    spend(100)
    return [row if row < {right} else -1 for row in rows]
"""
DEFAULT = """
from model import predict

def test_default(hwperf):
    hwperf(predict, list(range(1000)), y_true=list(range(1000)))
"""
MARKED = """
import pytest
from fakes.reruns import SIMULATED
from model import predict

pytestmark = pytest.mark.hwregression(accuracy="10pp")

def test_module(hwperf):
    hwperf(predict, list(range(1000)), y_true=list(range(1000)))

@pytest.mark.hwregression(accuracy="1pp")
def test_function(hwperf):
    hwperf(predict, list(range(1000)), y_true=list(range(1000)))
"""


def documented_settings() -> str:
    """Return the configuration file that the reference shows."""
    page = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    return page.partition("## Configuration file")[2].partition("```toml\n")[2].partition("```")[0]


def test_the_documented_settings_ask_nothing_of_a_test_without_labels(pytester: pytest.Pytester) -> None:
    """Not even if they are strict: a margin for every test is about what a test has. No footnote says a thing twice."""
    pytester.makepyprojecttoml(documented_settings())
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    result = pytester.runpytest_inprocess(
        "--hwperf-sample-time=0.05", "--hwperf-energy=estimate", "--hwperf-strict", "-v"
    )
    notes = [line for line in result.outlines if line.startswith("[")]

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*budgets: 1 unmeasured; comparisons: 1 no baseline*"])
    for text in ("give y_true=", "] estimate: "):
        assert 1 == sum(text in note for note in notes)
    assert not any("not measured:" in note for note in notes)


def test_a_margin_of_the_test_itself_needs_an_answer(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.hwregression(accuracy='1pp')\ndef test_it(hwperf): hwperf(sum, [1])"
    )
    result = pytester.runpytest_inprocess("--hwperf-sample-time=0.05", "--hwperf-compare", "--hwperf-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["accuracy: not measured: give y_true=, or a y in hwperf_data; not comparable"])


@pytest.mark.parametrize(("strict", "ends"), [((), {"passed": 1}), (("--hwperf-strict",), {"failed": 1})])
def test_a_margin_of_a_test_that_never_measures_is_not_comparable(
    pytester: pytest.Pytester, strict: tuple[str, ...], ends: dict[str, int]
) -> None:
    """As a budget of such a test is unmeasured; without a comparison nothing is asked, and nothing is saved."""
    marked = "@pytest.mark.hwregression(latency_p50='5%', memory='1%')"
    pytester.makepyfile(f"import pytest\n{marked}\ndef test_it(hwperf): pass")
    plain = pytester.runpytest_inprocess(*QUICK)
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-compare", "--hwperf-save", *strict)

    plain.assert_outcomes(passed=1)
    plain.stdout.no_fnmatch_line("*never called*")
    result.assert_outcomes(**ends)
    result.stdout.fnmatch_lines(["*not measured: the test never called hwperf(...)*"])
    result.stdout.fnmatch_lines(["comparisons: 2 not comparable*", "hwperf: 0 runs saved*"])


def compared(pytester: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, dict[str, tuple[float, str]]]:
    """Compare; return test → margin and outcome of its accuracy too."""
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-compare", "--hwperf-report=report.json", *options)
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    return result, {
        judgement["run"]["test"].partition("::")[2]: _accuracy(judgement) for judgement in report["judgements"]
    }


def _accuracy(judgement: Any) -> tuple[float, str]:
    subjects = [verdict["subject"] for verdict in judgement["verdicts"]]
    (found,) = [subject for subject in subjects if subject["metric"] == "accuracy"]
    return found["margin"], found["outcome"]


def test_the_closest_margin_decides_and_an_option_where_no_marker_does(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model has lost 50 of 1000 right answers since the baseline: p is 2^-50.

    Without a margin that fails its test; ten points of the module let it pass; the function's own point does not. No
    process repeats an alarm here.
    """
    monkeypatch.setattr("pytest_hwperf.plugin.measuring.fresh.ask_fresh", lambda *_: [])
    pytester.makepyfile(test_default=DEFAULT, test_marked=MARKED, model=MODEL.format(right=960))
    pytester.runpytest_inprocess(*QUICK, "--hwperf-save").assert_outcomes(passed=3)
    pytester.makepyfile(model=MODEL.format(right=910))
    by_markers, found = compared(pytester, "-v")
    by_markers.assert_outcomes(passed=1, failed=2)
    marked = {"test_module": (0.1, "equivalent"), "test_function": (0.01, "regressed")}
    assert {"test_default": (0.0, "regressed"), **marked} == found

    by_option, found = compared(pytester, "--hwperf-margin=accuracy=20pp")
    by_option.assert_outcomes(passed=2, failed=1)
    assert {"test_default": (0.2, "equivalent"), **marked} == found
