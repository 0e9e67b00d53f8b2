"""pytest-timeout, which stands still while a test waits for fresh processes: their time is no work of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any

import pytest

from pytest_hwperf.plugin.session import called_there

_TIMER: pytest.StashKey[tuple[Any, float]] = pytest.StashKey()  # what was set, and when


def timer_set(item: pytest.Item, settings: Any) -> None:
    """Note the timer that pytest-timeout has set for a test."""
    item.stash[_TIMER] = (settings, monotonic())


def timer_cancelled(item: pytest.Item) -> None:
    """Note that a test has no timer any more."""
    if _TIMER in item.stash:
        del item.stash[_TIMER]


@contextmanager
def timeout_paused(item: pytest.Item) -> Iterator[None]:
    """Cancel the timer of a test, and set it again to the time that was left; nothing where there is none."""
    if _TIMER not in item.stash:
        yield
        return
    settings, started = item.stash[_TIMER]
    left = max(settings.timeout - (monotonic() - started), 0.001)
    # Signals can be set in the main thread only.
    called_there(item, partial(item.ihook.pytest_timeout_cancel_timer, item=item))
    try:
        yield
    finally:
        later = settings._replace(timeout=left)
        called_there(item, partial(item.ihook.pytest_timeout_set_timer, item=item, settings=later))
