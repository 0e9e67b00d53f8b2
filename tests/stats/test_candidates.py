"""Candidates that the measurements of a report are."""

import dataclasses
from array import array
from typing import Any

import pytest
from fakes import records as fake

from pytest_hwperf.records.markers import parse_budgets
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Classes, Estimate, replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats import candidates
from pytest_hwperf.stats.candidates import Choice, choices_of, measured_together
from pytest_hwperf.stats.rivals import ACCURACY, DIMENSIONS, MEMORY, Candidate, without_parameters
from pytest_hwperf.stats.tradeoffs import answers


@pytest.mark.parametrize(
    ("test", "alone"),
    [
        ("a.py::test_x", "a.py::test_x"),
        ("a.py::TestA::test_x[int8-32]", "a.py::TestA::test_x"),
        ("a.py::test_x[a[0]]", "a.py::test_x"),
        ("a.py::test_x[a::b]", "a.py::test_x"),
        ("part[1]/a.py::test_x[1]", "part[1]/a.py::test_x"),
        ("part[1]/a.py::test_x", "part[1]/a.py::test_x"),
        ("of others [1]", "of others "),
        ("", ""),
    ],
)
def test_parameters_are_what_a_function_is_followed_by(test: str, alone: str) -> None:
    assert alone == without_parameters(test)


def test_a_report_of_strangers_is_read_fast() -> None:
    """A pattern that begins anew at each bracket would take hours."""
    assert "[" * 1_000_000 == without_parameters("[" * 1_000_000)


