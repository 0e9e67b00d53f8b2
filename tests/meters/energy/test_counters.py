"""Totals of counters that start again at 0, read by whoever has a window open and by a thread."""

import math
import threading

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters

from pytest_hwperf.meters.counters import Totals, seconds_suspended
from pytest_hwperf.records.errors import MeasurementError

DRAM_RANGE = 65712999613
LONGEST_S = 32.8


class Waits:
    """Lets simulated time pass instead of sleeping, up to a moment at which it stays until the end."""

    def __init__(self, clock: PassingClock, until_s: float) -> None:
        self.clock = clock
        self.until_s = until_s
        self.begun = threading.Event()  # set by the test once its window is open
        self.there = threading.Event()
        self.waited: list[float] = []

    def __call__(self, ended: threading.Event, seconds: float) -> bool:
        self.begun.wait(30)
        if self.clock.now_s + seconds >= self.until_s:
            self.clock.now_s = self.until_s
            self.there.set()
            return ended.wait(30)
        self.waited.append(seconds)
        self.clock.now_s += seconds
        return False


def totals_of(clock: PassingClock, counters: SteadyCounters, **changes: object) -> Totals:
    return Totals(counters, longest_s=LONGEST_S, clock=clock, suspended=lambda: 0.0, **changes)  # type: ignore[arg-type]


def test_a_thread_loses_nothing_in_200_seconds_of_400_watts() -> None:
    """80 kJ: the counter of 65.7 kJ starts again at 0 once, and it would be read as 14.3 kJ."""
    clock = PassingClock()
    waits = Waits(clock, until_s=200.0)
    totals = totals_of(clock, SteadyCounters(clock, [Load(watts=400.0, last=DRAM_RANGE)]), wait=waits)
    with totals.attended():
        before = totals.read()
        waits.begun.set()
        assert waits.there.wait(30)
        after = totals.read()
    assert 80_000_000_000 == pytest.approx(after.counts[0] - before.counts[0], abs=400 * 1000)
    assert before.voids == after.voids
    assert {LONGEST_S / 2} == set(waits.waited)


def test_wraps_are_folded_once_more_for_each_range() -> None:
    """At 1 kW the memory's counter starts again at 0 every 66 s: three times in 200 s."""
    clock = PassingClock()
    waits = Waits(clock, until_s=200.0)
    totals = totals_of(clock, SteadyCounters(clock, [Load(watts=1000.0, last=DRAM_RANGE)]), wait=waits)
    with totals.attended():
        before = totals.read()
        waits.begun.set()
        assert waits.there.wait(30)
        after = totals.read()
    assert 200_000_000_000 - 3 <= after.counts[0] - before.counts[0] <= 200_000_000_000 + 1_000_000


def test_without_the_thread_the_same_window_is_void() -> None:
    clock = PassingClock()
    totals = totals_of(clock, SteadyCounters(clock, [Load(watts=400.0, last=DRAM_RANGE)]))
    before = totals.read()
    clock.now_s = 200.0
    after = totals.read()
    assert before.voids < after.voids
    assert "the counters were not read for 200 s, longer than 32.8 s" in totals.reason


def test_an_error_that_only_the_thread_meets_voids_open_windows() -> None:
    clock = PassingClock()
    counters = SteadyCounters(clock, [Load(watts=10.0, last=DRAM_RANGE)])
    waits = Waits(clock, until_s=40.0)
    totals = totals_of(clock, counters, wait=waits)
    with totals.attended():
        before = totals.read()
        waits.begun.set()
        assert waits.there.wait(30)
        clean = totals.read()
    failing = Waits(clock, until_s=80.0)
    counters.error = "fake:0 (package-0) answers EIO"
    failing.begun.set()
    totals._wait = failing
    with totals.attended():
        assert failing.there.wait(30)
    counters.error = ""
    after = totals.read()
    assert before.voids == clean.voids
    assert clean.voids < after.voids


def test_counters_that_always_count_on_need_no_thread() -> None:
    clock = PassingClock()
    waits = Waits(clock, until_s=0.0)
    totals = Totals(SteadyCounters(clock, [Load(watts=1.0)]), longest_s=math.inf, clock=clock, wait=waits)
    waits.begun.set()
    with totals.attended():
        names = {thread.name for thread in threading.enumerate()}
    assert "hwperf-energy" not in names
    assert not waits.there.is_set()


def test_the_thread_ends_with_its_windows() -> None:
    clock = PassingClock()
    waits = Waits(clock, until_s=0.0)
    totals = totals_of(clock, SteadyCounters(clock, [Load(watts=1.0)]), wait=waits)
    waits.begun.set()
    with totals.attended():
        assert "hwperf-energy" in {thread.name for thread in threading.enumerate()}
    assert "hwperf-energy" not in {thread.name for thread in threading.enumerate()}


def test_a_suspended_machine_voids_the_window() -> None:
    """Its counters stood still or went on, nobody knows."""
    clock, asleep = PassingClock(), [100.0]
    counters = SteadyCounters(clock, [Load(watts=5.0)])
    totals = Totals(counters, longest_s=LONGEST_S, clock=clock, suspended=lambda: asleep[0])
    before = totals.read()
    asleep[0] += 0.01  # two clocks are never read at once
    still = totals.read()
    asleep[0] += 3600.0
    after = totals.read()
    assert before.voids == still.voids < after.voids
    assert "the machine was suspended for 3600 s during the window" == totals.reason


def test_a_refused_reading_rises_and_voids_what_is_open() -> None:
    clock = PassingClock()
    counters = SteadyCounters(clock, [Load(watts=5.0)])
    totals = totals_of(clock, counters)
    before = totals.read()
    counters.error = "fake:0 (package-0) answers ENODATA"
    with pytest.raises(MeasurementError, match="ENODATA"):
        totals.read()
    counters.error = ""
    assert before.voids + 1 == totals.read().voids


def test_this_machine_tells_how_long_it_slept() -> None:
    assert 0.0 <= round(seconds_suspended(), 2)


def test_a_system_without_that_clock_never_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("time.CLOCK_BOOTTIME", raising=False)
    assert 0.0 == seconds_suspended()
