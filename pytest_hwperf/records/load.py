"""A load as a record: how its calls arrive, and what became of them."""

import math
from array import array
from collections.abc import Mapping
from typing import Literal

from pytest_hwperf.records.run import Values
from pytest_hwperf.records.structs import Count, Record, Size

LoadKind = Literal["single_stream", "multi_stream", "concurrency", "offline", "server"]


Carriers = Literal["threads", "processes"]


WITHIN = 0.99  # share of the calls that keep the bound at a rate that can be served


TIMEOUT_S = 10.0  # of a request, unless the user gives another


LONGEST_S = 3600.0  # that a load may last


FASTEST_QPS = 1e6


MOST_IN_FLIGHT = 1024


MOST_WAITING = 256  # requests at once, unless the load says another number


_OPEN: frozenset[LoadKind] = frozenset({"offline", "server"})


KEYWORDS: Mapping[LoadKind, tuple[str, ...]] = {
    "single_stream": ("seconds",),
    "multi_stream": ("rows", "seconds"),
    "concurrency": ("in_flight", "seconds", "carriers"),
    "offline": ("calls", "in_flight", "carriers"),
    "server": ("qps", "seconds", "seed", "shape", "within_ms", "in_flight", "carriers"),
}


_ALWAYS = frozenset({"qps", "seconds", "seed", "rows", "calls"})


_USUAL: Mapping[str, float | str] = {"shape": 1.0, "within_ms": 0.0, "in_flight": 0, "carriers": "threads"}


class Load(Record, frozen=True, kw_only=True):
    """How calls arrive, as the marker `hwload` says."""

    kind: LoadKind
    qps: Size = 0.0  # of server: calls a second, on average
    seconds: Size = 2.0
    seed: Count = 1  # of the schedule
    shape: Size = 1.0  # of the gamma distribution of the gaps: 1 is Poisson, more is more regular, less is in bursts
    in_flight: Count = 0  # calls at once, at most; 0: not given
    rows: Count = 8  # of a call of multi_stream
    calls: Count = 1000  # of offline, all due at once
    within_ms: Size = 0.0  # a call later than this is no good answer; 0: any is
    most: Count = 0  # calls after which it ends, as a turn of a pair does; 0: when its time is over
    carriers: Carriers = "threads"  # what makes calls that run at once
    url: str = ""  # to which requests are sent; "": calls are made in this process
    headers: Mapping[str, str] = {}  # of requests
    timeout_s: Size = 0.0  # of a call, from when it is due or, of a closed load, begins; 0: calls end by themselves

    @property
    def is_open(self) -> bool:
        """Whether calls arrive without waiting for the ones before."""
        return self.kind in _OPEN

    @property
    def processes(self) -> int:
        """How many processes make its calls; 0: none beside this one."""
        return self.in_flight if self.carriers == "processes" else 0

    def lasts_s(self, call_s: float) -> float:
        """Return about how many seconds it takes if a call takes `call_s`."""
        return self.calls * call_s / self.at_once(waiting=False) if self.kind == "offline" else self.seconds

    def at_once(self, *, waiting: bool) -> int:
        """Return how many calls may run at once: one unless given."""
        return self.in_flight or (MOST_WAITING if waiting and self.is_open else 1)

    @property
    def arrivals(self) -> str:
        """Say how calls arrive, and from when their latency counts."""
        return {
            "single_stream": "calls one after the other",
            "multi_stream": f"calls of {self.rows} rows one after the other",
            "concurrency": f"a closed loop of {self.in_flight}, which hides queueing",
            "offline": f"{self.calls} calls due at once",
            "server": f"from a schedule of {self.qps:g}/s",
        }[self.kind]

    def __str__(self) -> str:
        """Say what decides its times: the address is no part of it."""
        told = {name: getattr(self, name) for name in KEYWORDS[self.kind]}
        chosen = {name: value for name, value in told.items() if name in _ALWAYS or value != _USUAL[name]}
        shown = (f"{name}={value}" if isinstance(value, str) else f"{name}={value:g}" for name, value in chosen.items())
        return " ".join([self.kind, *shown])


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
    def at_once(self) -> bool:
        """Whether all calls were due at one moment."""
        return len(self.due) > 1 and self.due[0] == self.due[-1]

    @property
    def lag_s(self) -> float:
        """The delay of the generator itself that 99 % of the calls keep."""
        lags = sorted(issued - due for due, issued in zip(self.due, self.issued, strict=True))
        return lags[math.ceil(WITHIN * len(lags)) - 1] if lags else 0.0
