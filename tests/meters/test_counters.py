"""Energy counters: totals through their wraps, windows over them, and the short check when they are opened."""

import math
import threading
from dataclasses import replace

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters, meter_on_counters
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.meters.counter_check import check_counters
from pytest_hwperf.meters.counters import Busy, CounterMeter, Totals, busy_here, share_of
from pytest_hwperf.records.contracts import CountingMeter
from pytest_hwperf.records.errors import MeasurementError

TICK_S = 0.001


def steady(clock: PassingClock, *loads: Load) -> CounterMeter:
    return meter_on_counters(SteadyCounters(lambda: clock.now_s, loads), clock)


@given(
    watts=st.floats(min_value=0.5, max_value=400.0),
    phase_s=st.floats(min_value=0.0, max_value=0.01),
    window_s=st.floats(min_value=0.5, max_value=3.0),
    start=st.integers(min_value=0, max_value=65712999613),
)
def test_the_stated_bound_holds_at_any_phase_and_through_wraps(
    watts: float, phase_s: float, window_s: float, start: int
) -> None:
    """Counters are behind by up to a step at each end: the window is off by no more than one of them."""
    clock = PassingClock()
    clock.now_s = 7.0 + phase_s
    meter = steady(clock, Load(watts=watts, start=start, last=65712999613))
    started = meter.start()
    clock.now_s += window_s
    joules = meter.end(started).value
    assert joules is not None
    assert abs(joules - watts * window_s) <= TICK_S / window_s * watts * window_s + 3e-6


def test_a_window_begins_behind_a_change() -> None:
    """It begins at 0.4 ms of a step: by the next change 0.6 ms have passed."""
    clock = PassingClock(look_s=0.0)
    counters = SteadyCounters(lambda: clock.now_s, [Load(watts=20.0)])
    real_read = counters.read

    def slow_read() -> tuple[int, ...]:
        clock.now_s += 0.00005
        return real_read()

    counters.read = slow_read  # type: ignore[method-assign]
    clock.now_s = 1.0004
    meter = meter_on_counters(counters, lambda: clock.now_s, spins=100)
    meter.start()
    assert 1.001 == pytest.approx(clock.now_s, abs=0.00011)


def test_waiting_for_a_change_is_given_up() -> None:
    """A counter that stopped moving is reported at the end of the window, not waited for."""
    clock = PassingClock()
    counters = SteadyCounters(clock, [Load(watts=0.0)])
    meter = meter_on_counters(counters, clock, spins=7)
    started = meter.start()
    assert 1 + 7 + 1 == counters.readings
    clock.now_s += 1.0
    assert "did not move in 1.00 s" in meter.end(started).reason


def test_a_reading_tells_our_share() -> None:
    clock, busy = PassingClock(), iter((Busy(0.0, 0.0), Busy(0.8, 1.6)))
    meter = meter_on_counters(SteadyCounters(clock, [Load(watts=20.0)]), clock, busy=lambda: next(busy))
    started = meter.start()
    clock.now_s = 1.0
    reading = meter.end(started)
    assert 20.0 == pytest.approx(reading.value)
    assert 0.5 == reading.share


def test_a_meter_says_what_it_adds_up_and_how_finely() -> None:
    clock = PassingClock()
    meter = steady(clock, Load(watts=1.0), Load(watts=1.0, name="dram", never_idle=False))
    assert isinstance(meter, CountingMeter)
    assert ("fake:package-0+dram", ("package-0", "dram"), "energy") == (meter.source, meter.domains, meter.metric)
    assert (TICK_S, 0.5, math.inf) == (meter.tick_s, meter.shortest_window_s, meter.longest_window_s)


def test_counters_that_never_start_again_need_not_be_attended() -> None:
    clock = PassingClock()
    meter = steady(clock, Load(watts=2.0))
    with meter.attended():
        started = meter.start()
        clock.now_s += 86_400.0
    reading = meter.end(started)
    assert 2.0 * 86_400 == pytest.approx(reading.value)
    assert reading.share is None  # they are not of the machine


def test_what_went_wrong_between_windows_is_no_fault_of_the_next() -> None:
    """A counter of unknown range that started again voids what was open; the next window is whole."""
    clock = PassingClock()
    counters = SteadyCounters(clock, [Load(watts=20.0, start=5_000_000)])
    meter = meter_on_counters(counters, clock)
    earlier = meter.start()
    counters._loads = [Load(watts=20.0, start=0)]
    clock.now_s += 0.01
    started = meter.start()
    clock.now_s += 1.0
    assert 20.0 == pytest.approx(meter.end(started).value)
    assert "went down" in meter.end(earlier).reason


def test_it_is_our_part_of_the_busy_seconds() -> None:
    for own_s, before_s, after_s, share in (
        (0.3, 100.0, 101.2, 0.25),
        (0.0, 100.0, 100.21, 0.0),
        (1.01, 100.0, 101.0, 1.0),  # rounding of the kernel's ticks makes it no more than all
        (0.1, 100.0, 100.19, None),  # below 20 ticks of 10 ms it would be mostly rounding
        (0.1, None, 200.0, None),
        (0.1, 100.0, None, None),
    ):
        assert share == pytest.approx(share_of(Busy(5.0, before_s), Busy(5.0 + own_s, after_s)))


