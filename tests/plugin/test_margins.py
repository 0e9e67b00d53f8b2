"""`hwregression` and `--hwperf-margin`: five points of accuracy less pass or fail as they say."""

import json
from typing import Any

import pytest
from fakes.reruns import SIMULATED

QUICK = ("--hwperf-max-time=0.05", "--hwperf-energy=off", "-p", "no:cacheprovider", *SIMULATED)

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


@pytest.fixture
def worse(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with a baseline, whose model has lost 50 of 1000 right answers since: p is 2^-50."""
    pytester.makepyfile(test_default=DEFAULT, test_marked=MARKED, model=MODEL.format(right=960))
    pytester.runpytest_inprocess(*QUICK, "--hwperf-save").assert_outcomes(passed=3)
    pytester.makepyfile(model=MODEL.format(right=910))
    return pytester


def compared(pytester: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, dict[str, tuple[float, str]]]:
    """Compare; return test → margin and outcome of its accuracy too."""
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-compare", "--hwperf-json=report.json", *options)
    report = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]
    return result, {
        judgement["run"]["test"].partition("::")[2]: _accuracy(judgement) for judgement in report["judgements"]
    }


def _accuracy(judgement: Any) -> tuple[float, str]:
    subjects = [verdict["subject"] for verdict in judgement["verdicts"]]
    (found,) = [subject for subject in subjects if subject["metric"] == "accuracy"]
    return found["margin"], found["outcome"]


@pytest.mark.live
def test_a_margin_decides_and_the_closest_one_wins(worse: pytest.Pytester) -> None:
    """Without one the loss fails its test; ten points of the module let it pass; the function's own point does not."""
    result, found = compared(worse, "-v")

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*::test_default FAILED*", "*::test_module PASSED*", "*::test_function FAILED*"])
    assert {
        "test_default": (0.0, "regressed"),
        "test_module": (0.1, "equivalent"),
        "test_function": (0.01, "regressed"),
    } == found


@pytest.mark.live
def test_an_option_decides_where_no_marker_does(worse: pytest.Pytester) -> None:
    result, found = compared(worse, "--hwperf-margin=accuracy=20pp")

    result.assert_outcomes(passed=2, failed=1)
    assert {
        "test_default": (0.2, "equivalent"),
        "test_module": (0.1, "equivalent"),
        "test_function": (0.01, "regressed"),
    } == found
