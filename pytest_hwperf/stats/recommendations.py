"""Recommendations: which candidate for which purpose, and where work would help, each with the figures behind it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_hwperf.records.metrics import ENERGY, MEDIAN_LATENCY, stage_metric
from pytest_hwperf.records.run import Estimate, Key, replace
from pytest_hwperf.records.structs import Number, Record
from pytest_hwperf.records.units import show_share
from pytest_hwperf.stats.capacity import per_million
from pytest_hwperf.stats.rivals import DIMENSIONS, Candidate, between_processes, ends_of, per_row
from pytest_hwperf.stats.tradeoffs import Requirement, best_by

STAGES = ("preprocess", "inference", "postprocess")
LEADING = 0.5  # share of a call from which on a stage is its bottleneck
_FASTER: Mapping[str, str] = {  # stage → what to do where it is the bottleneck
    "preprocess": "preprocessing takes {share} of the call: cache it, vectorise it or move it out of the call",
    "inference": "the model takes {share} of the call: quantise it, let the runtime optimise its graph, or make it "
    "smaller",
    "postprocess": "postprocessing takes {share} of the call: vectorise it",
}
_PURPOSES: Mapping[str, tuple[str, ...]] = {  # dimensions that decide, the first that is there
    "low latency": ("latency",),
    "critical accuracy": ("accuracy",),
    "few resources": ("memory", "energy"),
}


class Recommendation(NamedTuple):
    """The candidates for one purpose."""

    purpose: str
    dimension: str  # that decides; "" where none does
    candidates: tuple[Candidate, ...] = ()  # the best one and those as good, the fastest first; () where not known
    inconclusive: tuple[Candidate, ...] = ()  # that may be better


def matrix(candidates: Sequence[Candidate], dimensions: Mapping[str, Key]) -> Iterator[Recommendation]:
    """Yield a recommendation for each purpose, among candidates that meet the requirements.

    Simple to deploy is what nothing has converted: a form of another runtime is one more artefact to build and check.
    """
    for purpose, wanted in _PURPOSES.items():
        dimension = next((name for name in wanted if name in dimensions), "")
        if not dimension or not candidates:
            yield Recommendation(purpose, dimension)
            continue
        key = DIMENSIONS[dimension]
        first, as_good, inconclusive = best_by(candidates, key)
        if purpose == "critical accuracy":  # a loss within the margin is a loss
            as_good = [one for one in as_good if per_row(one, key).value == per_row(first, key).value]
        yield Recommendation(purpose, dimension, _fastest_first([first, *as_good]), tuple(inconclusive))
    yield Recommendation("simple deployment", "", _fastest_first([one for one in candidates if one.as_trained]))


def _fastest_first(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    timed = {one.name: per_row(one, MEDIAN_LATENCY).value for one in candidates if MEDIAN_LATENCY in one.values}
    return tuple(sorted(candidates, key=lambda one: timed.get(one.name, math.inf)))


def bottlenecks(candidate: Candidate, found: Sequence[Requirement]) -> Iterator[str]:
    """Say what to do, and what to leave: nothing where every requirement is met by its whole interval."""
    if found and all(one.outcome == "passed" for one in found):
        yield "every requirement is met: more work on its speed gains nothing that was asked for"
        return
    whole = candidate.values.get(MEDIAN_LATENCY)
    stages = {name: candidate.values.get((stage_metric(name), "p50")) for name in STAGES}
    seconds = {name: one.value for name, one in stages.items() if one and whole and whole.value}
    if not seconds or not whole:
        return
    # A stage may follow the timed call, and medians do not add up: no shares exceed the whole.
    total = max(whole.value, math.fsum(seconds.values()))
    shares = {name: spent / total for name, spent in seconds.items()}
    largest = max(shares, key=lambda name: shares[name])
    if shares.get("inference", 1.0) < LEADING:
        yield f"the model takes {show_share(shares['inference'])} of the call: a faster one helps little"
    if shares[largest] >= LEADING:
        yield _FASTER[largest].format(share=show_share(shares[largest]))


THROUGHPUT = ("throughput", "mean")


class OnHardware(Record, frozen=True, kw_only=True):
    """One candidate on one kind of machine."""

    candidate: str
    kind: str
    latency: Estimate | None = None  # s of a call, its median
    throughput: Estimate | None = None  # calls a second, as they were made in the measurement
    energy: Estimate | None = None  # J of a call, measured
    price_per_hour: Number | None = None  # of such a machine
    cost: Estimate | None = None  # of a million calls at that throughput, in the currency of the price


def on_hardware(candidates: Sequence[Candidate], prices: Mapping[str, float]) -> list[OnHardware]:
    """Return what is known of the candidates that were measured on named kinds of machine, the cheapest first."""
    found = [_of(one, prices.get(one.kind, one.price_per_hour)) for one in candidates if one.kind]
    return sorted(found, key=lambda one: one.cost.value if one.cost else float("inf"))


def as_cheap(found: Sequence[OnHardware]) -> list[OnHardware]:
    """Return the cheapest candidate and those that it is not shown to be cheaper than; [] where no cost is known."""
    known = [one for one in found if one.cost]
    if not known or known[0].cost is None:
        return []
    end = ends_of(known[0].cost)[1] * math.exp(between_processes())
    return [one for one in known if one.cost and ends_of(one.cost)[0] <= end]


def _of(candidate: Candidate, price: float | None) -> OnHardware:
    throughput = candidate.values.get(THROUGHPUT)
    return OnHardware(
        candidate=candidate.name,
        kind=candidate.kind,
        latency=candidate.values.get(MEDIAN_LATENCY),
        throughput=throughput,
        energy=candidate.values.get((ENERGY, "mean")),
        price_per_hour=price,
        cost=cost_of(price, throughput) if price is not None and throughput is not None else None,
    )


def cost_of(price_per_hour: float, throughput: Estimate) -> Estimate | None:
    """Return the price of a million calls, one machine at that throughput; None where nothing passes through.

    Example: 0.36 an hour and 1000 calls a second are 0.0001 a second, so that a million calls cost 0.1.
    """
    if throughput.value <= 0:
        return None
    low, high = throughput.low, throughput.high
    return replace(
        throughput,
        value=per_million(price_per_hour, throughput.value),
        low=per_million(price_per_hour, high) if high else None,
        high=per_million(price_per_hour, low) if low is not None and low > 0 else None,
        method="price of an hour over the throughput",
    )
