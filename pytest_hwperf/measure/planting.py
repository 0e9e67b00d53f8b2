"""Work planted into a call, so that a gate can be shown to find it: turns of an empty loop, never a sleep."""

from collections.abc import Callable, Sequence
from itertools import cycle
from time import perf_counter_ns
from typing import Any

_CALLS = 41  # of which the shortest is the length of a call: what others take more was not the call's
_BLOCKS = 15  # of turns of the loop, the same
_TURNS = 2_000  # in a block


def planted(
    function: Callable[..., Any],
    inputs: Sequence[Any] | None,
    share: float,
    clock_ns: Callable[[], int] = perf_counter_ns,
) -> Callable[..., Any]:
    """Return `function` with more work behind every call.

    Args:
        function: takes one of `inputs`, or nothing where these are None.
        inputs: prepared.
        share: of the call's own time, 0.05 = 5 %.
        clock_ns: by which both are timed, once.
    """
    arguments = cycle([()] if inputs is None else [(one,) for one in inputs])
    call_ns = min(_taken(function, next(arguments), clock_ns) for _ in range(_CALLS))
    block = _followed_by(range(_TURNS), lambda: None)
    turn_ns = min(_taken(block, (), clock_ns) for _ in range(_BLOCKS)) / _TURNS
    return _followed_by(range(round(share * call_ns / turn_ns)), function)


def _followed_by(turns: range, function: Callable[..., Any]) -> Callable[..., Any]:
    def slower(*arguments: Any) -> Any:
        result = function(*arguments)
        for _ in turns:
            pass
        return result

    return slower


def _taken(function: Callable[..., Any], arguments: tuple[Any, ...], clock_ns: Callable[[], int]) -> int:
    before = clock_ns()
    function(*arguments)
    return clock_ns() - before
