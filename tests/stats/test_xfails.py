"""Which expected failures of a file of tests are new."""

import pytest

from pytest_hwperf.stats.changed_code import is_expected, xfails_of_file

THEN = """
import pytest
slow = pytest.mark.xfail(reason="known")
FAST: bool = True
HURRIED = not FAST
@pytest.mark.xfail(HURRIED, reason="hurried")
def test_hurried(): pass
@pytest.mark.xfail
def test_known(): pass
@slow
class TestOld:
    def test_old(self): pass
@pytest.mark.parametrize("x", [1, pytest.param(2, marks=slow)])
def test_x(x): pass
def test_plain(): pass
"""


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("", "", set()),
        ("def test_plain", "@pytest.mark.xfail(strict=False)\ndef test_plain", {"test_plain"}),
        ("def test_plain", "@slow\ndef test_plain", {"test_plain"}),
        ("def test_plain(): pass", "async def test_plain(): pytest.xfail('now')", {"test_plain"}),
        ("    def test_old", "    @slow\n    def test_old", {"TestOld::test_old"}),
        ("[1,", "[pytest.param(1, marks=slow),", {"test_x"}),
        ("[1,", "[1, 3,", set()),
        ("import pytest", "import pytest\npytestmark = [pytest.mark.xfail(reason='all')]", {""}),
        ("FAST: bool = True", "FAST: bool = False", {"test_hurried"}),  # which the condition comes from
        ("HURRIED = not FAST", "HURRIED = 1", {"test_hurried"}),
        ("import pytest", "import (", set()),
    ],
)
def test_an_xfail_that_is_new_is_named_by_what_it_is_around(old: str, new: str, names: set[str]) -> None:
    assert names == xfails_of_file(THEN.encode(), THEN.replace(old, new, 1).encode()).added


def test_those_that_the_baseline_has_too_are_told_from_new_ones() -> None:
    now = THEN.replace("def test_plain", "@pytest.mark.xfail\ndef test_plain")
    found = xfails_of_file(THEN.encode(), f"{now}@unittest.expectedFailure\ndef test_more(): pass".encode())
    assert {"test_plain", "test_more"} == found.added
    assert {"", "test_hurried", "test_known", "TestOld", "test_x"} == found.kept


@pytest.mark.parametrize(
    ("test", "expected"),
    [("TestA::test_b[x::y]", True), ("TestA::test_c", False), ("test_d[1]", True), ("test_dd", False)],
)
def test_a_test_is_expected_to_fail_by_its_own_mark_and_those_around_it(test: str, expected: bool) -> None:
    assert expected == is_expected(test, frozenset({"TestA::test_b", "test_d"}))
    assert is_expected(test, frozenset({""}))


@pytest.mark.parametrize("name", ["pytest_collection_modifyitems", "TestA::slow"])
def test_a_fixture_or_a_hook_may_mark_any_test(name: str) -> None:
    assert is_expected("test_e", frozenset({name}))


def test_an_expression_that_is_too_deep_hides_no_xfail() -> None:
    deep = f"X = {' + '.join('1' * 2000)}\n@pytest.mark.xfail\ndef test_plain(): pass"
    assert frozenset({""}) == xfails_of_file(b"", deep.encode()).added
    assert frozenset() == xfails_of_file(deep.encode(), deep.encode()).added
