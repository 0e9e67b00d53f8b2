"""Windows of a load: its rates, whether calls were steady, and whether they became slower as it went on."""

import math
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise, permutations
from statistics import median

from pytest_hwperf.core.leaks import slope
from pytest_hwperf.core.loads import Load, Served
from pytest_hwperf.core.ranks import shift_bound
from pytest_hwperf.core.records import Values
from pytest_hwperf.core.statements import Kind, Statement, state

MOST_WINDOWS, _FEWEST_WINDOWS = 10, 3
_CALLS = 200  # of a window, where there are as many as three such windows
_THIRDS, _PARTS = 3, 10  # that have to agree, and the parts of each whose medians are compared
_AGREE = 1.10  # one third over another
_SHORTEST = 1e-9  # seconds that a clock tells from none: an empty call may take none once the loop is taken off
_ALARMS, _COMPARED = 0.01, 12  # false ones, over two quantities and six ordered pairs of thirds
_FEWEST = 21  # calls: groups of seven are the smallest with a bound at that level
_GROUPS, _LEAST_OF_GROUP = 20, 10  # medians of which a slope is taken, and the calls of each
_RISE = 0.10  # of the median over the whole load, from which it is told


def count_of_windows(calls: int) -> int:
    """Return into how many windows so many calls are cut: three to ten, of 200 calls each where there are."""
    return min(MOST_WINDOWS, max(_FEWEST_WINDOWS, calls // _CALLS))


def rates(served: Served, within_s: float = math.inf) -> tuple[Values, Values]:
    """Return the calls a second of each window of equal length, and how many calls it has."""
    width = max(served.ended) / count_of_windows(len(served.ended))
    times = zip(served.due, served.ended, strict=True)
    counts = _counted([end for due, end in times if end - due <= within_s], width, count_of_windows(len(served.ended)))
    return array("d", (count / width for count in counts)), array("d", counts)


def why_unsteady(load: Load, served: Served) -> Statement | None:
    """Say why a load was no steady state; None where nothing shows that one third of it was unlike another.

    Thirds of equally many calls are compared by the medians of ten parts of each, so that a single stall is no drift,
    and by the lower bound of their ratio, so that chance is none: of a steady load with independent calls, one in a
    hundred is called unsteady at most. The times of a server load are asked for latency, since its rate is that of its
    schedule; an offline load for its rate, since a call waits for all before it.
    """
    calls, last = len(served.due), max(served.ended, default=0.0)
    if calls < _FEWEST:
        return state("few calls", calls=calls, needed=_FEWEST)
    width = (last if load.kind == "offline" else min(load.seconds, last)) / _THIRDS
    if not (width and min(_counted(served.ended, width, _THIRDS))):
        return state("empty window")
    asked = {"median latency": _medians(served.latencies), "seconds per completed call": _intervals(served)}
    if not_asked := {"server": "seconds per completed call", "offline": "median latency"}.get(load.kind):
        del asked[not_asked]
    return _told("no steady state", asked)


def why_drifting(latencies: Sequence[float]) -> Statement | None:
    """Say that calls in a row were no steady state, as `why_unsteady`; None too where they are too few to tell."""
    return _told("drifts", {"median latency": _medians(latencies)}) if len(latencies) >= _FEWEST else None


def _told(kind: Kind, asked: Mapping[str, Sequence[float]]) -> Statement | None:
    """Say which quantity differs between thirds, by the values of their parts."""
    low, ratio, what = max((*_drift(values), what) for what, values in asked.items())
    return state(kind, ratio=ratio, low=low, what=what) if low > _AGREE else None


def why_degrading(load: Load, served: Served) -> Statement | None:
    """Say by how much latency rose over a load, by a robust slope; None where it did not, or calls are too few."""
    size = len(served.due) // _GROUPS
    if load.kind == "offline" or size < _LEAST_OF_GROUP:
        return None
    latencies = served.latencies
    groups = [median(latencies[start * size : (start + 1) * size]) for start in range(_GROUPS)]
    found, middle = slope(groups), median(groups)
    rise = found.value * (_GROUPS - 1)
    if found.low is None or found.low * (_GROUPS - 1) <= _RISE * middle:
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


def _medians(latencies: Sequence[float]) -> list[float]:
    """Return the median latency of each part, in the order in which calls were due."""
    return [median(latencies[begin:end]) for begin, end in pairwise(_edges(len(latencies)))]


def _intervals(served: Served) -> list[float]:
    """Return the seconds for each completed call of each part, in the order in which calls ended."""
    ended = [0.0, *sorted(served.ended)]
    return [(ended[end] - ended[begin]) / (end - begin) for begin, end in pairwise(_edges(len(ended) - 1))]


def _edges(calls: int) -> list[int]:
    """Cut calls into the parts of all thirds, which differ by one call at most."""
    parts = _THIRDS * min(_PARTS, calls // _THIRDS)
    return [calls * part // parts for part in range(parts + 1)]


def _drift(values: Sequence[float]) -> tuple[float, float]:
    """Return by which factor two thirds of a load differ: its lower bound, and the median of what parts say."""
    size, logs = len(values) // _THIRDS, [math.log(max(value, _SHORTEST)) for value in values]
    thirds = [logs[begin : begin + size] for begin in range(0, len(logs), size)]
    bounds = []
    for one, other in permutations(thirds, 2):
        low = shift_bound(one, other, _ALARMS / _COMPARED)
        assert low is not None  # noqa: S101 - as many parts as there are have one
        bounds.append((math.exp(low), math.exp(median(a - b for a in one for b in other))))
    return max(bounds)
