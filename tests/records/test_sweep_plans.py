"""Plans of sweeps: what the keywords of `hwsweep` mean, and what they cannot."""

import pytest

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import parse_sweep


def test_lists_are_swept_and_budget_keywords_are_limits() -> None:
    plan = parse_sweep({"batch_size": [1, 8], "latency_p95_ms": 10, "threads": range(1, 3), "rate_sps": 500})
    assert {"batch_size": (1, 8), "threads": (1, 2)} == plan.axes
    assert [("latency", "p95", 0.01)] == [(one.metric, one.statistic, one.limit) for one in plan.limits]
    assert (True, 0, 500.0) == (plan.stop, plan.serving_batch, plan.rate)


def test_the_last_name_varies_fastest() -> None:
    points = parse_sweep({"batch_size": [1, 8], "kind": ("a", "b")}).points()
    assert [(1, "a"), (1, "b"), (8, "a"), (8, "b")] == [tuple(point.values()) for point in points]


def test_what_is_said_of_serving_is_kept() -> None:
    plan = parse_sweep({"size": [0.5], "stop": False, "serving_batch": 32})
    assert (False, 32) == (plan.stop, plan.serving_batch)


@pytest.mark.parametrize(
    ("keywords", "reported"),
    [
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
        ({"size": [1], "stop": 1}, "hwsweep(stop=1): give True or False"),
        ({"size": [1], "serving_batch": 0}, "give the rows that are served together: a whole number from 1 on"),
        ({"size": [1], "rate_sps": 0}, "give the rows that arrive per second: a number above 0"),
    ],
)
def test_a_bad_keyword_is_named(keywords: dict[str, object], reported: str) -> None:
    with pytest.raises(UsageProblem) as raised:
        parse_sweep(keywords)
    assert reported in str(raised.value)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(UsageProblem) as raised:
        parse_sweep({"batch_size": [0], "stop": 1, "latency_p95_ms": "x"})
    assert 3 == len(str(raised.value).splitlines())
