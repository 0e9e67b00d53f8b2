"""Candidates that the measurements of a report are."""

import pytest

from pytest_hwperf.core.candidates import without_parameters


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
