"""Advice: rare, true, and once; which limit is nearest; which candidate for which purpose, and on which hardware."""

import math
from typing import Any

import pytest
from fakes import records as fake
from fakes.candidates import candidate, named

from pytest_hwperf.records.markers import parse_budgets
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import AS_TRAINED, Estimate, Key, replace
from pytest_hwperf.records.verdict import Budget, Judgement, Verdict
from pytest_hwperf.stats.choice.advice import advice, as_cheap, bottlenecks, cost_of, matrix, on_hardware, tightest
from pytest_hwperf.stats.choice.candidates import DIMENSIONS, Candidate
from pytest_hwperf.stats.choice.tradeoffs import answers


def verdict(keyword: str, metric: str, statistic: str) -> Verdict:
    return fake.budget_verdict(keyword, metric, statistic, 1.0, "passed")


MEAN = verdict("latency_mean_ms", "latency", "mean")
RATE = verdict("throughput_min_qps", "throughput", "mean")
ROWS = verdict("throughput_min_sps", "sample_throughput", "mean")
TAIL = verdict("latency_p95_ms", "latency", "p95")
FLIPS = verdict("flip_rate_max", "flip_rate", "mean")


def judged(*verdicts: Verdict, test: str = "t.py::a", batch: str = "1", **others: Any) -> Judgement:
    run = fake.run(test=test, samples=(fake.sample(), fake.sample("flip_rate", [0.0, 1.0], per="example")), **others)
    return Judgement(run=replace(run, conditions={"batch_size": batch}), figures=(), verdicts=verdicts)


def original(scenario: str) -> Judgement:
    found = judged(TAIL, scenario=scenario)
    return replace(found, run=replace(found.run, context={"model": "0a", **AS_TRAINED}))


def said(*judgements: Judgement, served: int = 0, swept: tuple[str, ...] = ()) -> list[str]:
    return [str(one) for one in advice(judgements, served=served, swept=swept)]


def test_limits_on_means_alone_are_said() -> None:
    """Three tests are named, and the others counted; rows of a job, and a tail beside the mean, are left alone."""
    for limits in ([MEAN], [RATE], [MEAN, RATE]):
        (text,) = said(judged(*limits))
        assert text == (
            "t.py::a limit a mean alone (latency_mean_ms, throughput_min_qps), which a few slow calls hardly move: "
            "add latency_p95_ms or latency_p99_ms"
        )
    (text,) = said(*[judged(MEAN, test=f"t.py::{name}") for name in "aabcde"])
    assert text.startswith("t.py::a, t.py::b, t.py::c, 2 others limit a mean alone")
    others: list[list[Verdict]] = [[], [TAIL], [MEAN, TAIL], [ROWS]]
    assert [[]] * 4 == [said(judged(*limits)) for limits in others]


def test_a_batch_that_is_not_served_is_said() -> None:
    (text,) = said(judged(batch="1"), judged(test="t.py::b", batch="32"), judged(batch=""), served=32)
    assert text == (
        "batches of 32 rows are served (hwperf_serving_batch), and others were measured: t.py::a (1); "
        "give batch_size=32"
    )


def test_a_sweep_measures_other_batches_on_purpose() -> None:
    assert [] == said(judged(batch="1"), served=32, swept=("t.py::a",))
    assert [] == said(judged(batch="1"))


def test_another_runtime_whose_predictions_nobody_checks_is_said() -> None:
    (text,) = said(judged(TAIL, scenario="onnx_int8"))
    assert text == (
        "the speed of another runtime or precision has a limit, and nothing checks its predictions: t.py::a; give "
        "labels, or add flip_rate_max or probability_diff_max"
    )


def test_what_is_checked_or_cannot_be_is_left_alone() -> None:
    table: list[Judgement] = [
        judged(TAIL),
        original("sklearn_fp32"),
        original("one_of_the_user"),
        judged(scenario="onnx_int8"),
        judged(TAIL, FLIPS, scenario="onnx_int8"),
        replace(
            judged(TAIL),
            run=fake.run(
                scenario="onnx_int8",
                samples=tuple(fake.sample(one, [1.0], per="example") for one in ("accuracy", "flip_rate")),
            ),
        ),
        replace(judged(TAIL, scenario="onnx_file"), run=fake.run(scenario="onnx_file")),
    ]
    assert [] == [checked for checked in table if [] != said(checked)]


