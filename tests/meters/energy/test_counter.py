"""Windows over counters: their bound, their beginning, and whose work was in them."""

import math
from typing import TYPE_CHECKING

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.core.contracts import CountingMeter
from pytest_hwperf.meters.energy.counter import CounterMeter, Traits
from pytest_hwperf.meters.energy.idle import Sleeper, idle_watts
from pytest_hwperf.meters.energy.share import Share

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_S = 0.001


def steady(
    clock: PassingClock, *loads: Load, spins: int = 0, before: "Callable[[], None] | None" = None
) -> CounterMeter:
    traits = Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5, spins=spins)
    if before:
        traits = Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5, before_reading=before)
    return CounterMeter(SteadyCounters(lambda: clock.now_s, loads), traits, clock=clock, asleep=lambda: 0.0)


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
    traits = Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5, spins=100)
    meter = CounterMeter(counters, traits, clock=lambda: clock.now_s, asleep=lambda: 0.0)
    meter.start()

    assert 1.001 == pytest.approx(clock.now_s, abs=0.00011)


def test_waiting_for_a_change_is_given_up() -> None:
    """A counter that stopped moving is told at the end of the window, not waited for."""
    clock = PassingClock()
    counters = SteadyCounters(clock, [Load(watts=0.0)])
    meter = CounterMeter(
        counters, Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5, spins=7), clock=clock, asleep=lambda: 0.0
    )
    started = meter.start()

    assert 1 + 7 + 1 == counters.readings
    clock.now_s += 1.0
    assert "did not move in 1.00 s" in meter.end(started).reason


def test_both_ends_wait_for_what_is_still_under_way() -> None:
    clock, calls = PassingClock(), list[float]()
    meter = steady(clock, Load(watts=20.0), before=lambda: calls.append(clock.now_s))
    started = meter.start()
    clock.now_s += 1.0
    meter.end(started)

    assert [0.0, 1.0] == calls


def test_a_reading_tells_our_share() -> None:
    clock, own, machine = PassingClock(), [0.0], [0.0]
    counters = SteadyCounters(clock, [Load(watts=20.0)])
    share = Share(own=lambda: own[0], machine=lambda: machine[0])
    traits = Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5)
    meter = CounterMeter(counters, traits, share=share, clock=clock, asleep=lambda: 0.0)
    started = meter.start()
    clock.now_s, own[0], machine[0] = 1.0, 0.8, 1.6
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
    meter = steady(clock, Load(watts=1.0), Load(watts=1.0, name="dram", restless=False))

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


def sleeper_of(clock: PassingClock, *, busy_s: float | None = 0.0, slept: list[float] | None = None) -> Sleeper:
    """Let the clock pass instead of sleeping, while others work for `busy_s` CPU seconds each second."""

    def sleep(seconds: float) -> None:
        clock.now_s += seconds
        if slept is not None:
            slept.append(seconds)

    return Sleeper(sleep=sleep, clock=clock, busy=lambda: None if busy_s is None else 50.0 + busy_s * clock.now_s)


@pytest.mark.parametrize("busy_s", [0.0, 0.19, None])
def test_the_idle_power_is_that_of_two_seconds_asleep(busy_s: float | None) -> None:
    """Up to 5 % of the cores at work are the system's own; where it does not tell, nobody is known to disturb."""
    clock, slept = PassingClock(), list[float]()
    sleeper = sleeper_of(clock, busy_s=busy_s, slept=slept)
    reading = idle_watts(steady(clock, Load(watts=12.5)), 4, sleeper)

    assert [2.0] == slept
    assert 12.5 == pytest.approx(reading.value)


def test_a_machine_on_which_others_work_is_not_idle() -> None:
    """Taken off, its power would make the calls look cheaper than they are."""
    clock = PassingClock()
    reading = idle_watts(steady(clock, Load(watts=12.5)), 4, sleeper_of(clock, busy_s=2.0))

    assert (None, "the machine was not idle: others used 50% of its cores") == (reading.value, reading.reason)


def test_an_idle_power_that_cannot_be_read_has_a_reason() -> None:
    clock = PassingClock()
    reading = idle_watts(steady(clock, Load(watts=0.0)), 4, sleeper_of(clock))

    assert reading.value is None
    assert "did not move in 2.00 s" in reading.reason


def test_what_went_wrong_between_windows_is_no_fault_of_the_next() -> None:
    """A counter of unknown range that started again voids what was open; the next window is whole."""
    clock = PassingClock()
    counters = SteadyCounters(clock, [Load(watts=20.0, start=5_000_000)])
    traits = Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5)
    meter = CounterMeter(counters, traits, clock=clock, asleep=lambda: 0.0)
    earlier = meter.start()
    counters._loads = [Load(watts=20.0, start=0)]
    clock.now_s += 0.01
    started = meter.start()
    clock.now_s += 1.0

    assert 20.0 == pytest.approx(meter.end(started).value)
    assert "went down" in meter.end(earlier).reason