def test_real_work_is_ours() -> None:
    """The first reading of this machine lies before the second."""
    started = busy_here()
    sum(range(100_000))
    assert started.own_s < busy_here().own_s


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


def test_wraps_are_folded_once_more_for_each_range() -> None:
    """At 1 kW the memory's counter starts again at 0 every 66 s: three times in 200 s, of which a thread loses none."""
    clock = PassingClock()
    waits = Waits(clock, until_s=200.0)
    totals = totals_of(clock, SteadyCounters(clock, [Load(watts=1000.0, last=DRAM_RANGE)]), wait=waits)
    with totals.attended():
        before = totals.read()
        waits.begun.set()
        assert waits.there.wait(30)
        after = totals.read()
    assert 200_000_000_000 - 3 <= after.counts[0] - before.counts[0] <= 200_000_000_000 + 1_000_000
    assert before.voids == after.voids
    assert {LONGEST_S / 2} == set(waits.waited)


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


def test_a_restart_within_a_window_is_seen_where_the_range_is_not_known() -> None:
    """A package of 30 W that starts again at 0 every second: the two ends of 3.0003 s show 0.009 J for 90 J."""
    clock = PassingClock()
    counters = SteadyCounters(clock, [Load(watts=30.0, last=29_999_999)])
    (told,) = counters.registers
    counters.registers = (replace(told, last=None, longest_s=60.0),)
    waits = Waits(clock, until_s=3.0003)
    totals = Totals(counters, longest_s=60.0, clock=clock, suspended=lambda: 0.0, wait=waits)
    with totals.attended():
        before = totals.read()
        waits.begun.set()
        assert waits.there.wait(30)
        after = totals.read()
    assert before.voids < after.voids
    assert "fake:0 (package-0) went down, and where it starts again at 0 is not known" == totals.reason
    assert {0.1} == set(waits.waited)


def test_windows_of_an_unknown_range_ask_to_be_attended() -> None:
    """Those of the usual length, half a second and a quarter more; a counter that never restarts needs nobody."""
    counters = SteadyCounters(PassingClock(), [Load(watts=30.0)])
    assert math.inf == meter_on_counters(counters, PassingClock()).longest_window_s
    (register,) = counters.registers
    counters.registers = (replace(register, longest_s=60.0),)
    assert 0.625 == meter_on_counters(counters, PassingClock()).longest_window_s
    counters.registers = (replace(register, last=DRAM_RANGE, longest_s=LONGEST_S),)
    assert LONGEST_S == meter_on_counters(counters, PassingClock()).longest_window_s


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


def looked_at(*loads: Load, look_s: float = 20e-6) -> tuple[SteadyCounters, PassingClock]:
    clock = PassingClock(look_s)
    return SteadyCounters(lambda: clock.now_s, loads), clock


def test_the_step_is_the_usual_time_between_changes_of_the_slowest_counter() -> None:
    """And waiting for a change takes five steps of 5 ms at most, at 20 µs a reading; a wrap is no absurd power."""
    last = 65712999613
    wrapping = Load(watts=20.0, start=last - 1_000_000, last=last)
    counters, clock = looked_at(wrapping, Load(watts=3.0, tick_s=0.005, name="dram", never_idle=False))
    seen = check_counters(counters, clock)
    assert 0.005 == pytest.approx(seen.tick_s, abs=40e-6)
    assert 1250 == pytest.approx(seen.spins, rel=0.1)
    assert ((), ()) == (seen.stuck, seen.absurd)


def test_counters_that_stand_still_or_tell_a_power_that_nothing_draws_are_odd() -> None:
    """3763 W: an Atom package whose unit is read wrongly. Neither decides over the step."""
    loads = (Load(watts=20.0), Load(watts=0.0, name="package-1"), Load(watts=3763.0, tick_s=0.004, name="package-2"))
    counters, clock = looked_at(*loads, look_s=0.0001)
    seen = check_counters(counters, clock)
    ((register, watts),) = seen.absurd
    assert (counters.registers[1],) == seen.stuck
    assert counters.registers[2] == register
    assert 3763.0 == pytest.approx(watts, rel=0.02)
    assert 0.001 == pytest.approx(seen.tick_s, abs=200e-6)


def test_the_look_ends_after_a_second() -> None:
    """A counter that moves twice a second has the whole look as its step: more is not known."""
    counters, clock = looked_at(Load(watts=20.0, tick_s=0.5), look_s=0.001)
    seen = check_counters(counters, clock)
    assert 1.0 == pytest.approx(clock.now_s, abs=0.01)
    assert 1.0 == pytest.approx(seen.tick_s, abs=0.01)


def test_counters_that_all_stand_still_give_no_step_of_their_own() -> None:
    counters, clock = looked_at(Load(watts=0.0), look_s=0.001)
    seen = check_counters(counters, clock)
    assert counters.registers == seen.stuck
    assert 1.0 == pytest.approx(seen.tick_s, abs=0.01)
