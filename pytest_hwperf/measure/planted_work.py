"""Work added to a call, to show that a gate finds it: iterations of an empty loop, never a sleep."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from pytest_hwperf.measure.stream import Stream

_ROUNDS = 15  # calls and a block of iterations; the shortest of either counts: the rest was disturbed
_CALLS = 3  # in a round: in turn with the loop, so that both ran on the same processors at the same speeds
_ITERATIONS = 2_000  # in a block


def planted(stream: Stream, share: float, clock_ns: Callable[[], int] = perf_counter_ns) -> Callable[..., Any]:
    """Return the function of a stream with more work after every call."""
    block, calls, blocks = Stream(_followed_by(range(_ITERATIONS), lambda: None), None), list[float](), list[float]()
    for _ in range(_ROUNDS):
        calls += [stream.times(1, clock_ns)[0] for _ in range(_CALLS)]
        blocks.append(block.times(1, clock_ns)[0])
    iterations = range(round(share * min(calls) * _ITERATIONS / min(blocks)))
    return (_awaited_and_followed_by if stream.awaits else _followed_by)(iterations, stream.function)


def _followed_by(iterations: range, function: Callable[..., Any]) -> Callable[..., Any]:
    def slower(*arguments: Any) -> Any:
        result = function(*arguments)
        for _ in iterations:
            pass
        return result

    return slower


def _awaited_and_followed_by(iterations: range, function: Callable[..., Any]) -> Callable[..., Any]:
    async def slower(*arguments: Any) -> Any:
        result = await function(*arguments)
        for _ in iterations:
            pass
        return result

    return slower
