"""Energy of a block of code, and the power of a machine that is left alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fakes.clocks import HandClock
from fakes.counters import Load, PassingClock, SteadyCounters, meter_on_counters

from pytest_hwperf.meters.energy_window import EnergyMeter, idle_watts
from pytest_hwperf.meters.estimate import EstimateMeter, Watts, estimate_meter
from pytest_hwperf.meters.process import CpuTimeMeter
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.run import Reading


class ScriptedMeter:
    """Counts the joules that a test adds, or refuses with a reason; with a tick of 1 ms and one domain."""

    metric = "energy"
    covers: Covered = "processors"
    source = "rapl:package-0"
    shortest_window_s = 0.5
    warnings: tuple[str, ...] = ()
    tick_s = 0.001
    domains: tuple[str, ...] = ("package-0",)
    longest_window_s = 32.0

    def __init__(self, refusal: str = "") -> None:
        self.joules = 100.0
        self.refusal = refusal
        self.attending = 0

    def start(self) -> float:
        return self.joules

    def end(self, started: float) -> Reading:
        if self.refusal:
            return Reading(value=None, reason=self.refusal)
        return Reading(value=self.joules - started, share=0.97)

    @contextmanager
    def attended(self) -> Iterator[None]:
        self.attending += 1
        yield
        self.attending -= 1

    def close(self) -> None:
        """Hold nothing open."""


def test_a_block_tells_joules_watts_and_bound() -> None:
    """30 J in 2 s are 15 W; one tick of 1 ms in 2 s is 0.05 %."""
    counter, clock = ScriptedMeter(), HandClock()
    with EnergyMeter(counter, clock).window() as reading:
        counter.joules += 30.0
        clock.pass_time(2.0)
    assert (30.0, 15.0, 2.0, 0.0005) == (reading.joules, reading.watts, reading.window_s, reading.bound)
    assert ("rapl:package-0", ("package-0",), "") == (reading.source, reading.domains, reading.reason)


def test_an_open_window_is_attended_and_has_no_figure_but_a_reason() -> None:
    """Nobody knows how long it takes, and the counters may start again at 0 meanwhile."""
    counter = ScriptedMeter()
    with EnergyMeter(counter, HandClock()).window() as reading:
        assert 1 == counter.attending
        assert (None, None, None, None) == (reading.joules, reading.watts, reading.window_s, reading.bound)
        assert "the window is still open: read it after the block" == reading.reason
    assert (0, 0.97) == (counter.attending, reading.share)  # and whose work it was


def test_a_refused_window_keeps_its_length_and_the_reason() -> None:
    """The bound is that of a figure: without one there is none."""
    clock = HandClock()
    refusal = "a window of 12.0 ms has a bound of 8.3 %; 500 ms needed"
    with EnergyMeter(ScriptedMeter(refusal), clock).window() as reading:
        clock.pass_time(0.012)
    assert (None, None, None, refusal) == (reading.joules, reading.watts, reading.bound, reading.reason)
    assert 0.012 == pytest.approx(reading.window_s)


def test_what_a_block_raises_goes_on_and_leaves_no_figure() -> None:
    with pytest.raises(KeyboardInterrupt), EnergyMeter(ScriptedMeter(), HandClock()).window() as reading:
        raise KeyboardInterrupt
    assert (None, None, None) == (reading.joules, reading.watts, reading.bound)
    assert "the block raised KeyboardInterrupt before its window ended" == reading.reason
    with pytest.raises(ZeroDivisionError), EnergyMeter(None).window():
        raise ZeroDivisionError


def test_energy_that_is_off_says_so() -> None:
    """Before and after the block: there is nothing to wait for."""
    with EnergyMeter(None).window() as reading:
        during = reading.reason
    assert "energy is off (--hwperf-energy=off)" == during == reading.reason
    assert (None, None, "", ()) == (reading.joules, reading.watts, reading.source, reading.domains)


def test_a_window_of_no_length_has_neither_power_nor_bound() -> None:
    """A clock too coarse for the block is no reason to divide by 0."""
    counter = ScriptedMeter()
    with EnergyMeter(counter, HandClock()).window() as reading:
        counter.joules += 1.0
    assert (1.0, None, None) == (reading.joules, reading.watts, reading.bound)


def test_a_source_without_a_tick_has_no_bound() -> None:
    """An estimate is off by its coefficients, not by a tick."""
    clock = HandClock()
    with EnergyMeter(estimate_meter({}), clock).window() as reading:
        clock.pass_time(1.0)
    assert (None, "estimate:cpu-time", ()) == (reading.bound, reading.source, reading.domains)
    assert reading.joules is not None
    assert 0.0 <= reading.joules


def test_an_estimate_has_no_watts_over_a_short_block() -> None:
    """CPU time and clock are not read at one moment: the joules stay, and the table's maximum is never passed so."""
    cpu, clock = [0.0], HandClock()
    meter = EstimateMeter(CpuTimeMeter(lambda: cpu[0], children=float), Watts(processor="x", idle_w=1.0, busy_w=2.0))
    for window_s, watts in ((0.039, None), (0.0401, pytest.approx(4 / 0.0401, rel=1e-6))):
        with EnergyMeter(meter, clock).window() as reading:
            cpu[0] += 4.0
            clock.pass_time(window_s)
        assert 4.0 == pytest.approx(reading.joules)
        assert watts == reading.watts
    counter = ScriptedMeter()
    with EnergyMeter(counter, clock).window() as reading:  # a counter has them over any block
        counter.joules += 0.5
        clock.pass_time(0.01)
    assert 50.0 == pytest.approx(reading.watts)


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


def test_the_idle_power_is_that_of_two_seconds_suspended() -> None:
    """Up to 5 % of the cores at work are the system's own; where it does not tell, nobody is known to disturb."""
    for busy_s in (0.0, 0.19, None):
        slept = list[float]()
        assert 12.5 == pytest.approx(idle_power(12.5, busy_s=busy_s, slept=slept).value)
        assert [2.0] == slept


def test_a_machine_on_which_others_work_is_not_idle() -> None:
    """Taken off, its power would make the calls look cheaper than they are."""
    assert idle_power(12.5, busy_s=0.21).value is None
    reading = idle_power(12.5, busy_s=2.0)
    assert (None, "the machine was not idle: others used 50 % of its cores") == (reading.value, reading.reason)


def test_an_idle_power_that_cannot_be_read_has_a_reason() -> None:
    reading = idle_power(0.0)
    assert reading.value is None
    assert "did not move in 2.00 s" in reading.reason
