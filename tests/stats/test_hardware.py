"""Which hardware for a model: latency, throughput, energy and cost of a million calls, by kind of machine."""

import pytest

from pytest_hwperf.records.run import Estimate
from pytest_hwperf.stats.recommendations import as_cheap, cost_of, on_hardware
from pytest_hwperf.stats.rivals import Candidate


def rate(value: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(value=value, low=low, high=high, confidence=0.9, n=9, method="t")


def candidate(kind: str, throughput: Estimate | None, price: float | None = None) -> Candidate:
    values = {("throughput", "mean"): throughput} if throughput else {}
    return Candidate(name=f"onnx on {kind}", values=values, kind=kind, price_per_hour=price)


def test_a_million_calls_cost_what_their_time_does() -> None:
    """0.36 an hour are 0.0001 a second; 1000 calls a second take 1000 s for a million."""
    found = cost_of(0.36, rate(1000.0, 500.0, 2000.0))
    assert found is not None
    assert pytest.approx((0.1, 0.05, 0.2)) == (found.value, found.low, found.high)


@pytest.mark.parametrize(
    ("throughput", "ends"),
    [(rate(1.0, None, None), (None, None)), (rate(1.0, 0.0, 0.0 + 1), (100.0, None))],
)
def test_an_open_end_stays_open(throughput: Estimate, ends: tuple[float | None, float | None]) -> None:
    found = cost_of(0.36, throughput)
    assert found is not None
    assert pytest.approx(ends) == (found.low, found.high)
    assert cost_of(0.36, rate(0.0, 0.0, 0.0)) is None


def test_kinds_are_listed_with_what_is_known_of_them_the_cheapest_first() -> None:
    dear, cheap = candidate("x86", rate(1000.0, 990.0, 1010.0)), candidate("arm", rate(500.0, 495.0, 505.0), 0.1)
    unknown, unnamed = candidate("gpu", None), Candidate(name="onnx", values={})
    found = on_hardware([dear, unknown, cheap, unnamed], {"x86": 0.45})
    assert ["arm", "x86", "gpu"] == [one.kind for one in found]
    assert [0.1, 0.45, None] == [one.price_per_hour for one in found]
    assert [found[0]] == as_cheap(found)
    assert (None, None, None) == (found[2].cost, found[2].latency, found[2].energy)


def test_costs_that_processes_may_differ_by_are_not_dearer() -> None:
    """Processes of equal code differ by a factor of 1.9."""
    prices = {"arm": 0.1, "x86": 0.1, "gpu": 0.1}
    found = on_hardware(
        [
            candidate("arm", rate(1000.0, 900.0, 1100.0)),
            candidate("x86", rate(950.0, None, None)),
            candidate("gpu", rate(400.0, 390.0, 410.0)),
        ],
        prices,
    )
    assert ["arm", "x86"] == [one.kind for one in as_cheap(found)]
    assert [] == as_cheap(on_hardware([candidate("arm", rate(1.0, 0.5, 2.0))], {}))
    lone = on_hardware([candidate("x86", rate(950.0, None, None)), candidate("gpu", rate(400.0, 390.0, 410.0))], prices)
    assert ["x86"] == [one.kind for one in as_cheap(lone)]
