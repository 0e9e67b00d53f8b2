"""INT8 that does not pay is said plainly, and never by noise."""

import math
from array import array
from collections.abc import Mapping
from dataclasses import replace as replace_fields

import pytest
from fakes import records as fake

from pytest_hwperf.records.run import Estimate, replace
from pytest_hwperf.records.verdict import Comparison, Judgement
from pytest_hwperf.stats.candidates import candidate_of
from pytest_hwperf.stats.quantisation import latency_gain, paired_loss, slower_than_fp32, worth, worth_of
from pytest_hwperf.stats.rivals import Candidate, between_processes

ALIKE = {"form": "MatMul", "threads": "1", "batch_size": "16", "load": "single_stream", "data": "ab"}


def judged(
    scenario: str,
    precision: str,
    us: tuple[float, float | None, float | None] | None,
    conditions: Mapping[str, str] | None = None,
) -> Candidate:
    """Return a scenario whose median of a call, with its interval, is so many microseconds."""
    run = fake.run(test=f"t.py::t[{scenario}]", scenario=scenario)
    found: tuple[Estimate, ...] = ()
    if us:
        value, low, high = (None if one is None else one * 1e-6 for one in us)
        found = (fake.estimate(value or 0.0, low, high, 100),)
    told = {**(ALIKE if conditions is None else conditions), "precision": precision}
    figures = tuple(fake.figure(at=one) for one in found)
    return candidate_of(Judgement(run=replace(run, conditions=told), figures=figures, verdicts=()))


FP32 = judged("onnx_fp32", "float32", (10.0, 9.9, 10.0))


def test_int8_that_is_slower_is_named_with_both_medians() -> None:
    (found,) = slower_than_fp32([FP32, judged("onnx_int8", "int8 static", (20.0, 19.9, 20.1))])
    assert "t.py::t[onnx_int8]: onnx_int8 takes 20.0 µs, onnx_fp32 10.0 µs (×2.0)" == str(found)
    assert ("slower than fp32", "onnx_int8") == (found.kind, found.texts["scenario"])


@pytest.mark.parametrize("us", [10.5, 12.0, 19.0])
def test_what_processes_differ_by_leaves_it_inconclusive(us: float) -> None:
    (found,) = slower_than_fp32([FP32, judged("onnx_int8", "int8 static", (us, us - 0.1, us + 0.1))])
    assert "may be slower than fp32" == found.kind


@pytest.mark.parametrize(
    "us",
    [
        (8.0, 7.9, 8.1),  # faster
        (12.0, 9.8, 14.0),  # its interval holds what FP32 takes
        (10.15, 10.1, 10.2),  # apart, but by less than 2 %
        (12.0, None, 14.0),  # no lower bound
        None,  # not timed
    ],
)
def test_int8_that_may_be_as_fast_is_not_named(us: tuple[float, float | None, float | None] | None) -> None:
    assert not [*slower_than_fp32([FP32, judged("onnx_int8", "int8 dynamic", us)])]


def test_without_an_upper_bound_of_fp32_nothing_is_said() -> None:
    int8 = judged("onnx_int8", "int8 static", (12.0, 11.9, 12.1))
    assert not [*slower_than_fp32([judged("onnx_fp32", "float32", (10.0, 9.9, None)), int8])]
    assert not [*slower_than_fp32([judged("onnx_fp32", "float32", None), int8])]


@pytest.mark.parametrize(
    "conditions",
    [
        {**ALIKE, "form": "default"},
        {**ALIKE, "batch_size": "1"},
        {**ALIKE, "threads": "2"},
        {**ALIKE, "streams": "1"},
        {},
    ],
)
def test_only_what_differs_in_precision_alone_is_compared(conditions: Mapping[str, str]) -> None:
    """The estimator in scikit-learn has no form: whatever it takes, it is no FP32 model of the same runtime."""
    int8 = judged("onnx_int8", "int8 static", (12.0, 11.9, 12.1))
    assert not [*slower_than_fp32([judged("other", "float32", (10.0, 9.9, 10.0), conditions), int8])]


def test_scenarios_without_a_form_are_not_compared_with_each_other() -> None:
    conditions = {name: value for name, value in ALIKE.items() if name != "form"}
    int8 = judged("own_int8", "int8", (12.0, 11.9, 12.1), conditions)
    assert not [*slower_than_fp32([judged("sklearn_fp32", "float32", (10.0, 9.9, 10.0), conditions), int8])]


def share(value: float, low: float | None, high: float | None) -> Estimate:
    return fake.estimate(value, low, high, 100)


@pytest.mark.parametrize(
    ("loss", "gain", "outcome"),
    [
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
    ],
)
def test_quantisation_pays_by_both_intervals(loss: Estimate | None, gain: Estimate | None, outcome: str) -> None:
    assert outcome == worth(loss, gain).outcome


def test_a_loss_is_paired_by_example() -> None:
    """256 rows on which 3 are lost and 1 is won cannot decide 1 point."""
    found = paired_loss([1.0] * 203 + [0.0] * 53, [0.0] * 3 + [1.0] * 201 + [0.0] * 52)
    assert found is not None
    assert (256, 2 / 256) == (found.n, found.value)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0
    assert found.high > 0.01
    assert paired_loss([1.0], [1.0, 0.0]) is None
    assert paired_loss([], []) is None


def test_a_gain_lies_between_the_most_distant_ends() -> None:
    gain = latency_gain(judged("a", "", (10.0, 9.0, 11.0)), judged("b", "", (5.0, 4.4, 5.4)))

    apart = math.exp(between_processes())
    assert [0.5, 1 - 0.6 * apart, 1 - 0.4 / apart] == pytest.approx([gain.value, gain.low, gain.high])
    assert latency_gain(judged("a", "", (10.0, None, 11.0)), judged("b", "", (5.0, 4.4, 5.4))).low is None


@pytest.mark.parametrize("us", [6.9, 6.8, 9.6])
def test_one_process_each_does_not_decide_what_pairs_do(us: float) -> None:
    """Three runs of one code gave -31, -32 and -4 %, each within 0.2 % of itself."""
    quantised, reference = judged("onnx_int8", "int8 static", (us, us - 0.01, us + 0.01)), FP32
    alone = worth_of(quantised, reference)
    change = fake.estimate(-0.31, -0.33, -0.29, 8)
    found = Comparison(
        metric="latency", statistic="p50", outcome="improved", change=change, scale="relative", margin=0.02, pairs=8
    )
    right = array("d", [1.0] * 1000)
    paired, fp32 = (
        replace_fields(one, right=right, pairs=pairs)
        for one, pairs in ((quantised, {FP32.name: {found.key: found}}), (reference, {}))
    )
    assert None is worth_of(judged("onnx_int8", "int8 static", None), reference).gain
    assert ("inconclusive", "worthwhile") == (alone.outcome, worth_of(paired, fp32).outcome)
    assert pytest.approx(0.31) == (worth_of(paired, fp32).gain or change).value
