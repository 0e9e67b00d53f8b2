"""Accuracy by class, and the classes that a candidate loses, on counts that can be checked by hand."""

from array import array
from typing import TYPE_CHECKING

import pytest
from fakes import records as fake

from pytest_hwperf.records.evidence import FixedSample, Hypothesis, Measurement
from pytest_hwperf.records.run import Classes, Sample, Values, figure_of, replace
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.figures.exact import compare_accuracy, lost_classes, share_interval

if TYPE_CHECKING:
    from collections.abc import Sequence


def of(*sizes: int) -> Classes:
    """Return classes 0, 1 … of so many examples each."""
    places = [float(place) for place, size in enumerate(sizes) for _ in range(size)]
    return Classes(names=tuple(map(str, range(len(sizes)))), of=array("d", places))


def right(*counts: tuple[int, int]) -> Values:
    """Return so many right ones of so many examples of each class, the right ones first."""
    return array("d", [float(place < ones) for ones, n in counts for place in range(n)])


def test_the_worst_class_is_named_and_all_classes_count_alike() -> None:
    """90 of 100 and 1 of 10: the worst has 0.1, and the mean is 0.5, though 0.83 of all examples are right."""
    sample = Sample(
        metric="accuracy", values=right((90, 100), (1, 10)), per="example", source="onnx_int8", classes=of(100, 10)
    )
    found = figures(fake.run(samples=(sample,)))
    worst, mean = (figure_of(found, (name, "mean")) for name in ("accuracy_worst_class", "balanced_accuracy"))
    assert worst is not None
    assert mean is not None
    assert ("class 1, onnx_int8", 10, 0.1) == (worst.source, worst.estimate.n, worst.estimate.value)
    assert share_interval(1, 10, 0.95) == (worst.estimate.low, worst.estimate.high)  # half of 10 % for each class
    assert ("onnx_int8", 110) == (mean.source, mean.estimate.n)
    assert pytest.approx(0.5) == mean.estimate.value
    assert mean.estimate.low is not None
    assert mean.estimate.high is not None
    assert 0.1 < mean.estimate.low < 0.5 < mean.estimate.high < 0.9


def test_without_classes_there_is_no_accuracy_by_class() -> None:
    run = fake.run(samples=(fake.sample("accuracy", [1.0, 0.0], per="example"),))
    assert {"accuracy"} == {one.metric for one in figures(run)}


def test_a_class_that_is_lost_is_named() -> None:
    table: list[tuple[Sequence[tuple[int, int]], str | None]] = [
        (((95, 100), (2, 45), (90, 100)), "class 1: 41 of 45 → 2 of 45 right (McNemar by class, Holm over 3 classes"),
        (((95, 100), (20, 45), (90, 100)), "class 1: 41 of 45 → 20 of 45 right"),  # by 47 points more than the others
        (((0, 100), (0, 45), (0, 100)), "class 0: 95 of 100 → 0 of 100, class 2: 90 of 100 → 0 of 100, class 1: 41"),
        (((75, 100), (32, 45), (70, 100)), None),  # worse everywhere, and by as much: no class stands out
        (((95, 100), (38, 45), (90, 100)), None),  # three of 45: p = 1/8
        (((85, 100), (45, 45), (100, 100)), "class 0: 95 of 100 → 85 of 100 right"),
        (((87, 100), (45, 45), (100, 100)), None),  # 8 points, although the others gain 10
        (((100, 100), (45, 45), (100, 100)), None),
    ]
    for now, said in table:
        before = right((95, 100), (41, 45), (90, 100))
        found = lost_classes(before, right(*now), of(100, 45, 100))
        assert (said is None) == (found is None)
        assert (said or "None") in str(found)


def test_a_class_of_few_examples_is_no_proof() -> None:
    """Six of six lost: p = 1/64 is above 1 %; seven of seven are below it, and above half of it."""
    six, seven = (lost_classes(right((n, n)), right((0, n)), of(n)) for n in (6, 7))
    beside = lost_classes(right((7, 7), (9, 9)), right((0, 7), (9, 9)), of(7, 9))
    assert (None, None) == (six, beside)
    assert "class 0: 7 of 7 → 0 of 7 right" in str(seven)


def test_examples_that_are_won_count_against_the_loss_of_a_class() -> None:
    """Eleven are lost and one is won. Twelve coins show at most one head in 1 + 12 of 4096 cases."""
    found = lost_classes(right((11, 12)), array("d", [0.0] * 11 + [1.0]), of(12))
    assert found is not None
    assert pytest.approx(13 / 4096) == found.numbers["p"]


def test_a_comparison_by_example_names_them_whatever_its_outcome() -> None:
    """One class is lost and another one won: as many examples are right."""
    margin = Margin(metric="accuracy", statistic="mean", size=0.0, scale="absolute")
    sides = right((40, 40), (0, 40)), right((0, 40), (40, 40))
    found = compare_accuracy(*sides, margin, 0.01, of(40, 40))
    assert "inconclusive" == found.outcome
    assert "class 0: 40 of 40 → 0 of 40 right" in str(found.moved)
    assert compare_accuracy(*sides, margin, 0.01).moved is None


def test_classes_of_other_examples_are_refused() -> None:
    table: list[list[float]] = [[0.0, 1.0], [0.5], [0.0]]
    for places in table:
        sample = fake.sample("accuracy", [1.0, 0.0], per="example")
        with pytest.raises(ValueError, match=r"class"):
            Sample.__post_init__(replace(sample, classes=Classes(names=("a",), of=array("d", places))))


def test_a_fixed_sample_refuses_them_too() -> None:
    hypothesis = Hypothesis(
        measurement=Measurement(test="t.py::t", label=""),
        margin=Margin(metric="accuracy", statistic="mean", size=0.0, scale="absolute"),
        better="higher",
    )
    with pytest.raises(ValueError, match="as many classes"):
        FixedSample(
            hypothesis=hypothesis, per="example", baseline=right((1, 1)), candidate=right((1, 1)), classes=of(2)
        )
