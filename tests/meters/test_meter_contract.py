"""Meters hold the contract, and each way to break it is found with its cause."""

from collections.abc import Mapping
from typing import Any, ClassVar
from unittest import SkipTest

import pytest
from fakes.clocks import HandClock
from fakes.counters import Load, SteadyCounters, meter_on_counters

from pytest_hwperf.meters.contract import MeterContract
from pytest_hwperf.meters.counters import CounterMeter
from pytest_hwperf.meters.estimate import estimate_meter
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.errors import MeterUnavailable
from pytest_hwperf.records.run import Reading

CLOCK = HandClock()


class TestEstimate(MeterContract):
    factory = staticmethod(estimate_meter)
    test_it_says_why_it_is_not_there: Any = None  # it always works


def steady(environment: Mapping[str, str], *, refused: tuple[str, ...] = ()) -> CounterMeter:
    assert refused == ()
    if "counter" not in environment:
        raise MeterUnavailable("there is no counter")
    return meter_on_counters(SteadyCounters(CLOCK, [Load(watts=5.0)]), CLOCK)


class TestCounter(MeterContract):
    factory = staticmethod(steady)
    environment: Mapping[str, str] = {"counter": "1"}
    absent: Mapping[str, str] | None = {}

    def work(self, seconds: float) -> None:
        CLOCK.pass_time(seconds)


class Sand:
    """A meter of 5 W, as simple as one can be."""

    metric = "energy"
    covers: Covered = "processors"
    source = "sand"
    shortest_window_s = 0.0
    warnings: Any = ()

    def start(self) -> float:
        return CLOCK()

    def end(self, started: float) -> Reading:
        return Reading(value=5 * (CLOCK() - started))

    def close(self) -> None:
        """Hold nothing open."""


class Total(Sand):
    def end(self, started: float) -> Reading:
        return super().end(0 * started)


class Keeping(Sand):
    began = 0.0

    def start(self) -> float:
        self.began = CLOCK()
        return 0.0

    def end(self, started: float) -> Reading:
        return super().end(started + self.began)


class Silent(Sand):
    def end(self, started: float) -> Reading:
        del started
        return Reading(value=None)


class Still(Sand):
    def end(self, started: float) -> Reading:
        return super().end(started + CLOCK() - started)


class Backwards(Sand):
    def end(self, started: float) -> Reading:
        return Reading(value=-1.0 - started)


class Hasty(Sand):
    shortest_window_s = 0.5


BROKEN = (
    (type("Named", (Sand,), {"metric": "power"}), "it_says_what_it_counts", "metric is 'power'"),
    (type("Covering", (Sand,), {"covers": "all"}), "it_says_what_it_counts", "covers is 'all'"),
    (type("Nameless", (Sand,), {"source": ""}), "it_says_what_it_counts", "is no line of text"),
    (type("Guess", (Sand,), {"source": "estimate:sand"}), "it_says_what_it_counts", "begins with 'estimate:'"),
    (type("Endless", (Sand,), {"shortest_window_s": float("inf")}), "it_says_what_it_counts", "a number of seconds"),
    (type("Warning", (Sand,), {"warnings": "sandy"}), "it_says_what_it_counts", "a tuple of texts"),
    (Silent, "a_window_has_a_value", "no reason, which it needs"),
    (Still, "a_window_has_a_value", "nothing is counted"),
    (Backwards, "a_window_has_a_value", "a finite number from 0 on"),
    (Total, "windows_may_nest_and_overlap", "count from what `start` returned"),
    (Keeping, "windows_may_nest_and_overlap", "count from what `start` returned"),
    (Hasty, "a_window_without_work_is_small_or_refused", "give None, and a reason"),
    (Sand, "it_says_why_it_is_not_there", "raise MeterUnavailable"),
)


def contract_of(meter: type[Sand]) -> MeterContract:
    class Case(TestCounter):
        factory: ClassVar[Any] = staticmethod(lambda _environment, refused: meter(*refused))

    return Case()


@pytest.mark.parametrize(("meter", "test", "said"), BROKEN)
def test_a_broken_meter_is_found(meter: type[Sand], test: str, said: str) -> None:
    CLOCK.pass_time(1.0)
    with pytest.raises(AssertionError, match=said):
        getattr(contract_of(meter), f"test_{test}")()


def test_the_simple_meter_holds_it() -> None:
    """So that each of the broken ones is broken by what its class changes."""
    case = contract_of(Sand)
    for name in dir(MeterContract):
        if name.startswith("test_") and name != "test_it_says_why_it_is_not_there":
            getattr(case, name)()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("tick_s", 0.0, "tick_s is 0.0"),
        ("domains", (), "domains is empty"),
        ("longest_window_s", 0.1, "longer than the shortest one"),
    ],
)
def test_a_counter_says_how_it_moves(field: str, value: object, said: str) -> None:
    def odd(environment: Mapping[str, str], *, refused: tuple[str, ...]) -> CounterMeter:
        meter = steady(environment, refused=refused)
        setattr(meter, field, value)
        return meter

    class Case(TestCounter):
        factory: ClassVar[Any] = staticmethod(odd)

    with pytest.raises(AssertionError, match=said):
        Case().test_it_says_what_it_counts()


def test_a_meter_that_is_not_on_this_machine_is_skipped_with_its_cause() -> None:
    class Case(TestCounter):
        environment: Mapping[str, str] = {}
        absent = None

    with pytest.raises(SkipTest, match="not on this machine: there is no counter"):
        Case().test_a_window_has_a_value()
    with pytest.raises(SkipTest, match="gives no `absent`"):
        Case().test_it_says_why_it_is_not_there()
