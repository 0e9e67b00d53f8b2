"""Windows over counters: their bound, their beginning, and whose work was in them."""

import math
from typing import TYPE_CHECKING

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters
from hypothesis import given
from hypothesis import strategies as st

from pytest_hwperf.meters.counters import CounterMeter, Share, Traits
from pytest_hwperf.records.contracts import CountingMeter

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_S = 0.001


def steady(
    clock: PassingClock, *loads: Load, spins: int = 0, before: "Callable[[], None] | None" = None
) -> CounterMeter:
    traits = Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5, spins=spins)
    if before:
        traits = Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5, before_reading=before)
    return CounterMeter(SteadyCounters(lambda: clock.now_s, loads), traits, clock=clock, suspended=lambda: 0.0)


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
    meter = CounterMeter(counters, traits, clock=lambda: clock.now_s, suspended=lambda: 0.0)
    meter.start()
    assert 1.001 == pytest.approx(clock.now_s, abs=0.00011)


def test_waiting_for_a_change_is_given_up() -> None:
    """A counter that stopped moving is reported at the end of the window, not waited for."""
    clock = PassingClock()
    counters = SteadyCounters(clock, [Load(watts=0.0)])
    meter = CounterMeter(
        counters, Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5, spins=7), clock=clock, suspended=lambda: 0.0
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
    meter = CounterMeter(counters, traits, share=share, clock=clock, suspended=lambda: 0.0)
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
    traits = Traits(kind="fake", tick_s=TICK_S, shortest_window_s=0.5)
    meter = CounterMeter(counters, traits, clock=clock, suspended=lambda: 0.0)
    earlier = meter.start()
    counters._loads = [Load(watts=20.0, start=0)]
    clock.now_s += 0.01
    started = meter.start()
    clock.now_s += 1.0
    assert 20.0 == pytest.approx(meter.end(started).value)
    assert "went down" in meter.end(earlier).reason


class Played:
    """CPU seconds that a test moves."""

    def __init__(self) -> None:
        self.own_s = 5.0
        self.machine_s: float | None = 100.0

    def share(self) -> Share:
        return Share(own=lambda: self.own_s, machine=lambda: self.machine_s)


@pytest.mark.parametrize(("own_s", "machine_s", "expected"), [(0.9, 1.0, 0.9), (0.3, 1.2, 0.25), (0.0, 1.0, 0.0)])
def test_it_is_our_part_of_the_busy_seconds(own_s: float, machine_s: float, expected: float) -> None:
    played = Played()
    share = played.share()
    started = share.start()
    played.own_s += own_s
    played.machine_s = 100.0 + machine_s
    assert expected == pytest.approx(share.end(started))


def test_rounding_of_the_kernels_ticks_makes_it_no_more_than_all() -> None:
    played = Played()
    share = played.share()
    started = share.start()
    played.own_s += 1.01
    played.machine_s = 101.0
    assert 1.0 == share.end(started)


def test_of_a_machine_that_hardly_worked_there_is_no_share() -> None:
    """Below 20 ticks of 10 ms it would be mostly rounding."""
    played = Played()
    share = played.share()
    started = share.start()
    played.machine_s = 100.19
    assert share.end(started) is None


@pytest.mark.parametrize("known_at_first", [True, False])
def test_a_system_that_does_not_tell_gives_none(*, known_at_first: bool) -> None:
    played = Played()
    played.machine_s = 100.0 if known_at_first else None
    share = played.share()
    started = share.start()
    played.machine_s = None if known_at_first else 200.0
    assert share.end(started) is None


def test_real_work_is_ours() -> None:
    """The first reading of this machine lies before the second."""
    share = Share()
    started = share.start()
    sum(range(100_000))
    ended = share.start()
    assert started.own_s < ended.own_s
