"""Which candidate for which purpose, and where work would help."""

import pytest
from fakes import records as fake

from pytest_hwperf.core.budgets import parse_budgets
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.recommendations import bottlenecks, matrix
from pytest_hwperf.core.records import Estimate, Key
from pytest_hwperf.core.tradeoffs import ACCURACY, DIMENSIONS, MEMORY, Candidate, answers


def exactly(value: float) -> Estimate:
    return fake.estimate(value, value, value, 10)


def candidate(name: str, accuracy: float, latency: float, memory: float, **conditions: str) -> Candidate:
    values = {ACCURACY: exactly(accuracy), MEDIAN_LATENCY: exactly(latency), MEMORY: exactly(memory)}
    return Candidate(name=name, values=values, conditions=conditions)


def test_a_candidate_for_each_purpose() -> None:
    plain = candidate("sklearn", 0.9, 3, 2, threads="1")
    fast = candidate("int8", 0.8, 1, 2, form="MatMul")
    small = candidate("small", 0.85, 2, 1, form="MatMul")
    found = {one.purpose: one for one in matrix([plain, fast, small], DIMENSIONS)}

    names = {purpose: [one.name for one in of.candidates] for purpose, of in found.items()}
    assert {
        "low latency": ["int8"],
        "critical accuracy": ["sklearn"],
        "few resources": ["small"],
        "simple deployment": ["sklearn"],
    } == names
    assert ["latency", "accuracy", "memory", ""] == [one.dimension for one in found.values()]


def test_what_is_not_known_recommends_nothing() -> None:
    found = list(matrix([candidate("csv", 0.9, 1, 1)], {}))

    assert [()] * 4 == [one.candidates for one in found]
    assert [()] * 4 == [one.candidates for one in matrix([], DIMENSIONS)]


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ({"preprocess": 6, "inference": 3}, [("not the bottleneck", 0.3), ("preprocess", 0.6)]),
        ({"preprocess": 1, "inference": 8, "postprocess": 1}, [("inference", 0.8)]),
        ({"preprocess": 3, "inference": 4, "postprocess": 3}, [("not the bottleneck", 0.4)]),
        ({"postprocess": 4, "inference": 3}, [("not the bottleneck", 0.3)]),
        ({"inference": 6, "preprocess": 4}, [("inference", 0.6)]),
        ({}, []),
    ],
)
def test_work_helps_where_the_time_goes(stages: dict[str, int], said: list[tuple[str, float]]) -> None:
    values: dict[Key, Estimate] = {(f"stage_{name}", "p50"): exactly(seconds) for name, seconds in stages.items()}
    whole = Candidate(name="a", values={**values, MEDIAN_LATENCY: exactly(10)})

    assert said == [(one.advice, one.share) for one in bottlenecks(whole, ())]


def test_what_meets_its_requirements_needs_no_work() -> None:
    one = candidate("a", 0.9, 0.001, 1)
    met, undecided = (
        answers(one, parse_budgets(limits))
        for limits in ({"latency_p50_ms": 2}, {"latency_p50_ms": 2, "energy_budget_mj": 1})
    )

    assert ["requirements met"] == [found.advice for found in bottlenecks(one, met)]
    assert [] == list(bottlenecks(one, undecided))
