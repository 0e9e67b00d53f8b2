"""Which candidate for which purpose, and where work would help."""

import dataclasses

import pytest
from fakes import records as fake

from pytest_hwperf.records.markers import parse_budgets
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Estimate, Key
from pytest_hwperf.stats.recommendations import bottlenecks, matrix
from pytest_hwperf.stats.rivals import ACCURACY, DIMENSIONS, MEMORY, Candidate
from pytest_hwperf.stats.tradeoffs import answers


def exactly(value: float) -> Estimate:
    return fake.estimate(value, value, value, 10)


def candidate(name: str, accuracy: float, latency: float, memory: float, **conditions: str) -> Candidate:
    values = {ACCURACY: exactly(accuracy), MEDIAN_LATENCY: exactly(latency), MEMORY: exactly(memory)}
    return Candidate(name=name, values=values, conditions=conditions)


def test_a_candidate_for_each_purpose() -> None:
    plain = dataclasses.replace(candidate("sklearn", 0.9, 3, 2e7), as_trained=True)
    fast = candidate("int8", 0.8, 1, 2e7, form="MatMul")
    small = candidate("small", 0.85, 1.5, 1e7, form="MatMul")
    found = {one.purpose: one for one in matrix([plain, fast, small], DIMENSIONS)}

    names = {purpose: [one.name for one in of.candidates] for purpose, of in found.items()}
    assert {
        "low latency": ["int8"],
        "critical accuracy": ["sklearn"],
        "few resources": ["small"],
        "simple deployment": ["sklearn"],
    } == names
    assert ["latency", "accuracy", "memory", ""] == [one.dimension for one in found.values()]
    assert ("small",) == tuple(one.name for one in found["low latency"].inconclusive)


def test_a_loss_within_the_margin_is_no_recommendation_where_accuracy_is_critical() -> None:
    right, fast = candidate("fp32", 0.9017, 3, 2e7, form="a"), candidate("int8", 0.9, 1, 2e7, form="a")
    found = {one.purpose: one.candidates for one in matrix([right, fast], DIMENSIONS)}
    assert ((right,), (fast, right)) == (found["critical accuracy"], found["few resources"])


def test_a_model_as_it_was_trained_is_simple_to_deploy() -> None:
    """A torch module names its form too: whatever has one is not converted by that alone."""
    eager = dataclasses.replace(candidate("torch_eager", 0.9, 2, 2, form="eager"), as_trained=True)
    *_, simple = matrix([eager, candidate("torch_compile", 0.9, 1, 2, form="compiled")], DIMENSIONS)
    assert (eager,) == simple.candidates


def test_what_is_not_known_recommends_nothing() -> None:
    found = list(matrix([candidate("csv", 0.9, 1, 1)], {}))
    assert [()] * 4 == [one.candidates for one in found]
    assert [()] * 4 == [one.candidates for one in matrix([], DIMENSIONS)]


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ({"preprocess": 6, "inference": 3}, ["the model takes 30 % of the call: a f", "preprocessing takes 60 %"]),
        ({"preprocess": 1, "inference": 8, "postprocess": 1}, ["the model takes 80 % of the call: quantise it"]),
        ({"preprocess": 3, "inference": 4, "postprocess": 3}, ["the model takes 40 % of the call: a faster"]),
        ({"postprocess": 4, "inference": 3}, ["the model takes 30 % of the call: a faster one helps little"]),
        ({"inference": 6, "preprocess": 4}, ["the model takes 60 % of the call: quantise it"]),
        ({"preprocess": 12, "inference": 8}, ["the model takes 40 %", "preprocessing takes 60 %"]),  # of a call of 10
        ({}, []),
    ],
)
def test_work_helps_where_the_time_goes(stages: dict[str, int], said: list[str]) -> None:
    values: dict[Key, Estimate] = {(f"stage_{name}", "p50"): exactly(seconds) for name, seconds in stages.items()}
    found = [*bottlenecks(Candidate(name="a", values={**values, MEDIAN_LATENCY: exactly(10)}), ())]
    assert [True] * len(said) == [line.startswith(start) for line, start in zip(found, said, strict=True)]


def test_what_meets_its_requirements_needs_no_work() -> None:
    one = candidate("a", 0.9, 0.001, 1)
    met, inconclusive = (
        answers(one.values, parse_budgets(limits))
        for limits in ({"latency_p50_ms": 2}, {"latency_p50_ms": 2, "energy_budget_mj": 1})
    )
    assert ["every requirement is met"] == [found.partition(":")[0] for found in bottlenecks(one, met)]
    assert [] == list(bottlenecks(one, inconclusive))