def judgement(**limits: float) -> Judgement:
    """Return 8 ms and an accuracy of 0.9, judged by limits."""
    keywords = {
        "latency_p95_ms": ("latency", "p95"),
        "accuracy_min": ("accuracy", "mean"),
        "energy": ("energy", "mean"),
    }
    budgets = [
        Budget(keyword=name, metric=keywords[name][0], statistic=keywords[name][1], limit=limit)
        for name, limit in limits.items()
    ]
    figures = tuple(
        fake.figure(metric, statistic, fake.estimate(value, None, None, 1))
        for metric, statistic, value in (("latency", "p95", 0.008), ("accuracy", "mean", 0.9))
    )
    verdicts = tuple(Verdict(subject=one, outcome="passed", reason="", fails=False) for one in budgets)
    return Judgement(run=fake.run(), figures=figures, verdicts=verdicts)


def test_the_least_share_of_a_limit_counts() -> None:
    table: list[tuple[dict[str, float], str, float]] = [
        ({"latency_p95_ms": 0.010}, "latency_p95_ms", 0.2),
        ({"latency_p95_ms": 0.010, "accuracy_min": 0.85}, "accuracy_min", 0.05 / 0.85),
        ({"latency_p95_ms": 0.005, "accuracy_min": 0.85}, "latency_p95_ms", -0.6),
        ({"accuracy_min": 0.0}, "accuracy_min", math.inf),
        ({"latency_p95_ms": 0.0}, "latency_p95_ms", -math.inf),
    ]
    for limits, keyword, share in table:
        found = tightest(judgement(**limits))
        assert found is not None, (limits, keyword, share)
        assert keyword == found.budget.keyword
        assert share == pytest.approx(found.share)


def test_without_a_value_or_a_share_there_is_none() -> None:
    """Comparisons have no head room."""
    assert [None] * 3 == [tightest(of) for of in (judgement(), judgement(energy=1.0), fake.plain_judgement())]


def test_a_candidate_for_each_purpose() -> None:
    """A model as it was trained is simple to deploy, also where it names its form, as a torch module does."""
    plain = candidate("sklearn", 0.9, 3, 20, as_trained=True, conditions={"form": "eager"})
    fast, small = candidate("int8", 0.8, 1, 20), candidate("small", 0.85, 1.5, 10)
    found = {one.purpose: one for one in matrix([plain, fast, small], DIMENSIONS)}
    assert {
        "low latency": ("latency", ["int8"], ["small"]),
        "critical accuracy": ("accuracy", ["sklearn"], []),
        "few resources": ("memory", ["small"], []),
        "simple deployment": ("", ["sklearn"], []),
    } == {name: (one.dimension, named(one.candidates), named(one.inconclusive)) for name, one in found.items()}


def test_a_loss_within_the_margin_is_no_recommendation_where_accuracy_is_critical() -> None:
    right, fast = candidate("fp32", 0.9017, 3, 20), candidate("int8", 0.9, 1, 20)
    found = {one.purpose: one.candidates for one in matrix([right, fast], DIMENSIONS)}
    assert ((right,), (fast, right)) == (found["critical accuracy"], found["few resources"])


def test_what_is_not_known_recommends_nothing() -> None:
    for found in (matrix([candidate("csv")], {}), matrix([], DIMENSIONS)):
        assert [()] * 4 == [one.candidates for one in found]


