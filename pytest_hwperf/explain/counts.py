"""How often each function of Python is called: counted in calls of their own, which are not timed.

Source: Python's documentation, `sys.setprofile`.
"""

import sys
from collections import Counter
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FrameType

from pytest_hwperf.explain.frames import Function, function_of

_RESUMED = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR  # each of their items looks like a call


def count_functions(
    work: Callable[[], object], calls: int, within: CodeType | None = None
) -> dict[Function, float | None]:
    """Return how often each function is called in one call, by their qualified names; None where it cannot be told."""
    seen, is_inside = Counter[CodeType](), within is None

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal is_inside
        if event == "call" and is_inside:
            seen[frame.f_code] += 1
        if frame.f_code is within and event in {"call", "return"}:
            is_inside = event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return {function_of(code): None if code.co_flags & _RESUMED else count / calls for code, count in seen.items()}
