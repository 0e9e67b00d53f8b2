"""Power of a machine that is left alone."""

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters, meter_on_counters

from pytest_hwperf.meters.energy_window import idle_watts
from pytest_hwperf.records.run import Reading


def idle_power(watts: float, *, busy_s: float | None = 0.0, slept: list[float] | None = None) -> Reading:
    """Of a machine that draws `watts`: the clock passes instead of a sleep, while others work for `busy_s` a second."""
    clock = PassingClock()
    counters = SteadyCounters(lambda: clock.now_s, [Load(watts=watts)])
    meter = meter_on_counters(counters, clock)

    def sleep(seconds: float) -> None:
        clock.now_s += seconds
        if slept is not None:
            slept.append(seconds)

    return idle_watts(
        meter, 4, sleep=sleep, clock=clock, busy=lambda: None if busy_s is None else 50.0 + busy_s * clock.now_s
    )


@pytest.mark.parametrize("busy_s", [0.0, 0.19, None])
def test_the_idle_power_is_that_of_two_seconds_suspended(busy_s: float | None) -> None:
    """Up to 5 % of the cores at work are the system's own; where it does not tell, nobody is known to disturb."""
    slept = list[float]()
    reading = idle_power(12.5, busy_s=busy_s, slept=slept)
    assert [2.0] == slept
    assert 12.5 == pytest.approx(reading.value)


def test_a_machine_on_which_others_work_is_not_idle() -> None:
    """Taken off, its power would make the calls look cheaper than they are."""
    reading = idle_power(12.5, busy_s=2.0)
    assert (None, "the machine was not idle: others used 50 % of its cores") == (reading.value, reading.reason)


def test_an_idle_power_that_cannot_be_read_has_a_reason() -> None:
    reading = idle_power(0.0)
    assert reading.value is None
    assert "did not move in 2.00 s" in reading.reason
