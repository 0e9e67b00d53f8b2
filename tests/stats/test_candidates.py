"""Candidates that the measurements of a report are, by test and by operating point."""

import pytest
from fakes import records as fake

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats.choice import candidates
from pytest_hwperf.stats.choice.candidates import described, lies_at, parse_point, points_of, without_parameters
from pytest_hwperf.stats.choice.tradeoffs import measured_together


def test_parameters_are_what_a_function_is_followed_by() -> None:
    table = [
        ("a.py::test_x", "a.py::test_x"),
        ("a.py::TestA::test_x[int8-32]", "a.py::TestA::test_x"),
        ("a.py::test_x[a[0]]", "a.py::test_x"),
        ("a.py::test_x[a::b]", "a.py::test_x"),
        ("part[1]/a.py::test_x[1]", "part[1]/a.py::test_x"),
        ("part[1]/a.py::test_x", "part[1]/a.py::test_x"),
        ("of others [1]", "of others "),
        ("", ""),
        ("[" * 1_000_000, "[" * 1_000_000),  # a pattern that begins anew at each bracket would take hours
    ]
    assert [] == [(test, alone) for test, alone in table if alone != without_parameters(test)]


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


def test_other_parameters_are_other_tests() -> None:
    """A model on two data sets is no candidate twice, and each table has its own reference."""
    for ids in ["{}-{}", "{1}-{0}"]:
        found = measured_together(
            [
                measured(f"a.py::test_x[{ids.format(name, size)}]", name)
                for name in ("sklearn_fp32", "onnx_fp32")
                for size in ("small", "l-arge")
            ]
        )
        assert ["a.py::test_x[small]", "a.py::test_x[l-arge]"] == [one.test for one in found], ids
        assert [["sklearn_fp32", "onnx_fp32"]] * 2 == [[of.name for of in one.candidates] for one in found], ids
        assert ["onnx_fp32"] * 2 == [one.reference.name for one in found], ids


def test_points_of_a_sweep_are_candidates_of_one_test() -> None:
    swept = [measured(f"a.py::test_x[onnx_fp32-{rows}]", "onnx_fp32", batch_size=rows) for rows in ("1", "32")]
    assert [("a.py::test_x", "batch_size=1"), ("a.py::test_x", "batch_size=32")] == [
        (one.test, one.point) for one in measured_together(swept)
    ]


def test_the_usual_reference_is_found_where_candidates_are_numbered() -> None:
    """Two of one name cannot be told apart, and neither is another scenario."""
    (found,) = measured_together([measured("a.py::test_x", name) for name in ("sklearn_fp32", *["onnx_fp32"] * 2)])
    assert "onnx_fp32 (1)" == found.reference.name


def test_conditions_tell_points_apart() -> None:
    table: list[tuple[list[dict[str, str]], list[str]]] = [
        ([{"batch_size": "1", "threads": "2"}, {"batch_size": "1"}], ["", ""]),  # all agree
        ([{"batch_size": "1"}, {"batch_size": "32"}, {}], ["batch_size=1", "batch_size=32", "batch_size=not declared"]),
        (
            [{}, {"load": "single_stream"}, {"load": "offline calls=9"}],  # without a load calls follow each other
            ["load=single_stream", "load=single_stream", "load=offline calls=9"],
        ),
        ([{"precision": "float32"}, {"precision": "int8"}], ["", ""]),  # which tells no points
    ]
    assert [] == [
        (declared, points) for declared, points in table if points != [described(one) for one in points_of(declared)]
    ]


def test_a_point_that_is_asked_for() -> None:
    assert {"threads": "1", "load": "server qps=5"} == parse_point(["threads=1", "threads=1", "load=server qps=5"])
    assert [True, False] == [lies_at({}, asked) for asked in ({"load": "single_stream"}, {"threads": "1"})]
    with pytest.raises(UsageProblem, match="one value for each condition"):
        parse_point(["threads=1", "threads=2"])
