"""Loads: when calls arrive, and what their times say about the rate that was asked for.

A call of an open load is due at a time that is drawn before the run, whatever becomes of the calls before it. Its
latency counts from then, so that a stall is in the latency of every call that had to wait for it, and not in one.
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, permutations
from statistics import median

from pytest_hwperf.records.markers import LONGEST_S, Load
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import WITHIN, Served, Values, replace
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.figures.leaks import slope
from pytest_hwperf.stats.figures.ranks import quantile, shift_bound

_CLOSE_ENOUGH = 1.05  # of a rate that is not served over one that is
_LAGGING = 0.1  # of the bound, or of the median latency: more of it is the generator's own delay


def undelayed(served: Served) -> Served:
    """Return what the times would be if the generator had issued every call in time.

    Its delays come from other work on the machine, and stay in the times of the calls that wait behind. Without them a
    call begins when it is due and the one before has ended, and takes as long as it did (Lindley's recursion).
    """
    ended, free, before = array("d"), 0.0, 0.0
    for due, issued, end in zip(served.due, served.issued, served.ended, strict=True):
        began = max(due, before) + (issued - due)
        free = max(due, free) + max(0.0, end - began)
        before = end
        ended.append(free)
    return replace(served, issued=served.due, ended=ended)


def piece_of(load: Load, calls: int) -> Load:
    """Return a load of so many calls, which begins as this one does: a turn in a pair, the same on both sides."""
    return replace(load, most=calls, calls=calls, seconds=LONGEST_S)


def share_of_one(load: Load) -> Load:
    """Return what a single process makes of a load that several carry; another load as it is."""
    if not load.processes:
        return load
    size = load.processes
    return replace(load, carriers="threads", in_flight=1, qps=load.qps / size, calls=max(1, load.calls // size))


def bound_of(load: Load, budgets: Sequence[Budget]) -> float | None:
    """Return the latency in s within which a call is a good answer: that of the load, else of the budgets.

    Of several budgets on percentiles, the highest percentile's limit holds for most calls.
    """
    if load.within_ms:
        return load.within_ms / 1e3
    limits = {quantile(one.statistic): one.limit for one in budgets if one.metric == MEDIAN_LATENCY[0]}
    limits.pop(Fraction(0), None)
    return limits[max(limits)] if limits else None


def why_not_served(load: Load, served: Served) -> Statement | None:
    """Say why a server load is more than can be served within its bound; None where it is served.

    It is, where 99 % of the calls keep the bound, none fails, and the calls that wait do not become more.
    """
    if served.failed:
        return state("calls failed", failed=served.failed, calls=len(served.due) + served.failed)
    latencies = served.latencies
    if load.within_ms:
        late = sum(one > load.within_ms / 1e3 for one in latencies)
        if late > (1 - WITHIN) * len(latencies):
            return state("late calls", late=late, calls=len(latencies), limit=load.within_ms / 1e3)
    # each quarter of the load ends with more waiting calls than the one before, by more than one at a time
    n, ended, waiting = len(served.due), sorted(served.ended), list[int]()
    for quarter in range(1, 5) if load.kind == "server" and n >= 4 else ():  # noqa: PLR2004 - quarters
        position = quarter * n // 4 - 1
        waiting.append(position + 1 - sum(end <= served.due[position] for end in ended))
    if waiting and all(later > before + 1 for before, later in pairwise(waiting)):
        return state("backlog grows", first=waiting[0], last=waiting[-1])
    return None


def why_unsure(served: Served, within_s: float | None) -> Statement | None:
    """Say why the generator itself, and not what it calls, may have made the tail; None where it did not."""
    latencies = sorted(served.latencies)
    allowed = _LAGGING * (within_s or (latencies[len(latencies) // 2] if latencies else 0.0))
    return state("generator late", lag=served.lag_s, allowed=allowed) if served.lag_s > allowed else None


def why_slower(served: Served) -> Statement | None:
    """Say how much the generator itself adds to the median latency, whatever bound the calls keep; None for little."""
    if not served.due:
        return None
    added = median(issued - due for due, issued in zip(served.due, served.issued, strict=True))
    middle = median(served.latencies)
    return state("generator adds", added=added, median=middle) if added > _LAGGING * middle else None


def next_rate(tried: Mapping[float, bool] | Mapping[int, bool], first: float) -> float | None:
    """Return the rate to try next on the way to the highest that is served; None where it is known.

    Rates are doubled until one is not served (halved where already the first is not), then bisected.
    """
    good = max((rate for rate, served in tried.items() if served), default=0.0)
    bad = min((rate for rate, served in tried.items() if not served and rate > good), default=math.inf)
    if not tried:
        return first
    if math.isinf(bad):
        return 2 * good
    if not good:
        return bad / 2 if bad > first / 2**20 else None
    return math.sqrt(good * bad) if bad / good > _CLOSE_ENOUGH else None


MOST_WINDOWS, _FEWEST_WINDOWS = 10, 3
_CALLS = 200  # of a window, where there are as many as three such windows
_THIRDS, _PARTS = 3, 10  # that have to agree, and the parts of each whose medians are compared
_AGREE = 1.10  # one third over another
_SHORTEST = 1e-9  # seconds that a clock tells from none: an empty call may take none once the loop is taken off
_ALARMS, _COMPARED = 0.01, 12  # false ones, over two quantities and six ordered pairs of thirds
_FEWEST = 21  # calls: groups of seven are the smallest with a bound at that level
_GROUPS, _LEAST_OF_GROUP = 20, 10  # medians of which a slope is taken, and the calls of each
_RISE = 0.10  # of the median over the whole load, from which it is told


def rates(served: Served, within_s: float = math.inf) -> tuple[Values, Values]:
    """Return the calls a second of each window of equal length, and how many calls it has."""
    windows = min(MOST_WINDOWS, max(_FEWEST_WINDOWS, len(served.ended) // _CALLS))
    width, times = max(served.ended) / windows, zip(served.due, served.ended, strict=True)
    counts = _counted([end for due, end in times if end - due <= within_s], width, windows)
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
    asked = dict[str, Sequence[float]]()
    if load.kind != "offline":
        asked["median latency"] = _medians(served.latencies)
    if load.kind != "server":  # of each part, in the order in which calls ended
        ended, edges = [0.0, *sorted(served.ended)], _edges(calls)
        asked["seconds per completed call"] = [(ended[b] - ended[a]) / (b - a) for a, b in pairwise(edges)]
    return _told("no steady state", asked)


def why_drifting(latencies: Sequence[float]) -> Statement | None:
    """Say that calls in a row were no steady state, as `why_unsteady`; None too where they are too few to tell."""
    return _told("drifts", {"median latency": _medians(latencies)}) if len(latencies) >= _FEWEST else None


def _told(kind: str, asked: Mapping[str, Sequence[float]]) -> Statement | None:
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
