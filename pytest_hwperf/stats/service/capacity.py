"""Capacity: how busy a service is at a rate of arrivals, how long its calls wait, and how many instances a peak takes.

A service time is that of one request as it is served: a row's share of a call of 256 rows is none.

References:
    W_q of M/M/1, M/D/1 and M/M/c (Erlang C): L. Kleinrock, Queueing Systems, vol. 1, 1975.
    M/G/1 by its first two moments: the formula of Pollaczek and Khinchine, in the same book.
    Any arrivals, in heavy traffic: J. F. C. Kingman, The single server queue in heavy traffic, 1961.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.metrics import BOARD_MEMORY
from pytest_hwperf.records.run import SCHEMA, Key, figure_of
from pytest_hwperf.records.structs import Count, Record, Size
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats.service.carbon import CarbonOfMillion

HIGH, TOO_HIGH = 0.7, 0.8  # utilisations: planned for at most, and warned of
SAFETY = 1.5  # of a peak: 1.5 to 2 is usual
_ROUNDING = 1e-9  # relative, of a number of instances

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
    mean = math.fsum(one.arrivals * one.seconds for one in services) / arrivals
    second = math.fsum(one.arrivals * one.seconds**2 * (1 + one.variation**2) for one in services) / arrivals
    return Service(arrivals=arrivals, seconds=mean, variation=math.sqrt(max(0.0, second / mean**2 - 1)))


def utilisation(service: Service, servers: int = 1) -> float:
    """Return the share of the time in which each of the servers is busy; above 1 the queue grows for ever."""
    return service.arrivals * service.seconds / servers


def level(busy: float) -> Level:
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
    return blocked / (1 - offered / servers * (1 - blocked))


def waits(service: Service, servers: int = 1, arrivals_variation: float = 1.0) -> tuple[Wait, ...]:
    """Return the waits by each model that applies; () where there is no steady state.

    For other than exponential times the wait of several servers is corrected after Allen and Cunneen.
    """
    busy = utilisation(service, servers)
    if busy >= 1:
        return ()
    free = servers / service.seconds - service.arrivals  # a second: the response of M/M/1 is exponential with this rate
    spread = (arrivals_variation**2 + service.variation**2) / 2
    if servers > 1:
        mean = erlang_c(servers, service.arrivals * service.seconds) / free
        return (Wait(model=f"M/M/{servers}" if spread == 1 else f"G/G/{servers}", seconds=mean * spread),)
    exponential = busy * service.seconds / (1 - busy)
    return (
        Wait(model="M/M/1", seconds=exponential, p95_s=-math.log(0.05) / free, p99_s=-math.log(0.01) / free),
        Wait(model="M/D/1", seconds=exponential / 2),
        # exact where arrivals are Poisson
        Wait(model="M/G/1" if arrivals_variation == 1 else "Kingman", seconds=exponential * spread),
    )


def instances(peak: float, rate: float, safety: float = SAFETY) -> Instances:
    """Return how many instances a peak takes.

    Example: 10,000/s on 14,706/s, factor 1.5: 2, by the safety factor; by the utilisation alone 1.
    """
    needs = (safety * peak / rate, peak / (HIGH * rate))
    by_safety, by_utilisation = (max(1, math.ceil(one * (1 - _ROUNDING))) for one in needs)
    rule: Rule = "safety factor" if by_safety > by_utilisation else "utilisation"
    count = max(by_safety, by_utilisation)
    return Instances(
        count=count,
        rule="both" if by_safety == by_utilisation else rule,
        by_safety=by_safety,
        by_utilisation=by_utilisation,
        utilisation=peak / (count * rate),
    )


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


class EnergyOfMillion(Record, frozen=True, kw_only=True):
    """Energy of a million requests."""

    kwh: float
    source: str  # what measured it
    price: float | None = None  # None: no price was given
    grams: float | None = None  # CO2 equivalent; None: no intensity was given


class CapacityPlan(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf capacity plan"):
    """Everything that the command says, as a file for other programs; None: not asked for, or `missing` says why."""

    schema: int = SCHEMA
    measured: str  # the measurement that it is made with, "" where its times were typed
    service: Service
    servers: int
    utilisation: float
    level: Level
    waits: tuple[Wait, ...]  # () where there is no steady state
    instances: Instances | None = None
    memory: Concurrency | None = None
    cost: float | None = None  # of a million requests
    energy: EnergyOfMillion | None = None
    carbon: CarbonOfMillion | None = None
    missing: Mapping[str, str] = {}  # what was asked for and is not known → why


MEMORY: Key = ("memory", "p50")
_UNKNOWN = "its memory was not measured: mark the test with @pytest.mark.hwbudget(memory_max_mb=…)"
_TOO_SMALL = "it needs less than can be measured"


class ModelMemory(Record, frozen=True, kw_only=True):
    """How many models of one measurement a memory holds."""

    measured: str
    count: Count | None  # None: `reason` says why it is not known
    each_bytes: Size | None = None  # upper bound of what one needs
    typical_bytes: Size | None = None  # its median
    processes: Count = 0  # fresh ones, that were measured
    rests_on: str = ""  # what the upper bound is
    boards_bytes: Size | None = None  # on GPUs, which the count leaves out; None: not measured
    reason: str = ""


class ModelsPlan(Record, frozen=True, kw_only=True, tag_field="what", tag="pytest-hwperf models in memory"):
    """Everything that is said, as a file for other programs."""

    schema: int = SCHEMA
    memory_bytes: Size
    memory_of: str  # "given", or what of this machine it is
    base_bytes: Size  # counted once
    models: tuple[ModelMemory, ...]


def named(one: Judgement) -> str:
    return visible(" ".join(part for part in (one.run.test, one.run.scenario, one.run.label) if part))


def model_memory(one: Judgement, memory: float, base: float) -> ModelMemory:
    """Count how many models of a measurement fit in so many bytes, beside a base that is taken once."""
    figure, sample = figure_of(one.figures, MEMORY), one.run.sample(MEMORY[0])
    if figure is None or sample is None:
        return ModelMemory(measured=named(one), count=None, reason=str(one.run.unmeasured.get(MEMORY[0], _UNKNOWN)))
    high = figure.estimate.high
    each = max(sample.values, default=0.0) if high is None else high
    rate = 50 * (1 + figure.estimate.confidence)  # of one bound alone, in %
    boards = figure_of(one.figures, (BOARD_MEMORY, "p50"))
    return ModelMemory(
        measured=named(one),
        count=fitting(memory, each, base) if each >= 1 else None,
        each_bytes=each,
        typical_bytes=figure.estimate.value,
        processes=len(sample.values),
        rests_on="the highest of" if high is None else f"upper bound ({rate:.3g} %) of",
        boards_bytes=boards.estimate.value if boards else None,
        reason="" if each >= 1 else _TOO_SMALL,
    )
