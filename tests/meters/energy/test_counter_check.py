"""A close look at counters: their step, and which of them tell nonsense."""

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters

from pytest_hwperf.meters.counters import check_counters


def looked_at(*loads: Load, look_s: float = 20e-6) -> tuple[SteadyCounters, PassingClock]:
    clock = PassingClock(look_s)
    return SteadyCounters(lambda: clock.now_s, loads), clock


@pytest.mark.parametrize("tick_ms", [0.2, 1.0, 4.0])
def test_the_step_is_the_usual_time_between_changes(tick_ms: float) -> None:
    counters, clock = looked_at(Load(watts=20.0, tick_s=tick_ms / 1000))
    seen = check_counters(counters, clock)
    assert tick_ms / 1000 == pytest.approx(seen.tick_s, abs=40e-6)
    assert ((), ()) == (seen.stuck, seen.absurd)


def test_the_slowest_counter_decides() -> None:
    counters, clock = looked_at(Load(watts=20.0), Load(watts=3.0, tick_s=0.005, name="dram", never_idle=False))
    assert 0.005 == pytest.approx(check_counters(counters, clock).tick_s, abs=40e-6)


def test_a_counter_that_stands_still_is_stuck() -> None:
    counters, clock = looked_at(Load(watts=20.0), Load(watts=0.0, name="package-1"))
    seen = check_counters(counters, clock)
    assert (counters.registers[1],) == seen.stuck
    assert 0.001 == pytest.approx(seen.tick_s, abs=40e-6)


def test_a_power_that_nothing_draws_is_absurd() -> None:
    """3763 W: an Atom package whose unit is read wrongly."""
    counters, clock = looked_at(Load(watts=3763.0), Load(watts=20.0, name="package-1"))
    ((register, watts),) = check_counters(counters, clock).absurd
    assert counters.registers[0] == register
    assert 3763.0 == pytest.approx(watts, rel=0.02)


def test_a_wrap_meanwhile_is_no_absurd_power() -> None:
    counters, clock = looked_at(Load(watts=20.0, start=65712999613 - 1_000_000, last=65712999613))
    assert () == check_counters(counters, clock).absurd


def test_the_look_ends_after_a_second() -> None:
    """A counter that moves twice a second has the whole look as its step: more is not known."""
    counters, clock = looked_at(Load(watts=20.0, tick_s=0.5), look_s=0.001)
    seen = check_counters(counters, clock)
    assert 1.0 == pytest.approx(clock.now_s, abs=0.01)
    assert 1.0 == pytest.approx(seen.tick_s, abs=0.01)


def test_waiting_for_a_change_takes_a_few_steps_at_most() -> None:
    """Five steps of 1 ms, at 20 µs a reading."""
    counters, clock = looked_at(Load(watts=20.0))
    assert 250 == pytest.approx(check_counters(counters, clock).spins, rel=0.1)


def test_counters_that_all_stand_still_give_no_step_of_their_own() -> None:
    counters, clock = looked_at(Load(watts=0.0))
    seen = check_counters(counters, clock)
    assert counters.registers == seen.stuck
    assert 1.0 == pytest.approx(seen.tick_s, abs=0.01)
