"""Which of two candidates is better, what noise leaves inconclusive, and whether INT8 pays."""

import dataclasses
import math
from array import array
from collections.abc import Mapping

import pytest
from fakes import records as fake
from fakes.candidates import answering, candidate, near

from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome, Judgement
from pytest_hwperf.stats.choice.candidates import (
    ACCURACY,
    Candidate,
    between_processes,
    candidate_of,
    change_of,
    slower_than_fp32,
    versus,
    worth,
    worth_of,
)
from pytest_hwperf.stats.choice.tradeoffs import best_by, pareto


def against(one: Candidate, other: Candidate, change: Estimate, outcome: ComparisonOutcome) -> Candidate:
    """Return the first one with what pairs have shown of its latency against the other."""
    found = Comparison(
        metric="latency", statistic="p50", outcome=outcome, change=change, scale="relative", margin=0.02, pairs=12
    )
    return dataclasses.replace(one, pairs={other.name: {MEDIAN_LATENCY: found}})


def test_pairs_decide_whatever_single_processes_say() -> None:
    """The first is five times as slow in its one process, and its pairs know better, seen from either side."""
    table: list[tuple[Estimate, ComparisonOutcome, ComparisonOutcome]] = [
        (fake.estimate(-0.1, -0.12, -0.08, 12), "improved", "regressed"),
        (fake.estimate(0.001, -0.01, 0.011, 12), "equivalent", "equivalent"),
        (fake.estimate(0.1, 0.08, None, 12), "regressed", "improved"),
    ]
    for change, outcome, mirrored in table:
        other = candidate("b", latency_ms=1.0)
        one = against(candidate("a", latency_ms=5.0), other, change, outcome)
        assert (outcome, mirrored) == (versus(one, other, MEDIAN_LATENCY), versus(other, one, MEDIAN_LATENCY))
        assert pytest.approx(math.log1p(change.value)) == change_of(one, other, MEDIAN_LATENCY).value
        assert pytest.approx(-math.log1p(change.value)) == change_of(other, one, MEDIAN_LATENCY).value
        assert (one if outcome == "improved" else other) == best_by([one, other], MEDIAN_LATENCY).first
        front = {"improved": [one], "regressed": [other], "equivalent": [one, other]}
        assert front[outcome] == pareto([one, other], [MEDIAN_LATENCY])


def test_inconclusive_pairs_leave_it_to_single_processes() -> None:
    other = candidate("b", latency_ms=1.0)
    slow, near_it = (
        against(candidate("a", latency_ms=ms), other, fake.estimate(0.1, -0.1, 0.3, 3), "inconclusive")
        for ms in (5.0, 1.1)
    )
    assert ["regressed", "inconclusive"] == [versus(one, other, MEDIAN_LATENCY) for one in (slow, near_it)]


def test_accuracy_is_paired_by_example() -> None:
    """The intervals of both, of examples that are taken for others, hold each other's value in every case."""
    table = [
        (33, 1, 2000, "regressed"),
        (1, 33, 2000, "improved"),
        (0, 0, 50, "equivalent"),  # the same answers
        (3, 2, 2000, "equivalent"),
        (20, 8, 2000, "inconclusive"),
        (3, 2, 100, "inconclusive"),  # not shown worse, and not shown as good
        (9, 0, 2000, "regressed"),  # by less than a point, and still
    ]
    for lost, won, n, outcome in table:
        reference = answering("fp32", [1] * (n - won) + [0] * won)
        assert outcome == versus(answering("int8", [0] * lost + [1] * (n - lost)), reference, ACCURACY)


def test_other_rows_are_not_paired() -> None:
    one, other = answering("a", [1] * 1000, {"data": "1"}), answering("b", [0] * 10 + [1] * 990, {"data": "2"})
    shorter = answering("c", [0] * 10 + [1] * 900, {"data": "1"})
    assert ["inconclusive"] * 2 == [versus(one, rival, ACCURACY) for rival in (other, shorter)]
    assert [None, None] == [worth_of(one, rival).loss for rival in (other, shorter)]


def test_an_accuracy_of_nothing_is_compared_too() -> None:
    table = [(0.0, 0.0, "equivalent"), (1.0, 0.0, "improved"), (0.0, 1.0, "regressed")]
    for mine, its, outcome in table:
        one, other = (Candidate(name=str(value), values={ACCURACY: near(value)}) for value in (mine, its))
        assert outcome == versus(one, other, ACCURACY)


ALIKE = {"form": "MatMul", "threads": "1", "batch_size": "16", "load": "single_stream", "data": "ab"}


def judged(
    scenario: str,
    precision: str,
    us: tuple[float, float | None, float | None] | None,
    conditions: Mapping[str, str] | None = None,
) -> Candidate:
    """Return a scenario whose median of a call, with its interval, is so many microseconds."""
    value, low, high = (None if one is None else one * 1e-6 for one in us or (None, None, None))
    figures = () if value is None else (fake.figure(at=fake.estimate(value, low, high, 100)),)
    told = {**(ALIKE if conditions is None else conditions), "precision": precision}
    run = replace(fake.run(test=f"t.py::t[{scenario}]", scenario=scenario), conditions=told)
    return candidate_of(Judgement(run=run, figures=figures, verdicts=()))


FP32 = judged("onnx_fp32", "float32", (10.0, 9.9, 10.0))
INT8 = judged("onnx_int8", "int8 static", (12.0, 11.9, 12.1))


