"""Tests that the last gate has not decided for lack of time: pytest's cache keeps them, and they come first."""

from collections.abc import Collection, Sequence

import pytest

_KEY = "hwperf/unfinished"
_MOST = 10_000  # node ids that are kept


def first(config: pytest.Config, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the items with those first that the last gate has not finished; the others keep their order."""
    left = set(_kept(config))
    return sorted(items, key=lambda item: item.nodeid not in left)


def keep(config: pytest.Config, items: Sequence[pytest.Item], unfinished: Collection[str]) -> None:
    """Keep which of the items are unfinished now; what is known of other tests stays."""
    cache, before, asked = getattr(config, "cache", None), _kept(config), {item.nodeid for item in items}
    now = [*(node for node in before if node not in asked), *sorted(unfinished)][-_MOST:]
    if cache is not None and now != before:
        cache.set(_KEY, now)


def _kept(config: pytest.Config) -> list[str]:
    """Return what the cache holds, which anyone may have written."""
    cache = getattr(config, "cache", None)
    found = cache.get(_KEY, []) if cache is not None else []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
