"""The markers as functions are the markers, with the keywords of their tables."""

import importlib
from typing import Unpack, get_type_hints

import pytest

from pytest_hwperf import budget, regression, scenarios
from pytest_hwperf.plugin.marks import BudgetLimits, RegressionMargins
from pytest_hwperf.records.markers import BUDGET_KEYWORDS, DEFAULT_MARGINS


def test_a_function_returns_the_mark() -> None:
    assert pytest.mark.hwbudget(latency_p95_ms=5, accuracy_min=0.8) == budget(latency_p95_ms=5, accuracy_min=0.8)
    assert pytest.mark.hwregression(latency_p50="2%") == regression(latency_p50="2%")
    assert pytest.mark.hwscenarios("onnx_fp32", "onnx_int8") == scenarios("onnx_fp32", "onnx_int8")


def test_the_signatures_have_the_keywords_of_the_tables() -> None:
    """In their order, so that both are easily compared; none has to be given."""
    assert dict.fromkeys(BUDGET_KEYWORDS, float) == get_type_hints(BudgetLimits)
    assert [*BUDGET_KEYWORDS] == [*BudgetLimits.__annotations__]
    assert dict.fromkeys(DEFAULT_MARGINS, str) == get_type_hints(RegressionMargins)
    assert [*DEFAULT_MARGINS] == [*RegressionMargins.__annotations__]
    assert frozenset() == BudgetLimits.__required_keys__ | RegressionMargins.__required_keys__
    assert [Unpack[BudgetLimits], Unpack[RegressionMargins]] == [
        get_type_hints(budget)["limits"],
        get_type_hints(regression)["margins"],
    ]


def test_a_type_checker_refuses_what_pytest_would_refuse() -> None:
    """A comment that ignores nothing is an error of mypy, so that each line is known to be refused."""
    budget(latency_p95=5)  # type: ignore[call-arg] # misspelt
    budget(latency_p95_ms="5 ms")  # type: ignore[arg-type] # no number
    regression(latency_p5="2%")  # type: ignore[call-arg] # misspelt
    regression(memory=1)  # type: ignore[arg-type] # no text
    scenarios(5)  # type: ignore[arg-type] # no name


def test_the_marker_keeps_its_name_when_scenarios_are_loaded() -> None:
    """Their group of entry points is called as it is, and the folder of their modules is not."""
    importlib.import_module("pytest_hwperf.runtimes.sklearn_native")
    assert pytest.mark.hwscenarios("onnx_fp32") == importlib.import_module("pytest_hwperf").scenarios("onnx_fp32")


def test_a_misspelt_keyword_is_refused_as_that_of_a_marker(pytester: pytest.Pytester) -> None:
    """Where no type checker has seen it."""
    pytester.makepyfile(
        """
        from pytest_hwperf import budget, scenarios

        @budget(latncy_p95_ms=1)
        @scenarios("onnx_fp23")
        def test_misspelt(hwperf, scenario):
            hwperf(scenario)
        """
    )
    refused = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    refused.stderr.fnmatch_lines_random(["*Did you mean 'latency_p95_ms'?*", "*Did you mean 'onnx_fp32'?*"])
    assert pytest.ExitCode.USAGE_ERROR == refused.ret
