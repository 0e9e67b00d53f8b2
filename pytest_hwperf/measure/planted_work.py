"""Work added to a call, to show that a gate finds it: iterations of an empty loop, never a sleep."""

from collections.abc import Callable, Sequence
from itertools import cycle
from time import perf_counter_ns
from typing import Any

_ROUNDS = 15  # calls and a block of iterations; the shortest of either counts: the rest was disturbed
_CALLS = 3  # in a round: in turn with the loop, so that both ran on the same processors at the same speeds
_ITERATIONS = 2_000  # in a block


def planted(
    function: Callable[..., Any],
    inputs: Sequence[Any] | None,
    share: float,
    clock_ns: Callable[[], int] = perf_counter_ns,
) -> Callable[..., Any]:
    """Return `function` with more work after every call.

    Args:
        function: takes one of `inputs`, or no argument where these are None.
        inputs: prepared.
        share: of the call's own time, 0.05 = 5 %.
        clock_ns: by which both are timed, once.
    """
    arguments = cycle([()] if inputs is None else [(one,) for one in inputs])
    block, calls, blocks = _followed_by(range(_ITERATIONS), lambda: None), list[int](), list[int]()
    for _ in range(_ROUNDS):
        calls += [_taken(function, next(arguments), clock_ns) for _ in range(_CALLS)]
        blocks.append(_taken(block, (), clock_ns))
    return _followed_by(range(round(share * min(calls) * _ITERATIONS / min(blocks))), function)


def _followed_by(iterations: range, function: Callable[..., Any]) -> Callable[..., Any]:
    def slower(*arguments: Any) -> Any:
        result = function(*arguments)
        for _ in iterations:
            pass
        return result

    return slower


def _taken(function: Callable[..., Any], arguments: tuple[Any, ...], clock_ns: Callable[[], int]) -> int:
    before = clock_ns()
    function(*arguments)
    return clock_ns() - before
