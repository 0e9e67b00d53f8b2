"""Shards: which one a test belongs to, and what is one at all."""

from collections import Counter

import pytest

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import Shard, parse_shard, selection_of, shard_of
from pytest_hwperf.records.run import replace

TESTS = [f"tests/test_models.py::test_call[{number}]" for number in range(400)]


@pytest.mark.parametrize(
    ("text", "expected"), [("1/1", (1, 1)), ("2/4", (2, 4)), (" 4 / 4 ", (4, 4)), ("256/256", (256, 256)), ("", None)]
)
def test_a_shard_is_named_by_its_number_and_by_how_many_there_are(text: str, expected: object) -> None:
    assert expected == parse_shard(text)


@pytest.mark.parametrize(
    "text", ["0/4", "5/4", "2", "2/", "/4", "2/4/8", "-1/4", "1.5/4", "two/4", "257/257", "²/4", "1/0"]
)
def test_what_is_no_shard_is_refused_with_one(text: str) -> None:
    with pytest.raises(UsageProblem, match="such as 2/4"):
        parse_shard(text)


def test_a_test_belongs_to_the_same_shard_everywhere() -> None:
    """The first eight bytes of the SHA-256 of its name, big-endian, modulo the number of shards."""
    assert [3, 1, 2, 1] == [shard_of(f"test_a.py::test_{letter}", 3) for letter in "abcd"]
    assert 1 == shard_of("test_\udc80", 1)


def test_shards_hold_about_as_many_tests_each() -> None:
    """Four times some hundred of four hundred; beyond 133 one in ten thousand lies."""
    counts = Counter(shard_of(name, 4) for name in TESTS)
    assert {1, 2, 3, 4} == counts.keys()
    assert max(counts.values()) <= 133


def test_a_selection_is_the_same_in_any_order() -> None:
    assert selection_of(TESTS) == selection_of(reversed(TESTS))
    assert selection_of(TESTS) != selection_of(TESTS[1:])


@pytest.mark.parametrize(("number", "of"), [(0, 3), (4, 3), (1, 257)])
def test_no_record_has_a_number_that_no_shard_has(number: int, of: int) -> None:
    shard = Shard(number=1, of=3, alpha=0.01, selected=1, selection="", settings={}, exit_code=0)
    with pytest.raises(ValueError, match="no shard has the number"):
        replace(shard, number=number, of=of)
