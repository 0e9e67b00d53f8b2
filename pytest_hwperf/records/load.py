"""Loads: the keywords of `hwload` as a record, how its calls arrive, and what became of them."""

import math
import re
from array import array
from collections.abc import Mapping
from typing import Literal, get_args
from urllib.parse import urlsplit

from pytest_hwperf.records.budgets import nearest
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import Values
from pytest_hwperf.records.structs import Count, Record, Size
from pytest_hwperf.records.text import visible

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
_ALWAYS = frozenset({"qps", "seconds", "seed", "rows", "calls"})  # said of a load, also where they are as usual


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
        usual, told = Load(kind=self.kind), {name: getattr(self, name) for name in KEYWORDS[self.kind]}
        chosen = {name: value for name, value in told.items() if name in _ALWAYS or value != getattr(usual, name)}
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


ADDRESSES = "http://127.0.0.1:8000/predict (Triton: http://127.0.0.1:8000/v2/models/MODEL/infer)"  # as examples
_NEEDED: Mapping[LoadKind, tuple[str, str]] = {  # what has no default → an example
    "server": ("qps", "the calls a second, such as qps=200"),
    "concurrency": ("in_flight", "the calls at once, such as in_flight=4"),
}
_OF_REQUESTS = ("url", "headers")
_NO_NUMBERS = frozenset({"kind", "carriers", *_OF_REQUESTS})
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


def parse_load(keywords: Mapping[str, object]) -> Load:
    kind = keywords.get("kind")
    if kind not in get_args(LoadKind):
        hint = nearest(str(kind), get_args(LoadKind))
        raise UsageProblem(f"hwload: kind={kind!r} is no load.{hint} Allowed: {', '.join(get_args(LoadKind))}")
    fields = KEYWORDS[kind]  # type: ignore[index] # one of its arguments, as was asked just now
    if unknown := sorted({*keywords} - {"kind", *_OF_REQUESTS, *fields}):
        hint, allowed = nearest(unknown[0], [*fields, *_OF_REQUESTS]), ", ".join([*fields, *_OF_REQUESTS])
        raise UsageProblem(f"hwload: {unknown[0]}= says nothing of the load {kind}.{hint} Allowed: {allowed}")
    values = {name: _number(name, value) for name, value in keywords.items() if name not in _NO_NUMBERS}
    needed, example = _NEEDED.get(kind, ("", ""))  # type: ignore[call-overload] # the same
    if needed and not values.get(needed):
        raise UsageProblem(f"hwload: a {kind} load needs {needed}=, {example}")
    url = checked_address(keywords.get("url", ""))
    carriers = _checked_carriers(keywords.get("carriers", "threads"), values.get("in_flight", 0), url)
    headers = _checked_headers(keywords.get("headers", {}))
    return Load(kind=kind, url=url, headers=headers, carriers=carriers, **values)  # type: ignore[arg-type] # the same; counts are whole, as `_number` says


def _checked_carriers(carriers: object, in_flight: float, url: str) -> Carriers:
    """Return what makes calls that run at once."""
    if carriers not in get_args(Carriers):
        hint = nearest(str(carriers), get_args(Carriers))
        raise UsageProblem(f"hwload: carriers={carriers!r}.{hint} Allowed: {', '.join(get_args(Carriers))}")
    if carriers == "processes" and url:
        raise UsageProblem("hwload: carriers='processes': requests only wait, and are tasks of one loop: leave it out")
    if carriers == "processes" and not in_flight:
        raise UsageProblem("hwload: carriers='processes' needs in_flight=, how many, such as in_flight=4")
    return carriers  # type: ignore[return-value] # one of its arguments, as was asked just now


def checked_address(url: object) -> str:
    """Return the address that requests are sent to, "" for none."""
    if not isinstance(url, str) or not (url == "" or is_address(url)):
        shown = shown_address(url) if isinstance(url, str) else url
        raise UsageProblem(f"hwload: url={shown!r}: give an address over HTTP, such as {ADDRESSES}")
    return url


def _checked_headers(headers: object) -> Mapping[str, str]:
    if not isinstance(headers, Mapping) or not all(isinstance(one, str) for pair in headers.items() for one in pair):
        raise UsageProblem("hwload: headers= takes names and values as texts, such as headers={'X-Model': 'v2'}")
    return dict(headers)


def is_address(text: object) -> bool:
    if not isinstance(text, str) or re.fullmatch(r"https?://[^\s/?#]+([/?][^\s#]*)?", text) is None:
        return False
    try:
        return bool(urlsplit(text).hostname) and urlsplit(text).port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        return False


def shown_address(address: str) -> str:
    """Return an address as it may be shown and kept: neither a password nor a query, which may hold one."""
    without_password = re.sub(r"(?<=://)[^/?#]*@", "", address)
    return visible(re.sub(r"\?.+", "?…", without_password))


def _number(name: str, value: object) -> float:
    least, most = _RANGES[name]
    kinds = (int,) if name in _WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        what = "a whole number" if name in _WHOLE else "a number"
        raise UsageProblem(f"hwload: {name}={value!r}: {what} from {least:g} to {most:g}")
    return value