def test_measurements_are_sorted_by_test_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite of thousands of tests would take minutes if each looked through all measurements."""
    one, asked = fake.sklearn_judgement(), list[str]()
    many = [replace(one, run=replace(one.run, test=f"a.py::test_{number}")) for number in range(20)]

    def counted(test: str) -> str:
        asked.append(test)
        return without_parameters(test)

    monkeypatch.setattr(candidates, "without_parameters", counted)
    assert [f"a.py::test_{number}" for number in range(20)] == [found.test for found in measured_together(many)]
    assert 20 == len(asked)


def measured(test: str, scenario: str, **conditions: str) -> Judgement:
    one = fake.onnx_judgement()
    return replace(one, run=replace(one.run, test=test, scenario=scenario, conditions=conditions))


@pytest.mark.parametrize("ids", ["{}-{}", "{1}-{0}"])
def test_other_parameters_are_other_tests(ids: str) -> None:
    """A model on two data sets is no candidate twice, and each table has its own reference."""
    found = measured_together(
        [
            measured(f"a.py::test_x[{ids.format(name, size)}]", name)
            for name in ("sklearn_fp32", "onnx_fp32")
            for size in ("small", "l-arge")
        ]
    )
    assert ["a.py::test_x[small]", "a.py::test_x[l-arge]"] == [one.test for one in found]
    assert [["sklearn_fp32", "onnx_fp32"]] * 2 == [[of.name for of in one.candidates] for one in found]
    assert ["onnx_fp32"] * 2 == [one.reference.name for one in found]


def test_points_of_a_sweep_are_candidates_of_one_test() -> None:
    swept = [measured(f"a.py::test_x[onnx_fp32-{rows}]", "onnx_fp32", batch_size=rows) for rows in ("1", "32")]
    assert [("a.py::test_x", "batch_size=1"), ("a.py::test_x", "batch_size=32")] == [
        (one.test, one.point) for one in measured_together(swept)
    ]


def test_the_usual_reference_is_found_where_candidates_are_numbered() -> None:
    """Two of one name cannot be told apart, and neither is another scenario."""
    twice = [measured("a.py::test_x", name) for name in ("sklearn_fp32", "onnx_fp32", "onnx_fp32")]
    (found,) = measured_together(twice)
    assert "onnx_fp32 (1)" == found.reference.name


def exactly(value: float) -> Estimate:
    return fake.estimate(value, value, value, 10)


def candidate(name: str, accuracy: float, ms: float, megabytes: float, **conditions: str) -> Candidate:
    values = {ACCURACY: exactly(accuracy), MEDIAN_LATENCY: exactly(ms / 1e3), MEMORY: exactly(megabytes * 1e6)}
    return Candidate(name=name, values=values, conditions=conditions)


FAST, RIGHT = candidate("fast", 0.8, 1, 1), candidate("right", 0.9, 2, 1)
FP32 = candidate("onnx_fp32", 0.9, 1, 1, precision="float32", form="MatMul")
INT8 = candidate("onnx_int8", 0.9, 5, 0.01, precision="int8 static", form="MatMul")


def choice(*found: Candidate, **others: Any) -> Choice:
    (one,) = choices_of("a.py::test_x", found, **others)
    return one


@pytest.mark.parametrize(
    ("of", "rank_by", "names"),
    [
        ([RIGHT, FAST], "score", ["fast", "right"]),
        ([RIGHT, FAST], "composite", ["right", "fast"]),
        ([RIGHT, FAST], "latency", ["fast", "right"]),
        ([FAST, RIGHT], "accuracy", ["right", "fast"]),
        ([INT8, FP32], "score", ["onnx_fp32", "onnx_int8"]),  # its score is 211, and it is slower than FP32
        ([FP32, INT8], "memory", ["onnx_int8", "onnx_fp32"]),
        ([candidate("wrong", 0.0, 1, 1), FAST], "score", ["fast", "wrong"]),  # 0 has no ratio
    ],
)
def test_candidates_are_ranked_by_what_is_asked_for(of: list[Candidate], rank_by: str, names: list[str]) -> None:
    found = choice(*of, rank_by=rank_by, called="fast")
    assert names == [one.candidate.name for one in found.ranked]
    assert [one.candidate.name == "onnx_int8" and rank_by == "score" for one in found.ranked] == [
        one.put_back for one in found.ranked
    ]


LIMIT = parse_budgets({"latency_p50_ms": 0.5})


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"requirements": {"fast": answers(FAST.values, LIMIT)}}, "no candidate meets the requirements"),
        ({"rank_by": "energy"}, "not by energy, which is left out"),
        ({"weights": {"energy": 1.0}}, "no dimension that is left has a weight"),
    ],
)
def test_what_cannot_be_ranked_says_why(others: dict[str, Any], why: str) -> None:
    found = choice(FAST, **others)
    assert (why, []) == (found.unranked, found.ranked)
    assert ([], {}) == (choice(Candidate(name="a", values={})).front, choice(Candidate(name="a", values={})).scores)


def test_an_estimated_energy_enters_scores_on_request_alone() -> None:
    """A quarter of the energy at a weight of a quarter makes 141."""
    of = [guessing(candidate("onnx_fp32", 0.9, 1, 1), 4.0), guessing(candidate("other", 0.9, 1, 1), 1.0)]
    plain, asked = (choice(*of, with_estimates=given, weights=EVEN) for given in (False, True))
    assert [(), ("energy",)] == [plain.estimated, asked.estimated]
    assert pytest.approx([100, 2**0.5 * 100]) == [one.scores["other"].value for one in (plain, asked)]
    assert {"energy": ["onnx_fp32", "other"]} == asked.lacking
    assert () == choice(of[0], FAST, with_estimates=True).estimated


EVEN = dict.fromkeys(DIMENSIONS, 0.25)


def guessing(one: Candidate, joules: float) -> Candidate:
    return dataclasses.replace(one, guesses={DIMENSIONS["energy"]: exactly(joules)})


def test_classes_are_lost_against_the_reference() -> None:
    """Where both have answered the same examples."""
    classes = Classes(names=("a", "b"), of=array("d", [0.0] * 1955 + [1.0] * 45))
    right, wrong = array("d", [1.0] * 1980 + [0.0] * 20), array("d", [1.0] * 1955 + [0.0] * 45)
    of = [dataclasses.replace(FP32, right=right), dataclasses.replace(FAST, right=wrong, classes=classes), RIGHT]
    found = choice(*of)
    assert str(found.lost_by(of[1])).startswith("class b: 25 of 45 → 0 of 45 right")
    assert [None, None] == [found.lost_by(of[0]), found.lost_by(of[2])]
