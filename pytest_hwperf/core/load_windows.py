"""Windows of a load: its rates, whether it was steady, and whether calls became slower as it went on."""

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from pytest_hwperf.core.leaks import slope
from pytest_hwperf.core.loads import Load, Served
from pytest_hwperf.core.records import Values
from pytest_hwperf.core.statements import Statement, state

MOST_WINDOWS = 10
_STEADY = 3  # last windows that have to agree
_AGREE = 1.10  # largest over smallest
_CALLS = 200  # of a window, where there are as many as three such windows
_GROUPS, _LEAST_OF_GROUP = 20, 10  # medians of which a slope is taken, and the calls of each
_RISE = 0.10  # of the median over the whole load, from which it is told


def count_of_windows(calls: int) -> int:
    """Return into how many windows so many calls are cut: three to ten, of 200 calls each where there are."""
    return min(MOST_WINDOWS, max(_STEADY, calls // _CALLS))


def rates(served: Served, within_s: float = math.inf) -> tuple[Values, Values]:
    """Return the calls a second of each window of equal length, and how many calls it has.

    Args:
        served: at least one call.
        within_s: calls that took longer do not count.
    """
    width = max(served.ended) / count_of_windows(len(served.ended))
    times = zip(served.due, served.ended, strict=True)
    counts = _counted([end for due, end in times if end - due <= within_s], width, count_of_windows(len(served.ended)))
    return array("d", (count / width for count in counts)), array("d", counts)


def why_unsteady(load: Load, served: Served) -> Statement | None:
    """Say why the last three windows of a load are no steady state; None where they agree in rate and median.

    The rate of a server load is held against that of its schedule, whose own chance is no unsteadiness.
    """
    count, last = count_of_windows(len(served.due)), max(served.ended, default=0.0)
    width = (last if load.kind == "offline" else min(load.seconds, last)) / count
    if not width:
        return state("empty window", windows=count)
    done = _counted(served.ended, width, count)[-_STEADY:]
    if load.kind == "server":
        due = _counted(served.due, width, count)[-_STEADY:]
        done = [ended / asked if asked else 0.0 for ended, asked in zip(done, due, strict=True)]
    if not min(done):
        return state("empty window", windows=count)
    if ratio := _disagreement(done):
        return state("no steady state", windows=count, ratio=ratio, what="completed calls")
    if load.kind == "offline":  # a call waits for all before it, so that times rise by nature
        return None
    if ratio := _disagreement(_medians(served, width, count)):
        return state("no steady state", windows=count, ratio=ratio, what="median latency")
    return None


def why_degrading(load: Load, served: Served) -> Statement | None:
    """Say by how much latency rose over a load, by a robust slope; None where it did not, or calls are too few."""
    size = len(served.due) // _GROUPS
    if load.kind == "offline" or size < _LEAST_OF_GROUP:
        return None
    latencies = served.latencies
    groups = [median(latencies[start * size : (start + 1) * size]) for start in range(_GROUPS)]
    found, middle = slope(groups), median(groups)
    rise = found.value * (_GROUPS - 1)
    if found.low is None or found.low <= 0 or rise <= _RISE * middle:
        return None
    return state("degrades", rise=rise, middle=middle, seconds=served.due[-1])


def _counted(moments: Sequence[float], width: float, count: int) -> list[float]:
    """Count moments in each of `count` windows; those beyond the last by no more than rounding belong to it."""
    counts = [0.0] * count
    for moment in moments:
        window = int(moment / width)
        if window < count or math.isclose(moment, width * count):
            counts[min(window, count - 1)] += 1
    return counts


def _medians(served: Served, width: float, count: int) -> list[float]:
    latencies = served.latencies
    edges = [bisect_left(served.due, width * edge) for edge in range(count - _STEADY, count + 1)]
    parts = (latencies[begin:end] for begin, end in pairwise(edges))
    return [median(part) if part else 0.0 for part in parts]


def _disagreement(values: Sequence[float]) -> float:
    """Return the largest over the smallest value where they do not agree, 0 where they do."""
    least, most = min(values), max(values)
    return most / least if most > _AGREE * least > 0 else 0.0
