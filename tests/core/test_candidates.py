"""Candidates that the measurements of a report are."""

import pytest
from fakes import records as fake

from pytest_hwperf.core import candidates
from pytest_hwperf.core.candidates import measured_together
from pytest_hwperf.core.records import Judgement, replace
from pytest_hwperf.core.rivals import without_parameters


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
    one, asked, test_of = fake.sklearn_judgement(), list[Judgement](), candidates.test_of
    many = [replace(one, run=replace(one.run, test=f"a.py::test_{number}")) for number in range(20)]

    def counted(judgement: Judgement) -> str:
        asked.append(judgement)
        return test_of(judgement)

    monkeypatch.setattr(candidates, "test_of", counted)

    assert [f"a.py::test_{number}" for number in range(20)] == [found.test for found in measured_together(many)]
    assert 20 == len(asked)
