"""Stacks are sampled by a timer, and whoever used it before has it back."""

import signal
import threading

import pytest
from fakes.clocks import HandClock

from pytest_hwperf.measure.functions import Samples, sampling
from pytest_hwperf.records.errors import MeasurementError

LONG_S = 1000.0  # no tick but those of the test


def tick() -> None:
    signal.raise_signal(signal.SIGALRM)


def work() -> None:
    tick()


def sampled(samples: Samples) -> dict[str, float]:
    """Return the seconds of each stack by its two innermost functions."""
    return {".".join(code.co_name for code in stack[-2:]): seconds for stack, seconds in samples.seconds.items()}


def test_a_sample_stands_for_the_time_since_the_one_before() -> None:
    clock = HandClock()
    with sampling(LONG_S, clock) as samples:
        for seconds in (0.5, 0.25):
            clock.pass_time(seconds)
            work()
        clock.pass_time(2.0)
        tick()
    assert (3, {"work.tick": 0.75}) == (samples.count, {k: v for k, v in sampled(samples).items() if k == "work.tick"})
    assert 2.75 == sum(samples.seconds.values())


def test_a_handler_and_a_timer_that_were_there_go_on() -> None:
    """Of 60 s, 20 have passed meanwhile."""
    clock, seen = HandClock(), list[int]()
    before = signal.signal(signal.SIGALRM, lambda number, _: seen.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 60.0, 5.0)
        with sampling(LONG_S, clock):
            clock.pass_time(20.0)
        left_s, every_s = signal.setitimer(signal.ITIMER_REAL, 0)
        tick()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 40.0 == pytest.approx(left_s, abs=5.0)
    assert (5.0, [signal.SIGALRM]) == (every_s, seen)


def test_no_timer_is_left_behind_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), sampling(LONG_S):
        raise ZeroDivisionError
    assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_REAL)


def test_a_tick_that_comes_late_is_no_sample_and_ends_nothing() -> None:
    """Python runs handlers between two instructions: the timer may have fired before it was stopped."""
    with sampling(LONG_S) as samples:
        pass
    tick()
    assert 0 == samples.count
    assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_REAL)


def test_another_thread_cannot_be_sampled() -> None:
    said = list[str]()

    def try_it() -> None:
        try:
            with sampling(LONG_S):
                pass
        except MeasurementError as error:
            said.append(str(error))

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    assert ["functions are sampled by a timer of POSIX systems, in the main thread alone"] == said
