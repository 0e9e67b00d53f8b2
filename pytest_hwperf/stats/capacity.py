"""Capacity: how busy a service is at a rate of arrivals, how long its calls wait, and how many instances a peak takes.

A service time is that of one request as it is served: a row's share of a call of 256 rows is none.

References:
    W_q of M/M/1, M/D/1 and M/M/c (Erlang C): L. Kleinrock, Queueing Systems, vol. 1, 1975.
    M/G/1 by its first two moments: the formula of Pollaczek and Khinchine, in the same book.
    Any arrivals, in heavy traffic: J. F. C. Kingman, The single server queue in heavy traffic, 1961.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_hwperf.records.errors import UsageProblem

HIGH, TOO_HIGH = 0.7, 0.8  # utilisations: planned for at most, and warned of
_ROUNDING = 1e-9  # relative
SAFETY = 1.5  # of a peak: 1.5 to 2 is usual

Level = Literal["safe", "high", "too high", "no steady state"]
Rule = Literal["safety factor", "utilisation", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One kind of request as an instance serves it."""

    arrivals: float  # a second, to all instances, 0 or more
    seconds: float  # of one request, above 0
    variation: float = 1.0  # standard deviation of the service time over its mean, 0 or more; 1: exponential


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """How long a request waits before it is served, by one model of the queue."""

    model: str  # "M/M/1", …
    seconds: float  # on average
    p95_s: float | None = None  # of waiting and service together; None: the model does not say
    p99_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """How many instances a peak takes, and by which rule."""

    count: int
    rule: Rule  # which of both asks for more
    by_safety: int  # peak times safety factor, over the rate of one
    by_utilisation: int  # so that none is busier than `HIGH` at the peak
    utilisation: float  # of each at the peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """How many requests run at once, and what ends it first."""

    by_memory: int
    cores: int
    base_bytes: float  # a process with its loaded model, counted once: threads share it
    each_bytes: float  # a request as it is served


def together(services: Sequence[Service]) -> Service:
    """Return what several kinds of requests in one queue are together: of their mixture, mean and variation.

    Example: 100/s of exactly 1 ms and 100/s of exactly 3 ms: 200/s of 2 ms, variation 0.5.
    """
    arrivals = math.fsum(one.arrivals for one in services)
    if not arrivals:
        raise UsageProblem("no request arrives: give the arrivals of at least one service")
    shares = [one.arrivals / arrivals for one in services]
    mean = math.fsum(share * one.seconds for share, one in zip(shares, services, strict=True))
    second = math.fsum(
        share * one.seconds**2 * (1 + one.variation**2) for share, one in zip(shares, services, strict=True)
    )
    return Service(arrivals=arrivals, seconds=mean, variation=math.sqrt(max(0.0, second / mean**2 - 1)))


def utilisation(service: Service, servers: int = 1) -> float:
    """Return the share of the time in which each of the servers is busy; above 1 the queue grows for ever."""
    return service.arrivals * service.seconds / servers


def level(busy: float) -> Level:
    """Say what a utilisation means."""
    if busy >= 1:
        return "no steady state"
    return "safe" if busy <= HIGH else "high" if busy <= TOO_HIGH else "too high"


def erlang_c(servers: int, offered: float) -> float:
    """Return the share of requests that wait at all.

    Example: 2 servers, 1.5 offered: 0.643.
    """
    blocked = 1.0  # Erlang B, server by server
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    busy = offered / servers
    return blocked / (1 - busy * (1 - blocked))


def waits(service: Service, servers: int = 1, arrivals_variation: float = 1.0) -> tuple[Wait, ...]:
    """Return the waits by each model that applies; () where there is no steady state."""
    busy = utilisation(service, servers)
    if busy >= 1:
        return ()
    if servers > 1:
        return (_erlang(service, servers, arrivals_variation),)
    exponential = busy * service.seconds / (1 - busy)
    spread = (arrivals_variation**2 + service.variation**2) / 2
    free = 1 / service.seconds - service.arrivals  # a second: the response of M/M/1 is exponential with this rate
    return (
        Wait(model="M/M/1", seconds=exponential, p95_s=-math.log(0.05) / free, p99_s=-math.log(0.01) / free),
        Wait(model="M/D/1", seconds=exponential / 2),
        Wait(model=_named(arrivals_variation), seconds=exponential * spread),
    )


def _named(arrivals_variation: float) -> str:
    """Name the model of any service times: exact where arrivals are Poisson."""
    return "M/G/1" if arrivals_variation == 1 else "Kingman"


def _erlang(service: Service, servers: int, arrivals_variation: float) -> Wait:
    """Return the wait of several servers; for other than exponential times by the correction of Allen and Cunneen."""
    offered = service.arrivals * service.seconds
    mean = erlang_c(servers, offered) / (servers / service.seconds - service.arrivals)
    spread = (arrivals_variation**2 + service.variation**2) / 2
    return Wait(model=f"M/M/{servers}" if spread == 1 else f"G/G/{servers}", seconds=mean * spread)


def instances(peak: float, rate: float, safety: float = SAFETY) -> Instances:
    """Return how many instances a peak takes.

    Example: 10,000/s on 14,706/s, factor 1.5: 2, by the safety factor; by the utilisation alone 1.
    """
    by_safety, by_utilisation = _whole(safety * peak / rate), _whole(peak / (HIGH * rate))
    count = max(by_safety, by_utilisation)
    rule: Rule = (
        "both" if by_safety == by_utilisation else "safety factor" if by_safety > by_utilisation else "utilisation"
    )
    return Instances(
        count=count,
        rule=rule,
        by_safety=by_safety,
        by_utilisation=by_utilisation,
        utilisation=peak / (count * rate),
    )


def _whole(instances: float) -> int:
    """Round up, but for what rounding of the numbers has added."""
    return max(1, math.ceil(instances * (1 - _ROUNDING)))


def fitting(available: float, each: float, base: float) -> int:
    """Return how many of `each` bytes, above 0, fit beside a base that is taken once.

    Example: 16 GB, 4.15 MB each, no base: 3,855.
    """
    return max(0, math.floor((available - base) / each))


def per_million(price_per_hour: float, rate: float) -> float:
    """Return what a million requests cost on an instance that serves `rate` a second, as busy as it is then.

    Example: 0.40 an hour, 100/s: 1.11.
    """
    return price_per_hour / 3600 / rate * 1e6
