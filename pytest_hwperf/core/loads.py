"""Loads: when calls arrive, and what their times say about the rate that was asked for.

A call of an open load is due at a time that is drawn before the run, whatever becomes of the calls before it. Its
latency counts from then, so that a stall is in the latency of every call that had to wait for it, and not in one.
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, get_args

from pytest_hwperf.core.budgets import nearest
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.records import Values
from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.core.structs import Count, Record, Size

LoadKind = Literal["single_stream", "multi_stream", "concurrency", "offline", "server"]

WITHIN = 0.99  # share of the calls that keep the bound at a rate that can be served
CONFIDENCE = 0.99  # of the bound that early stopping gives
LONGEST_S = 3600.0  # that a load may last
FASTEST_QPS = 1e6
MOST_IN_FLIGHT = 1024
_LAGGING = 0.1  # of the bound, or of the median latency: more of it is the generator's own delay
_OPEN: frozenset[LoadKind] = frozenset({"offline", "server"})
_FIELDS: Mapping[LoadKind, tuple[str, ...]] = {
    "single_stream": ("seconds",),
    "multi_stream": ("seconds", "rows"),
    "concurrency": ("seconds", "in_flight"),
    "offline": ("calls", "in_flight"),
    "server": ("qps", "seconds", "seed", "shape", "within_ms", "in_flight"),
}


class Load(Record, frozen=True, kw_only=True):
    """How calls arrive, as the marker `hwload` says."""

    kind: LoadKind
    qps: Size = 0.0  # of server: calls a second, on average
    seconds: Size = 2.0
    seed: Count = 1  # of the schedule
    shape: Size = 1.0  # of the gamma distribution of the gaps: 1 is Poisson, more is more regular, less is in bursts
    in_flight: Count = 1  # calls at once, at most
    rows: Count = 8  # of a call of multi_stream
    calls: Count = 1000  # of offline, all due at once
    within_ms: Size = 0.0  # a call later than this is no good answer; 0: any is

    @property
    def is_open(self) -> bool:
        """Whether calls arrive without waiting for the ones before."""
        return self.kind in _OPEN

    def __str__(self) -> str:
        told = {name: getattr(self, name) for name in _FIELDS[self.kind]}
        return " ".join([self.kind, *(f"{name}={value:g}" for name, value in told.items())])


class Served(Record, frozen=True, kw_only=True):
    """What became of the calls of one load; times in s since its beginning, in the order in which they were due."""

    due: Values
    issued: Values  # when the generator handed a call over; later than due by its own delay
    ended: Values
    failed: Count = 0  # calls that raised, which are not among the times

    @property
    def latencies(self) -> Values:
        """Seconds from when each call was due."""
        return array("d", (end - due for due, end in zip(self.due, self.ended, strict=True)))

    @property
    def lag_s(self) -> float:
        """The delay of the generator itself that 99 % of the calls keep."""
        lags = sorted(issued - due for due, issued in zip(self.due, self.issued, strict=True))
        return lags[math.ceil(WITHIN * len(lags)) - 1] if lags else 0.0


def parse_load(keywords: Mapping[str, object]) -> Load:
    """Turn the keywords of `hwload` into a load.

    Raises:
        UsageProblem: says what was given and what is allowed.
    """
    kind = keywords.get("kind")
    if kind not in get_args(LoadKind):
        hint = nearest(str(kind), get_args(LoadKind))
        raise UsageProblem(f"hwload: kind={kind!r} is no load.{hint} Allowed: {', '.join(get_args(LoadKind))}")
    fields = _FIELDS[kind]  # type: ignore[index] # one of its arguments, as was asked just now
    if unknown := sorted({*keywords} - {"kind", *fields}):
        hint = nearest(unknown[0], fields)
        raise UsageProblem(f"hwload: {unknown[0]}= says nothing of a {kind} load.{hint} Allowed: {', '.join(fields)}")
    values = {name: _number(name, value) for name, value in keywords.items() if name != "kind"}
    if kind == "server" and not values.get("qps"):
        raise UsageProblem("hwload: a server load needs qps=, the calls a second, such as qps=200")
    return Load(kind=kind, **values)  # type: ignore[arg-type] # the same; counts are whole, as `_number` says


_RANGES: Mapping[str, tuple[float, float]] = {
    "qps": (1e-3, FASTEST_QPS),
    "seconds": (1e-3, LONGEST_S),
    "seed": (0, 2**63 - 1),
    "shape": (0.01, 1e6),
    "in_flight": (1, MOST_IN_FLIGHT),
    "rows": (1, 2**31),
    "calls": (1, 10_000_000),
    "within_ms": (1e-6, 1e9),
}
_WHOLE = frozenset({"seed", "in_flight", "rows", "calls"})


def _number(name: str, value: object) -> float:
    least, most = _RANGES[name]
    kinds = (int,) if name in _WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        what = "a whole number" if name in _WHOLE else "a number"
        raise UsageProblem(f"hwload: {name}={value!r}: {what} from {least:g} to {most:g}")
    return value


def fewest_calls(q: float, confidence: float = CONFIDENCE) -> int:
    """Return how many calls a bound of the percentile `q` takes by early stopping.

    References:
        Reddi et al., MLPerf Inference Benchmark, ISCA 2020. Example: 64 for 0.90, 662 for 0.99.
    """
    n = 1
    while not rank_from_above(n, q, confidence):
        n += max(1, n // 1000)
    while rank_from_above(n - 1, q, confidence):
        n -= 1
    return n


def early_stopping(latencies: Sequence[float], q: float, confidence: float = CONFIDENCE) -> float | None:
    """Return a bound that the percentile `q` keeps with this confidence: the t-th largest; None from too few calls.

    Args:
        latencies: in any order.
        q: 0.99 for p99.
        confidence: one-sided.

    Returns:
        The t-th largest latency, where t is the largest number of which binom.cdf(t, n, 1 - q) is at most
        1 - confidence.
    """
    t = rank_from_above(len(latencies), q, confidence)
    return sorted(latencies)[-t] if t else None


@lru_cache(maxsize=1000)
def rank_from_above(n: int, q: float, confidence: float = CONFIDENCE) -> int:
    """Return the largest t with binom.cdf(t, n, 1 - q) <= 1 - confidence; 0 where there is none."""
    from scipy.special import bdtr

    low, high = 0, n  # cdf rises with t: at `high` it is 1
    while high - low > 1:
        middle = (low + high) // 2
        if bdtr(middle, n, 1 - q) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


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
    if load.kind == "server" and (waiting := _waiting(served)) and _grows(waiting):
        return state("backlog grows", first=waiting[0], last=waiting[-1])
    return None


def why_unsure(load: Load, served: Served) -> Statement | None:
    """Say why the generator itself, and not what it calls, may have made the latency; None where it did not."""
    latencies = sorted(served.latencies)
    allowed = _LAGGING * (load.within_ms / 1e3 or (latencies[len(latencies) // 2] if latencies else 0.0))
    return state("generator late", lag=served.lag_s, allowed=allowed) if served.lag_s > allowed else None


def goodput(load: Load, served: Served) -> float:
    """Return the calls a second that ended within the bound, over the whole span of the load."""
    good = sum(one <= load.within_ms / 1e3 or not load.within_ms for one in served.latencies)
    return good / max([load.seconds if load.kind == "server" else 0.0, *served.ended])


def _waiting(served: Served) -> list[int]:
    """Return how many calls were due and not ended, at four equally spaced calls of the schedule."""
    n, ended = len(served.due), sorted(served.ended)
    found = []
    for position in (n // 4 - 1, n // 2 - 1, 3 * n // 4 - 1, n - 1) if n >= 4 else ():  # noqa: PLR2004 - quarters
        done = sum(end <= served.due[position] for end in ended)
        found.append(position + 1 - done)
    return found


def _grows(waiting: Sequence[int]) -> bool:
    """Whether each quarter of a load ends with more waiting calls than the one before, by more than one at a time."""
    return all(later > before + 1 for before, later in pairwise(waiting))


def next_rate(tried: Mapping[float, bool], first: float, tolerance: float = 0.05) -> float | None:
    """Return the rate to try next on the way to the highest that is served; None where it is known.

    Rates are doubled until one is not served (halved where already the first is not), then bisected.

    Args:
        tried: rate → whether it was served.
        first: rate to begin with.
        tolerance: largest relative distance of the highest served rate from the lowest that is not.
    """
    good = max((rate for rate, served in tried.items() if served), default=0.0)
    bad = min((rate for rate, served in tried.items() if not served and rate > good), default=math.inf)
    if not tried:
        return first
    if math.isinf(bad):
        return 2 * good
    if not good:
        return bad / 2 if bad > first / 2**20 else None
    return math.sqrt(good * bad) if bad / good > 1 + tolerance else None
