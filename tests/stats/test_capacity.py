"""Capacity: waits, instances and memory against known answers, and models of queues against each other."""

import math

import pytest

from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.stats.service.capacity import (
    Service,
    erlang_c,
    fitting,
    instances,
    level,
    per_million,
    together,
    utilisation,
    waits,
)


def service(arrivals: float, rate: float, variation: float = 1.0) -> Service:
    return Service(arrivals=arrivals, seconds=1 / rate, variation=variation)


@pytest.mark.parametrize(
    ("rate", "busy", "wait_s"),
    [pytest.param(8266, 0.968, 3.64e-3, id="nearly full"), pytest.param(14_706, 0.544, 0.081e-3, id="half full")],
)
def test_waits_of_one_server(rate: float, busy: float, wait_s: float) -> None:
    served = service(8000, rate)
    exponential, constant, general = waits(served)
    assert busy == pytest.approx(utilisation(served), abs=5e-4)
    assert wait_s == pytest.approx(exponential.seconds, rel=5e-3)
    assert exponential.seconds / 2 == constant.seconds
    assert ("M/G/1", exponential.seconds) == (general.model, general.seconds)


def test_percentiles_of_a_response_count_the_service_too() -> None:
    first = waits(service(8000, 8266))[0]
    assert pytest.approx(11.3e-3, rel=5e-3) == first.p95_s
    assert pytest.approx(4.605 / 266, rel=1e-3) == first.p99_s


def test_times_of_any_spread() -> None:
    for variation, arrivals_variation, factor, model in [(0, 1, 0.5, "M/G/1"), (2, 3, 6.5, "Kingman")]:
        exponential, _, general = waits(service(70, 100, variation), arrivals_variation=arrivals_variation)
        assert model == general.model
        assert pytest.approx(factor * exponential.seconds) == general.seconds


def test_the_share_that_waits() -> None:
    shares = {(2, 1.5): 0.6429, (10, 7): 0.2217, (1, 0.3): 0.3}
    assert shares == pytest.approx({one: erlang_c(*one) for one in shares}, abs=5e-5)


def test_several_servers_share_a_queue() -> None:
    exponential, corrected = (waits(service(150, 100, variation), servers=2) for variation in (1.0, 0.0))
    assert ["M/M/2"] == [one.model for one in exponential]
    assert pytest.approx(0.6429 / 50, rel=1e-3) == exponential[0].seconds
    assert [("G/G/2", exponential[0].seconds / 2)] == [(one.model, one.seconds) for one in corrected]


def test_a_full_server_has_no_steady_state() -> None:
    assert () == waits(service(100, 100))
    assert () == waits(service(300, 100), servers=3)


def test_what_a_utilisation_means() -> None:
    levels = {0.7: "safe", 0.71: "high", 0.8: "high", 0.81: "too high", 1.0: "no steady state"}
    assert levels == {busy: level(busy) for busy in levels}


def test_instances_for_a_peak() -> None:
    table: list[tuple[float, float, float, tuple[object, ...]]] = [
        (10_000, 14_706, 1.5, (2, "safety factor", 2, 1)),
        (10_000, 14_706, 1.0, (1, "both", 1, 1)),
        (10_000, 14_706, 2.9, (2, "safety factor", 2, 1)),
        (62, 93, 1.5, (1, "both", 1, 1)),  # 1.5 x 62 / 93 is 1: rounding adds none
        (100, 100, 1.0, (2, "utilisation", 1, 2)),
    ]
    for peak, rate, safety, found in table:
        asked = instances(peak, rate, safety)
        assert found == (asked.count, asked.rule, asked.by_safety, asked.by_utilisation)
        assert peak / rate / asked.count == pytest.approx(asked.utilisation)


def test_requests_that_the_memory_holds() -> None:
    table = [(4.15e6, 0, 3855), (2.41e6, 0, 6639), (4.15e6, 4.15e6, 3854), (1e6, 17e9, 0)]
    assert [] == [(each, base, count) for each, base, count in table if count != fitting(16e9, each, base)]


def test_models_that_share_an_instance() -> None:
    mixed = together([service(100, 1000, 0), service(100, 1000 / 3, 0)])
    assert 200 == mixed.arrivals
    assert [0.002, 0.5] == pytest.approx([mixed.seconds, mixed.variation])
    alike = together([service(30, 100, 0), service(30, 100, 0)])
    assert math.isclose(alike.variation, 0, abs_tol=1e-6)
    exponential = together([service(30, 100), service(30, 100)])
    assert pytest.approx(1.0) == exponential.variation


def test_nothing_arrives() -> None:
    with pytest.raises(UsageProblem, match="no request arrives"):
        together([service(0, 100)])


def test_the_price_of_a_million() -> None:
    assert pytest.approx(1.111, abs=1e-3) == per_million(0.40, 100)