def test_work_helps_where_the_time_goes() -> None:
    table: list[tuple[dict[str, int], list[str]]] = [
        ({"preprocess": 6, "inference": 3}, ["the model takes 30 % of the call: a f", "preprocessing takes 60 %"]),
        ({"preprocess": 1, "inference": 8, "postprocess": 1}, ["the model takes 80 % of the call: quantise it"]),
        ({"preprocess": 3, "inference": 4, "postprocess": 3}, ["the model takes 40 % of the call: a faster"]),
        ({"postprocess": 4, "inference": 3}, ["the model takes 30 % of the call: a faster one helps little"]),
        ({"inference": 6, "preprocess": 4}, ["the model takes 60 % of the call: quantise it"]),
        ({"preprocess": 12, "inference": 8}, ["the model takes 40 %", "preprocessing takes 60 %"]),  # of a call of 10
        ({}, []),
    ]
    for stages, said in table:
        values: dict[Key, Estimate] = {(f"stage_{name}", "p50"): exact(seconds) for name, seconds in stages.items()}
        found = [*bottlenecks(Candidate(name="a", values={**values, MEDIAN_LATENCY: exact(10)}), ())]
        assert [True] * len(said) == [line.startswith(start) for line, start in zip(found, said, strict=True)]


def test_what_meets_its_requirements_needs_no_work() -> None:
    one = candidate("a", 0.9, 1, 1, None)
    met, inconclusive = (
        answers(one.values, parse_budgets(limits))
        for limits in ({"latency_p50_ms": 2}, {"latency_p50_ms": 2, "energy_budget_mj": 1})
    )
    assert ["every requirement is met"] == [found.partition(":")[0] for found in bottlenecks(one, met)]
    assert [] == list(bottlenecks(one, inconclusive))


def exact(value: float) -> Estimate:
    return fake.estimate(value, value, value, 10)


def rate(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high, confidence=0.9, n=9, method="t")


def on(kind: str, throughput: Estimate | None, price: float | None = None) -> Candidate:
    values = {("throughput", "mean"): throughput} if throughput else {}
    return Candidate(name=f"onnx on {kind}", values=values, kind=kind, price_per_hour=price)


def test_a_million_calls_cost_what_their_time_does() -> None:
    """0.36 an hour are 0.0001 a second; 1000 calls a second take 1000 s for a million."""
    found = cost_of(0.36, rate(1000.0, 500.0, 2000.0))
    assert found is not None
    assert pytest.approx((0.1, 0.05, 0.2)) == (found.value, found.low, found.high)


def test_an_open_end_stays_open() -> None:
    table: list[tuple[Estimate, tuple[float | None, float | None]]] = [
        (rate(1.0, None, None), (None, None)),
        (rate(1.0, 0.0, 0.0 + 1), (100.0, None)),
    ]
    for throughput, ends in table:
        found = cost_of(0.36, throughput)
        assert found is not None, (throughput, ends)
        assert pytest.approx(ends) == (found.low, found.high)
        assert cost_of(0.36, rate(0.0, 0.0, 0.0)) is None, (throughput, ends)


def test_kinds_are_listed_with_what_is_known_of_them_the_cheapest_first() -> None:
    dear, cheap = on("x86", rate(1000.0, 990.0, 1010.0)), on("arm", rate(500.0, 495.0, 505.0), 0.1)
    unknown, unnamed = on("gpu", None), Candidate(name="onnx", values={})
    found = on_hardware([dear, unknown, cheap, unnamed], {"x86": 0.45})
    assert ["arm", "x86", "gpu"] == [one.kind for one in found]
    assert [0.1, 0.45, None] == [one.price_per_hour for one in found]
    assert [found[0]] == as_cheap(found)
    assert (None, None, None) == (found[2].cost, found[2].latency, found[2].energy)


def test_costs_that_processes_may_differ_by_are_not_dearer() -> None:
    """Processes of equal code differ by a factor of 1.9."""
    prices = {"arm": 0.1, "x86": 0.1, "gpu": 0.1}
    found = on_hardware(
        [
            on("arm", rate(1000.0, 900.0, 1100.0)),
            on("x86", rate(950.0, None, None)),
            on("gpu", rate(400.0, 390.0, 410.0)),
        ],
        prices,
    )
    assert ["arm", "x86"] == [one.kind for one in as_cheap(found)]
    assert [] == as_cheap(on_hardware([on("arm", rate(1.0, 0.5, 2.0))], {}))
    lone = on_hardware([on("x86", rate(950.0, None, None)), on("gpu", rate(400.0, 390.0, 410.0))], prices)
    assert ["x86"] == [one.kind for one in as_cheap(lone)]