def test_int8_that_is_slower_is_named_with_both_medians() -> None:
    """What processes differ by leaves it inconclusive."""
    table = [(20.0, "slower"), (19.0, "may be"), (12.0, "may be"), (10.5, "may be")]
    for us, kind in table:
        (found,) = slower_than_fp32([FP32, judged("onnx_int8", "int8 static", (us, us - 0.1, us + 0.1))])
        assert found.kind.startswith(kind)
        assert f"t.py::t[onnx_int8]: onnx_int8 takes {us:.1f} µs, onnx_fp32 10.0 µs (" in str(found)


def test_int8_that_may_be_as_fast_or_differs_otherwise_is_not_named() -> None:
    table: list[tuple[Candidate, Candidate]] = [
        (judged("onnx_int8", "int8", (8.0, 7.9, 8.1)), FP32),  # faster
        (judged("onnx_int8", "int8", (12.0, 9.8, 14.0)), FP32),  # its interval holds what FP32 takes
        (judged("onnx_int8", "int8", (10.15, 10.1, 10.2)), FP32),  # apart, but by less than 2 %
        (judged("onnx_int8", "int8", (12.0, None, 14.0)), FP32),  # no lower bound
        (judged("onnx_int8", "int8", None), FP32),  # not timed
        (INT8, judged("onnx_fp32", "float32", (10.0, 9.9, None))),
        (INT8, judged("onnx_fp32", "float32", None)),
        (INT8, judged("other", "float32", (10.0, 9.9, 10.0), {**ALIKE, "form": "default"})),
        (INT8, judged("other", "float32", (10.0, 9.9, 10.0), {**ALIKE, "batch_size": "1"})),
        (INT8, judged("other", "float32", (10.0, 9.9, 10.0), {**ALIKE, "streams": "1"})),
        (INT8, judged("other", "float32", (10.0, 9.9, 10.0), {})),  # no form: the model itself
        (dataclasses.replace(INT8, kind="arm"), FP32),
    ]
    assert [] == [(one, other) for one, other in table if [*slower_than_fp32([other, one])]]


def share(value: float, low: float | None, high: float | None) -> Estimate:
    return fake.estimate(value, low, high, 100)


def test_quantisation_pays_by_both_intervals() -> None:
    table: list[tuple[Estimate | None, Estimate | None, str]] = [
        (share(0.002, -0.001, 0.009), share(0.4, 0.3, 0.5), "worthwhile"),
        (share(-0.05, -0.08, -0.02), share(0.4, 0.3, 0.5), "worthwhile"),
        (share(0.002, -0.001, 0.02), share(0.4, 0.3, 0.5), "inconclusive"),
        (share(0.002, -0.001, 0.009), share(0.21, 0.1, 0.3), "inconclusive"),
        (share(0.03, 0.01, 0.05), share(0.4, 0.3, 0.5), "not worthwhile"),
        (share(0.002, -0.001, 0.009), share(0.1, 0.05, 0.2), "not worthwhile"),
        (None, share(0.4, 0.3, 0.5), "inconclusive"),
        (None, share(0.1, 0.0, 0.2), "not worthwhile"),
        (share(0.0, 0.0, 0.0), None, "inconclusive"),
        (share(0.0, None, None), share(0.4, None, None), "inconclusive"),
    ]
    assert [] == [(loss, gain, outcome) for loss, gain, outcome in table if outcome != worth(loss, gain).outcome]


def test_a_loss_is_paired_by_example() -> None:
    """256 rows on which 3 are lost and 1 is won cannot decide 1 point."""
    reference, quantised = [1.0] * 203 + [0.0] * 53, [0.0] * 3 + [1.0] * 201 + [0.0] * 52
    loss = worth_of(answering("int8", quantised), answering("fp32", reference)).loss
    assert loss is not None
    assert (256, 2 / 256) == (loss.n, loss.value)
    assert (loss.low or 0) < 0
    assert (loss.high or 0) > 0.01


def test_a_gain_lies_between_the_most_distant_ends() -> None:
    """Each end is wrong with at most 1 %, so both hold with 98 %."""
    gain = worth_of(judged("b", "", (5.0, 4.4, 5.4)), judged("a", "", (10.0, 9.0, 11.0))).gain
    apart = math.exp(between_processes())
    assert gain is not None
    assert [0.5, 1 - 0.6 * apart, 1 - 0.4 / apart] == pytest.approx([gain.value, gain.low, gain.high])
    assert pytest.approx(0.98) == gain.confidence
    unbounded = worth_of(judged("b", "", (5.0, 4.4, 5.4)), judged("a", "", (10.0, None, 11.0))).gain
    assert unbounded is not None
    assert unbounded.low is None


def test_one_process_each_does_not_decide_what_pairs_do() -> None:
    """Three runs of one code gave -31, -32 and -4 %, each within 0.2 % of itself."""
    for us in [6.9, 6.8, 9.6]:
        quantised = judged("onnx_int8", "int8 static", (us, us - 0.01, us + 0.01))
        right = array("d", [1.0] * 1000)
        fp32 = dataclasses.replace(FP32, right=right)
        paired = against(dataclasses.replace(quantised, right=right), fp32, share(-0.31, -0.33, -0.29), "improved")
        found = worth_of(paired, fp32)
        assert None is worth_of(judged("onnx_int8", "int8 static", None), FP32).gain, us
        assert ("inconclusive", "worthwhile") == (worth_of(quantised, FP32).outcome, found.outcome), us
        assert found.gain is not None, us
        assert pytest.approx(0.31) == found.gain.value, us
