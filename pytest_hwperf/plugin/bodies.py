"""Bodies of tests that are measured themselves: a test with a budget and without the fixture is the call."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from pytest_hwperf.plugin.hwperf import Hwperf
from pytest_hwperf.plugin.session import test_of
from pytest_hwperf.plugin.subtests import RepeatedSubtests, ReportedError
from pytest_hwperf.plugin.whole_suites import FixtureValues

_SUBTESTS = "subtests"


def measured_body(item: pytest.Function) -> Callable[..., None]:
    """Return a stand-in for the test's body that measures it."""
    body = item.obj

    def stand_in(**fixtures: Any) -> None:
        __tracebackhide__ = True
        subtests = _repeated(item, fixtures)
        call = partial(body, **fixtures) if fixtures else body

        def call_with_subtests() -> None:
            call()
            assert subtests is not None  # noqa: S101 - for the type checker
            subtests.end_call()

        with _failure_reported(item):
            Hwperf(item)(call if subtests is None else call_with_subtests)

    return stand_in


def measured_async_body(item: pytest.Function) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a stand-in for the body of an async test that measures it on the loop that runs the test."""
    body = item.obj

    async def stand_in(**fixtures: Any) -> None:
        __tracebackhide__ = True
        subtests = _repeated(item, fixtures)
        call = partial(body, **fixtures) if fixtures else body

        async def call_with_subtests() -> None:
            await call()
            assert subtests is not None  # noqa: S101 - for the type checker
            subtests.end_call()

        with _failure_reported(item):
            await Hwperf(item).awaitable(call if subtests is None else call_with_subtests)

    return stand_in


def _repeated(item: pytest.Item, fixtures: dict[str, Any]) -> RepeatedSubtests | None:
    """Note the fixtures of a body; put a stand-in for `subtests` among them, and return it; None where it has none."""
    if test_of(item).markers.by_all:
        test_of(item).fixtures = FixtureValues(fixtures)
    real = getattr(fixtures.get(_SUBTESTS), "test", None)
    if real is None:
        return None
    fixtures[_SUBTESTS] = found = RepeatedSubtests(real)
    return found


@contextmanager
def _failure_reported(item: pytest.Item) -> Iterator[None]:
    """Let a body end whose subtests have failed: pytest fails the test for them."""
    try:
        yield
    except ReportedError:
        test_of(item).has_failed = True
