"""Advice about a session: rare, true, and once."""

from typing import Any

import pytest
from fakes import records as fake

from pytest_hwperf.records.run import AS_TRAINED, replace
from pytest_hwperf.records.verdict import Judgement, Verdict
from pytest_hwperf.stats.advice import advice


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


@pytest.mark.parametrize("limits", [[MEAN], [RATE], [MEAN, RATE]])
def test_limits_on_means_alone_are_said(limits: list[Verdict]) -> None:
    (text,) = said(judged(*limits))
    assert text == (
        "t.py::a limit a mean alone (latency_mean_ms, throughput_min_qps), which a few slow calls hardly move: "
        "add latency_p95_ms or latency_p99_ms"
    )


@pytest.mark.parametrize("limits", [[], [TAIL], [MEAN, TAIL], [ROWS]], ids=["none", "tail", "both", "rows of a job"])
def test_other_limits_are_left_alone(limits: list[Verdict]) -> None:
    assert [] == said(judged(*limits))


def test_three_tests_are_named_and_the_others_counted() -> None:
    (text,) = said(*[judged(MEAN, test=f"t.py::{name}") for name in "aabcde"])
    assert text.startswith("t.py::a, t.py::b, t.py::c, 2 others limit a mean alone")


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


@pytest.mark.parametrize(
    "checked",
    [
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
    ],
    ids=["a callable", "the original", "another original", "no limit", "flips", "labels", "no labels as output"],
)
def test_what_is_checked_or_cannot_be_is_left_alone(checked: Judgement) -> None:
    assert [] == said(checked)
