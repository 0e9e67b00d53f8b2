"""Keywords, ini lines and option values as budgets, margins and plans of sweeps."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import (
    BUDGET_KEYWORDS,
    closest,
    closest_margins,
    nearest,
    parse_assignments,
    parse_budget_lines,
    parse_budgets,
    parse_margin_lines,
    parse_margins,
    parse_size,
    parse_sweep,
)
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Margin

SHARES = {
    "accuracy_min",
    "accuracy_worst_class_min",
    "balanced_accuracy_min",
    "flip_rate_max",
    "probability_diff_max",
    "probability_diff_mean",
}  # at most 1


def test_every_keyword_of_the_public_interface_is_known() -> None:
    """The names are part of the public interface: none may be lost."""
    latencies = {f"latency_{statistic}_ms" for statistic in ("mean", "p50", "p90", "p95", "p99", "p99_9", "max", "iqr")}

    items = {
        f"{metric}_{statistic}_ms"
        for metric in ("first_item", "item")
        for statistic in ("mean", "p50", "p90", "p95", "p99", "max")
    }
    assert latencies | items | {
        "cold_start_ms",
        "throughput_min_qps",
        "throughput_min_sps",
        "throughput_min_ips",
        "accuracy_min",
        "accuracy_worst_class_min",
        "balanced_accuracy_min",
        "flip_rate_max",
        "probability_diff_max",
        "probability_diff_mean",
        "memory_max_mb",
        "memory_call_max_mb",
        "memory_leak_max_kb",
        "memory_pressure_max",
        "gpu_memory_max_mb",
        "model_size_max_mb",
        "cpu_time_max_ms",
        "cpu_max_percent",
        "gpu_max_percent",
        "instructions_max",
        "energy_budget_mj",
        "goodput_min_qps",
    } == set(BUDGET_KEYWORDS)


LIMITS: list[tuple[str, float, str, str, float]] = [
    ("latency_p95_ms", 100, "latency", "p95", 0.1),  # ms → s
    ("memory_max_mb", 10, "memory", "p50", 10e6),  # MB = 10^6 B
    ("energy_budget_mj", 2.0, "energy", "mean", 0.002),  # mJ → J
    ("throughput_min_qps", 5000, "throughput", "mean", 5000.0),
    ("gpu_memory_max_mb", 10, "gpu_memory", "p50", 10e6),
    ("gpu_max_percent", 80, "gpu_utilisation", "mean", 0.8),
    ("cpu_max_percent", 50, "cpu_utilisation", "mean", 0.5),
    ("accuracy_min", 0.85, "accuracy", "mean", 0.85),
]


def test_limits_become_base_units() -> None:
    for keyword, limit, metric, statistic, base in LIMITS:
        (budget,) = parse_budgets({keyword: limit})
        assert (keyword, metric, statistic) == (budget.keyword, budget.metric, budget.statistic)
        assert budget.limit == pytest.approx(base)


def test_the_name_of_a_lower_limit_ends_in_min() -> None:
    """`_min` stands exactly on the metrics of which more is better."""
    lower_limits = {keyword for keyword in BUDGET_KEYWORDS if "_min" in keyword}
    assert lower_limits == {k for k, (metric, _) in BUDGET_KEYWORDS.items() if metric.better == "higher"}


def test_a_misspelt_keyword_is_reported_with_the_nearest() -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_budgets({"latncy_p95_ms": 1})
    text = str(caught.value)
    assert text.startswith("hwbudget(latncy_p95_ms=1): unknown keyword 'latncy_p95_ms'. Did you mean 'latency_p95_ms'?")
    assert 3 > sum(keyword in text for keyword in BUDGET_KEYWORDS)


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(UsageProblem) as caught:
        parse_budgets({"latency_p95": 5, "accuracy_min": 85, "memory_max_mb": -1, "latency_p50_ms": "5"})

    reported = str(caught.value).splitlines()
    assert len(reported) == 4
    assert reported[0].startswith("hwbudget(latency_p95=5): unknown keyword 'latency_p95'.")
    assert reported[1].startswith("hwbudget(accuracy_min=85): this limit is a share between 0 and 1")
    assert reported[2] == "hwbudget(memory_max_mb=-1): a limit is never negative"
    assert reported[3].startswith("hwbudget(latency_p50_ms='5'): a limit is a finite number")


def test_a_limit_that_is_no_finite_number_is_refused() -> None:
    for limit in (True, None, "100", math.nan, math.inf, [1]):
        with pytest.raises(UsageProblem, match="a limit is a finite number, such as 100"):
            parse_budgets({"latency_p95_ms": limit})


def test_ini_lines_are_budgets() -> None:
    expected = tuple(replace(b, default=True) for b in parse_budgets({"latency_p95_ms": 100.0, "accuracy_min": 0.9}))
    assert expected == parse_budget_lines(["latency_p95_ms=100", " accuracy_min = 0.9 "])
    for line in ("latency_p95_ms", "=5", "latency_p95_ms=", "latency_p95_ms=fast"):
        with pytest.raises(UsageProblem, match=r"KEYWORD=VALUE|finite number"):
            parse_budget_lines([line])


def test_margins_have_the_scale_and_the_floor_of_their_metric() -> None:
    latency, accuracy, memory = parse_margins({"latency_p95": "15%", "accuracy": "0.5pp", "memory": "3%"})
    assert Margin(metric="latency", statistic="p95", size=0.15) == latency
    assert Margin(metric="accuracy", statistic="mean", size=0.005, scale="absolute") == accuracy
    assert Margin(metric="memory", statistic="p50", size=0.03, floor=1e6) == memory


BAD_MARGINS: list[tuple[str, object, str]] = [
    ("latency_p50", "0.5pp", "a margin is a percentage, such as '2%'"),
    ("accuracy", "2%", "a margin is points of the metric, such as '0.5pp'"),
    ("latency_p50", 2, "a margin is a percentage"),
    ("latency_p50", "-2%", "a margin is a percentage"),
    ("latency_max", "2%", "unknown keyword 'latency_max'"),
    ("latncy_p50", "2%", "Did you mean 'latency_p50'?"),
    ("accuracy", "100pp", "a margin of 100 points or more never fails"),
]


def test_a_bad_margin_is_refused() -> None:
    for keyword, size, reported in BAD_MARGINS:
        with pytest.raises(UsageProblem, match=re.escape(reported)):
            parse_margins({keyword: size})


def test_a_bare_size_is_the_margin_of_the_median_latency() -> None:
    assert parse_margins({"latency_p50": "3%", "latency_p95": "12%"}) == parse_margin_lines(["3%", "latency_p95=12%"])


def test_an_assignment_without_equals_names_the_allowed() -> None:
    with pytest.raises(UsageProblem, match=r"'x' is not of the form KEYWORD=VALUE\. Allowed keywords: a, b"):
        parse_assignments(["x"], ["a", "b"])


def test_the_closest_budget_wins_per_keyword() -> None:
    far = parse_budgets({"latency_p95_ms": 100, "accuracy_min": 0.8})
    near = parse_budgets({"latency_p95_ms": 50})
    assert {"latency_p95_ms": 0.05, "accuracy_min": 0.8} == {b.keyword: b.limit for b in closest([far, near])}


def test_named_margins_stand_beside_those_that_are_always_compared() -> None:
    margins = closest_margins(
        [parse_margins({"latency_p50": "5%"}), parse_margins({"latency_p50": "3%", "energy": "9%"})]
    )
    sizes = {(m.metric, m.statistic): m.size for m in margins}
    assert {
        ("latency", "p50"): 0.03,
        ("accuracy", "mean"): 0.0,
        ("memory", "p50"): 0.01,
        ("model_size", "p50"): 0.05,
        ("energy", "mean"): 0.09,
    } == sizes


def test_a_word_that_is_near_nothing_gets_no_hint() -> None:
    assert nearest("zzz", ["latency"]) == ""
    assert nearest("latency_p59_ms", BUDGET_KEYWORDS) == " Did you mean 'latency_p95_ms'?"  # not p99, as like by length


@given(st.floats(0, 1e9), st.sampled_from(sorted(set(BUDGET_KEYWORDS) - SHARES)))
def test_a_budget_reads_back_what_it_was_given(limit: float, keyword: str) -> None:
    """Parsing the ini form of a budget gives the budget."""
    (budget,) = parse_budgets({keyword: limit})
    assert parse_budget_lines([f"{keyword}={limit!r}"]) == (replace(budget, default=True),)


@given(st.integers(0, 10_000))
def test_a_size_reads_back(hundredths: int) -> None:
    assert parse_size(f"{hundredths / 100:.2f}%", "relative") == pytest.approx(hundredths / 10_000)


def test_lists_are_swept_and_budget_keywords_are_limits() -> None:
    plan = parse_sweep({"batch_size": [1, 8], "latency_p95_ms": 10, "threads": range(1, 3), "rate_sps": 500})
    assert {"batch_size": (1, 8), "threads": (1, 2)} == plan.axes
    assert [("latency", "p95", 0.01)] == [(one.metric, one.statistic, one.limit) for one in plan.limits]
    assert (True, 0, 500.0) == (plan.stop, plan.serving_batch, plan.rate)
    other = parse_sweep({"size": [0.5], "stop": False, "serving_batch": 32})
    assert (False, 32) == (other.stop, other.serving_batch)


def test_the_last_name_varies_fastest() -> None:
    points = parse_sweep({"batch_size": [1, 8], "kind": ("a", "b")}).points()
    assert [(1, "a"), (1, "b"), (8, "a"), (8, "b")] == [tuple(point.values()) for point in points]


BAD_SWEEPS: list[tuple[dict[str, object], str]] = [
    ({}, "hwsweep(): give at least one name with its values, such as hwsweep(batch_size=[1, 8, 32])"),
    ({"batch_size": []}, "hwsweep(batch_size=[]): give at least one value"),
    ({"batch_size": 8}, "a swept name takes a list of values, such as [1, 8, 32], and this is no limit."),
    ({"latncy_p95_ms": 8}, "Did you mean 'latency_p95_ms'?"),
    ({"batch_size": [0]}, "0 is no whole number from 1 on"),
    ({"threads": [1.5]}, "1.5 is no whole number from 1 on"),
    ({"batch_size": [True]}, "True is no whole number from 1 on"),
    ({"model": [None]}, "None is neither a number nor a text"),
    ({"rate": [float("nan")]}, "nan is no finite number"),
    ({"batch_size": [8, 8]}, "a value stands there twice"),
    ({"size": [1], "latency_p95_ms": -1}, "hwsweep(latency_p95_ms=-1): a limit is never negative"),
    ({"size": [1], "latency_p95_ms": "hwbudget(5)"}, "hwsweep(latency_p95_ms='hwbudget(5)'): "),
    ({"size": [1], "stop": 1}, "hwsweep(stop=1): give True or False"),
    ({"size": [1], "serving_batch": 0}, "give the rows that are served together: a whole number from 1 on"),
    ({"size": [1], "rate_sps": 0}, "give the rows that arrive per second: a number above 0"),
]


def test_a_bad_keyword_is_named() -> None:
    for keywords, reported in BAD_SWEEPS:
        with pytest.raises(UsageProblem, match=re.escape(reported)):
            parse_sweep(keywords)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(UsageProblem) as raised:
        parse_sweep({"batch_size": [0], "stop": 1, "latency_p95_ms": "x"})
    assert 3 == len(str(raised.value).splitlines())
