"""Instant power added up: trapezoids, gaps, errors and the thread that keeps it going."""

import threading
from collections.abc import Iterator

import pytest
from fakes.clocks import HandClock
from fakes.nvml import GPU_IS_LOST, FakeBoard, FakeNvml

from pytest_hwperf.meters.nvml import EVERY_S, PowerCounters
from pytest_hwperf.meters.nvml_library import Library
from pytest_hwperf.records.errors import MeasurementError

MICRO = 1_000_000


class Turns:
    """A thread's sleep that lasts until a test gives it a turn, and a test's wait until that turn is over."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._asleep = threading.Semaphore(0)
        self._turn = threading.Semaphore(0)

    def wait(self, ended: threading.Event, seconds: float) -> bool:
        self.asked.append(seconds)
        self._asleep.release()
        while not ended.is_set():
            if self._turn.acquire(timeout=0.01):
                return False
        return True

    def decide(self) -> None:
        """Return once the thread sleeps."""
        assert self._asleep.acquire(timeout=30)

    def give(self) -> None:
        """Let the thread, which sleeps, work once and sleep again."""
        self._turn.release()
        self.decide()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def nvml() -> FakeNvml:
    return FakeNvml(FakeBoard("GPU-a", milliwatts=100_000), FakeBoard("GPU-b", milliwatts=50_000))


@pytest.fixture
def counters(nvml: FakeNvml, clock: HandClock, turns: Turns) -> Iterator[PowerCounters]:
    library = Library(nvml)
    opened = PowerCounters(library, library.boards(), clock=clock, wait=turns.wait)
    yield opened
    opened.close()


def test_power_is_added_up_between_its_values(nvml: FakeNvml, clock: HandClock, counters: PowerCounters) -> None:
    """100 W that become 200 W within 0.2 s are 30 J; steady 50 W are 10 J."""
    first = counters.read()
    nvml.boards[0].milliwatts = 200_000
    clock.pass_time(0.2)
    assert ((0, 0), (30 * MICRO, 10 * MICRO)) == (first, counters.read())


def test_the_thread_sees_what_comes_and_goes_between_two_readings(
    nvml: FakeNvml, clock: HandClock, counters: PowerCounters, turns: Turns
) -> None:
    """100 W, 0.1 s later 300 W, 0.1 s later 100 W again: 40 J, of which the ends alone would tell 20."""
    counters.read()
    turns.decide()
    nvml.boards[0].milliwatts = 300_000
    clock.pass_time(0.1)
    turns.give()
    nvml.boards[0].milliwatts = 100_000
    clock.pass_time(0.1)
    assert 40 * MICRO == pytest.approx(counters.read()[0], abs=1)
    assert {EVERY_S} == set(turns.asked)


def test_a_gap_is_reported_to_whoever_reads_next_and_only_once(clock: HandClock, counters: PowerCounters) -> None:
    """What was drawn in half a second without a value is a guess."""
    counters.read()
    clock.pass_time(0.5)
    with pytest.raises(MeasurementError, match=r"^the power of the boards was not read for 500 ms$"):
        counters.read()
    before = counters.read()
    clock.pass_time(0.1)
    assert [10 * MICRO, 5 * MICRO] == pytest.approx(
        [after - earlier for earlier, after in zip(before, counters.read(), strict=True)], abs=1
    )


def test_an_error_that_the_thread_met_is_reported_too(
    nvml: FakeNvml, clock: HandClock, counters: PowerCounters, turns: Turns
) -> None:
    """Even if the board has come back by then: there is a hole in the sum."""
    counters.read()
    turns.decide()
    nvml.boards[1].errors["power"] = GPU_IS_LOST
    clock.pass_time(0.1)
    turns.give()
    nvml.boards[1].errors.clear()
    clock.pass_time(0.1)
    with pytest.raises(MeasurementError, match=r"^GPU 1 answers GPU is lost$"):
        counters.read()


def test_no_energy_is_made_up_for_the_time_of_an_error(
    nvml: FakeNvml, clock: HandClock, counters: PowerCounters
) -> None:
    counters.read()
    nvml.boards[0].errors["power"] = GPU_IS_LOST
    clock.pass_time(0.1)
    with pytest.raises(MeasurementError):
        counters.read()
    nvml.boards[0].errors.clear()
    clock.pass_time(0.1)
    assert (0, 0) == counters.read()


def test_nothing_runs_before_the_first_reading_nor_after_the_end(
    nvml: FakeNvml, clock: HandClock, turns: Turns
) -> None:
    library = Library(nvml)
    counters = PowerCounters(library, library.boards(), clock=clock, wait=turns.wait)

    def running() -> bool:
        return any(thread.name == "hwperf-board-power" for thread in threading.enumerate())

    before = running()
    counters.read()
    during = running()
    counters.close()
    counters.close()
    assert (False, True, False, 0) == (before, during, running(), nvml.inits)


def test_counters_that_were_never_read_are_closed_too(nvml: FakeNvml) -> None:
    library = Library(nvml)
    PowerCounters(library, library.boards()).close()
    assert 0 == nvml.inits


def test_a_reading_is_dated_at_its_midpoint(nvml: FakeNvml, clock: HandClock, turns: Turns) -> None:
    """The first takes 20 ms, the second none: 100 ms from end to end, 110 ms from midpoint to midpoint, 11 J."""
    library = Library(nvml)
    takes = iter((0.0, 0.02, 0.1, 0.0))

    def slow() -> float:
        clock.pass_time(next(takes))
        return clock.now_s

    counters = PowerCounters(library, library.boards(), clock=slow, wait=turns.wait)
    counters.read()
    joules = counters.read()[0] / MICRO
    counters.close()
    assert 11.0 == pytest.approx(joules, abs=1e-5)
