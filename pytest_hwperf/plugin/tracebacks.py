"""Tracebacks of what a measured call raises: the frames of this package tell the user nothing."""

from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import pytest

from pytest_hwperf.core.errors import HwperfError

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = "pytest_hwperf"
_CALLERS = frozenset(f"{_PACKAGE}.measure.{name}" for name in ("stream", "items", "subjects", "accuracy"))  # the call


def raised_at_the_call(method: Callable[P, R]) -> Callable[P, R]:
    """Let errors point at the user's line and at what the user's code did, without the frames of this package."""

    @wraps(method)
    def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return method(*args, **kwargs)
        except HwperfError as error:
            raise error.with_traceback(None) from None
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised again
            raise error.with_traceback(without_own_frames(error.__traceback__))  # noqa: B904 - the same error

    return shown


def raised_at_the_await(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Do the same for a method that is awaited."""

    @wraps(method)
    async def shown(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        try:
            return await method(*args, **kwargs)
        except HwperfError as error:
            raise error.with_traceback(None) from None
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised again
            raise error.with_traceback(without_own_frames(error.__traceback__))  # noqa: B904 - the same error

    return shown


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package; unchanged where the error is of this package itself."""
    frames = list[TracebackType]()
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    if frames and _is_own(frames[-1]) and _module(frames[-1]) not in _CALLERS:
        return frames[0]
    kept: TracebackType | None = None
    for one in reversed(frames):
        if not _is_own(one):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _is_own(trace: TracebackType) -> bool:
    return _module(trace).partition(".")[0] == _PACKAGE


def _module(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", ""))
