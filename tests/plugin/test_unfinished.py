"""What a gate left inconclusive for lack of time is kept in pytest's cache, and compared first the next time."""

from types import SimpleNamespace
from typing import Any

from pytest_hwperf.plugin.judging.gate import remember_unfinished, unfinished_first


class FakeCache:
    """A cache in memory."""

    def __init__(self, held: object) -> None:
        self.held: dict[str, Any] = {"hwperf/unfinished": held}

    def get(self, key: str, default: object) -> object:
        return self.held.get(key, default)

    def set(self, key: str, value: object) -> None:
        self.held[key] = value


def config(held: object) -> Any:
    return SimpleNamespace(cache=FakeCache(held))


def items(*nodes: str) -> Any:
    return [SimpleNamespace(nodeid=node) for node in nodes]


def order(asked: Any, of: Any) -> list[str]:
    return [item.nodeid for item in unfinished_first(asked, of)]


def test_what_was_left_comes_first_in_its_order() -> None:
    assert ["c", "d", "a", "b"] == order(config(["d", "c", "gone"]), items("a", "b", "c", "d"))


def test_what_is_known_of_other_tests_is_kept() -> None:
    here = config(["other", "a"])
    remember_unfinished(here, items("a", "b"), {"b"})
    assert ["other", "b"] == here.cache.held["hwperf/unfinished"]


def test_a_cache_that_holds_something_else_is_taken_for_empty() -> None:
    for held in ("text", {"a": 1}, [1, None], None):
        assert ["a", "b"] == order(config(held), items("a", "b"))


def test_without_a_cache_the_order_stays() -> None:
    bare: Any = SimpleNamespace()
    remember_unfinished(bare, items("a"), {"a"})
    assert ["a", "b"] == order(bare, items("a", "b"))
