"""Windows over counters: their bound, their beginning, and whose work was in them."""

import math

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters, meter_on_counters
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.meters.counters import Busy, CounterMeter, busy_here, share_of
from pytest_hwperf.records.contracts import CountingMeter

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


def test_both_ends_wait_for_what_is_still_under_way() -> None:
    clock, calls = PassingClock(), list[float]()
    counters = SteadyCounters(clock, [Load(watts=20.0)])
    meter = meter_on_counters(counters, clock, before_reading=lambda: calls.append(clock.now_s))
    started = meter.start()
    clock.now_s += 1.0
    meter.end(started)
    assert [0.0, 1.0] == calls


def test_a_reading_tells_our_share() -> None:
    clock, busy = PassingClock(), iter((Busy(0.0, 0.0), Busy(0.8, 1.6)))
    meter = meter_on_counters(SteadyCounters(clock, [Load(watts=20.0)]), clock, busy=lambda: next(busy))
    started = meter.start()
    clock.now_s = 1.0
    reading = meter.end(started)
    assert 20.0 == pytest.approx(reading.value)
    assert 0.5 == reading.share


def test_counters_that_are_not_of_the_machine_tell_no_share() -> None:
    clock = PassingClock()
    meter = steady(clock, Load(watts=20.0))
    started = meter.start()
    clock.now_s += 1.0
    assert meter.end(started).share is None


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
    assert 2.0 * 86_400 == pytest.approx(meter.end(started).value)


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


@pytest.mark.parametrize(
    ("own_s", "before_s", "after_s", "share"),
    [
        (0.9, 100.0, 101.0, 0.9),
        (0.3, 100.0, 101.2, 0.25),
        (0.0, 100.0, 101.0, 0.0),
        (1.01, 100.0, 101.0, 1.0),  # rounding of the kernel's ticks makes it no more than all
        (0.1, 100.0, 100.19, None),  # below 20 ticks of 10 ms it would be mostly rounding
        (0.1, None, 200.0, None),
        (0.1, 100.0, None, None),
    ],
)
def test_it_is_our_part_of_the_busy_seconds(
    own_s: float, before_s: float | None, after_s: float | None, share: float | None
) -> None:
    assert share == pytest.approx(share_of(Busy(5.0, before_s), Busy(5.0 + own_s, after_s)))


def test_real_work_is_ours() -> None:
    """The first reading of this machine lies before the second."""
    started = busy_here()
    sum(range(100_000))
    assert started.own_s < busy_here().own_s
