"""Bodies of tests that are measured themselves: a test with a budget and without the fixture is the call."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from pytest_hwperf.plugin.hwperf import Hwperf


def measured_body(item: pytest.Function) -> Callable[..., None]:
    """Return a stand-in for the test's body that measures it."""
    body = item.obj

    def stand_in(**fixtures: Any) -> None:
        __tracebackhide__ = True
        Hwperf(item)(partial(body, **fixtures) if fixtures else body)

    return stand_in


def measured_async_body(item: pytest.Function) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return a stand-in for the body of an async test that measures it on the loop that runs the test."""
    body = item.obj

    async def stand_in(**fixtures: Any) -> None:
        __tracebackhide__ = True
        await Hwperf(item).awaitable(partial(body, **fixtures) if fixtures else body)

    return stand_in
