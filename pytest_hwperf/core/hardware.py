"""Which hardware for a model: what a call takes on each kind of machine, and what a million of them cost there.

The figures of each kind are those of one process there; as elsewhere, a cost has to be lower by more than processes
of equal code differ by.
"""

import math
from collections.abc import Mapping, Sequence

from pytest_hwperf.core.capacity import per_million
from pytest_hwperf.core.metrics import ENERGY, MEDIAN_LATENCY
from pytest_hwperf.core.records import Estimate, replace
from pytest_hwperf.core.rivals import Candidate, between_processes, ends_of
from pytest_hwperf.core.structs import Number, Record

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
