"""Where the time of a call goes in functions of Python: the stack is sampled while calls are made.

That happens in a process of its own, never where time is taken, and the same calls are timed there without it, so that
its cost is known.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from time import perf_counter_ns
from types import CodeType

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.movers import SampledCalls, SampledFunction
from pytest_hwperf.core.statements import state
from pytest_hwperf.explain.counts import count_functions
from pytest_hwperf.explain.frames import FrameNames, Function, function_of, is_measured
from pytest_hwperf.explain.sampler import Samples, sampling

_INTERVAL_S = 0.0005
_BLOCK_NS = 5_000_000
_COUNTED = 2  # calls in which functions are counted
_ROUNDS = 5  # in each of which calls are made without the profiler, then with it: a machine changes its speed
_PLAIN = 0.5  # of the time: in which calls are made without the profiler
_LEAST_SHARE = 0.0005  # of a call: about one sample; less counts to the frame that it is in
_MOST_FUNCTIONS = 2000

Batch = Callable[[int], int]  # makes that many calls; returns the ns of all


def sample_functions(batch: Batch, root: Path, seconds: float, within: CodeType | None = None) -> SampledCalls:
    """Profile calls for some seconds, after they were counted and timed without a profiler."""
    if sys.getprofile() is not None:
        raise MeasurementError(f"another profiler watches the process: {sys.getprofile()!r}")
    names = FrameNames(root)
    counted = count_functions(lambda: batch(_COUNTED), _COUNTED, within)
    plain, slowed, sessions, size = list[float](), list[float](), list[Samples](), 1
    for _ in range(_ROUNDS):
        taken_ns, size = _timed(batch, seconds * _PLAIN / _ROUNDS, size)
        plain += taken_ns
        with sampling(_INTERVAL_S) as samples:
            taken_ns, _ = _timed(batch, seconds / _ROUNDS, size)
            samples.is_over = True  # leaving the block is no call
        sessions.append(samples)
        slowed += taken_ns
    stacks = _stacks(sessions, names, within)
    total = sum(stacks.values())
    if not total:
        raise MeasurementError(str(state("not sampled")))
    kept = folded(stacks, _LEAST_SHARE * total)
    return SampledCalls(
        source=f"stacks sampled every {_INTERVAL_S * 1000:g} ms",
        stacks={";".join(path): taken / total * _undisturbed(slowed) * 1e-9 for path, taken in kept.items()},
        functions=_functions(names, counted),
        call_s=_undisturbed(slowed) * 1e-9,
        plain_s=_undisturbed(plain) * 1e-9,
        samples=sum(one.count for one in sessions),
    )


def _timed(batch: Batch, seconds: float, size: int) -> tuple[list[float], int]:
    """Make blocks of calls for some seconds, longer ones while they are short; return ns of a call in each, and a size.

    Blocks are short, so that other work of the machine is in few of them.
    """
    began, taken = perf_counter_ns(), list[float]()
    while not taken or perf_counter_ns() - began < seconds * 1e9:
        started = perf_counter_ns()
        taken.append(batch(size) / size)
        if perf_counter_ns() - started < _BLOCK_NS / 2:  # with what is done between its calls
            size *= 2
    return taken, size


def _undisturbed(blocks: Sequence[float]) -> float:
    """Return the lower quartile: other work only makes blocks longer."""
    return sorted(blocks)[len(blocks) // 4]


def _stacks(sessions: Sequence[Samples], names: FrameNames, within: CodeType | None) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for stack, seconds in (item for one in sessions for item in one.seconds.items()):
        path = names.path([function_of(code) for code in stack]) if within is None or within in stack else ()
        if path:
            found[path] = found.get(path, 0.0) + seconds
    return found


def folded(stacks: Mapping[tuple[str, ...], float], least: float) -> dict[tuple[str, ...], float]:
    """Return stacks of which those that hold less than `least` count to the frame that they are in."""
    kept = dict(stacks)
    for depth in range(max(map(len, stacks), default=0), 1, -1):
        for path in [path for path in kept if len(path) == depth and kept[path] < least]:
            kept[path[:-1]] = kept.get(path[:-1], 0.0) + kept.pop(path)
    return kept


def _functions(names: FrameNames, counted: Mapping[Function, float | None]) -> dict[str, SampledFunction]:
    """Return what is known of each function that was sampled or counted."""
    calls = {names.frame(one): count for one, count in counted.items() if is_measured(one)}
    return {
        frame: SampledFunction(
            line=line, own=frame in names.own, calls=calls.get(frame), code=names.codes.get(frame, "")
        )
        for frame, line in islice(names.lines.items(), _MOST_FUNCTIONS)
    }
