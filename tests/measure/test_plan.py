"""How windows are planned for what meters need."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fakes.streams import FakeClock, FakeMeter, TimedCall, never

from pytest_hwperf.measure.plan import SamplingLimits, WindowPlan
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Stream

MS = 1_000_000


class Wrapping(FakeMeter):
    """A counter that starts again at 0 after a while."""

    tick_s = 0.001
    domains = ("package-0",)

    def __init__(self, longest_window_s: float) -> None:
        super().__init__("energy", shortest_window_s=0.5)
        self.longest_window_s = longest_window_s
        self.attended_for = list[str]()

    @contextmanager
    def attended(self) -> Iterator[None]:
        self.attended_for.append("begun")
        yield
        self.attended_for.append("ended")


def test_a_meter_without_a_shortest_window_takes_the_paces() -> None:
    plan = WindowPlan.of(SamplingLimits(window_s=0.05), 0.001, [FakeMeter("cpu_time")])
    assert (50, 0, 2, 2.0) == (plan.values, plan.least_s, plan.fewest, plan.longest_s)


def test_a_counter_needs_five_windows_of_half_a_second() -> None:
    """A quarter more than the shortest, so that calls may get a little faster."""
    plan = WindowPlan.of(SamplingLimits(max_time_s=2.0), 0.001, [FakeMeter("energy", shortest_window_s=0.5)])
    assert (625, 5, 6.25) == (plan.values, plan.fewest, plan.longest_s)


@pytest.mark.parametrize(("elapsed_s", "windows", "over"), [(2.0, 4, False), (2.0, 5, True), (6.25, 2, True)])
def test_sampling_goes_on_for_five_windows_but_not_for_ever(elapsed_s: float, windows: int, *, over: bool) -> None:
    plan = WindowPlan.of(SamplingLimits(max_time_s=2.0), 0.001, [FakeMeter("energy", shortest_window_s=0.5)])
    assert over == plan.is_over(elapsed_s, windows)


@pytest.mark.parametrize("call_ms", [1, 30, 400])
def test_five_windows_are_made_beyond_the_longest_time(call_ms: int) -> None:
    clock = FakeClock()
    meter = FakeMeter("energy", shortest_window_s=0.5)
    stream = Stream(TimedCall(clock, call_ms * MS), None)
    measured = Sampler(stream, SamplingLimits(max_time_s=1.0), clock).measure([meter], never)
    assert 5 == len(measured.windows)
    assert all(window.wall_s >= 0.5 for window in measured.windows)


def test_calls_of_seconds_end_with_fewer_windows() -> None:
    """Five calls of 5 s would be 25 s for a measurement of 2 s."""
    clock = FakeClock()
    meter = FakeMeter("energy", shortest_window_s=0.5)
    measured = Sampler(Stream(TimedCall(clock, 5000 * MS), None), SamplingLimits(), clock).measure([meter], never)
    assert 2 == len(measured.windows)


@pytest.mark.parametrize(("longest_s", "attended"), [(32.0, []), (1.8, ["begun", "ended"])])
def test_only_windows_that_could_hide_a_wrap_are_attended(longest_s: float, attended: list[str]) -> None:
    """Windows of 0.625 s are cut off after three times as long."""
    clock = FakeClock()
    meter = Wrapping(longest_s)
    Sampler(Stream(TimedCall(clock, MS), None), SamplingLimits(), clock).measure([meter], never)
    assert attended == meter.attended_for


def test_meters_end_in_the_opposite_order() -> None:
    """The first to start is the last to end: what its reading takes is no CPU time of the calls."""
    clock, order = FakeClock(), list[str]()

    class Noting(FakeMeter):
        def start(self) -> object:
            order.append(f"start {self.metric}")
            return None

        def end(self, started: object) -> object:  # type: ignore[override] # it only passes the reading on
            order.append(f"end {self.metric}")
            return super().end(started)

    meters = [Noting("energy"), Noting("cpu_time")]
    Sampler(Stream(TimedCall(clock, MS), None), SamplingLimits(), clock).measure(meters, never)  # type: ignore[arg-type]
    assert ["start energy", "start cpu_time", "end cpu_time", "end energy"] == order[:4]
