"""One line that is written over, and what writes it while something else runs."""

import threading

import pytest
from fakes.clocks import HandClock
from fakes.screens import FakeScreen

from pytest_hwperf.host.progress import ProgressLine, fit, tick_until


class FakeEnd(threading.Event):
    """Comes after so many seconds of waiting."""

    def __init__(self, clock: HandClock, after_s: float) -> None:
        super().__init__()
        self._clock, self._at_s = clock, clock() + after_s

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now_s = min(self._clock() + (timeout or 0.0), max(self._at_s, self._clock()))
        return self._clock() >= self._at_s


def test_a_line_leaves_one_cell_free() -> None:
    """A letter that is not of ASCII may take two, the ellipsis included."""
    assert ["screen pair 1", "screen pai…"] == [fit("screen pair 1", width) for width in (14, 13)]
    assert ["日本語 pair", "日本語 p…"] == [fit("日本語 pair", width) for width in (12, 11)]
    assert ("…", "") == (fit("screen", 1), fit("", 1))


def test_the_time_so_far_is_told_from_the_first_second_on() -> None:
    for after_s, seconds in ((1.5, []), (2.5, [2]), (4.5, [2, 3, 4])):
        clock, told = HandClock(), list[float]()
        tick_until(FakeEnd(clock, after_s), told.append, 2.0, 1.0, clock)
        assert seconds == told


def test_on_a_terminal_a_line_is_written_over_with_what_is_left_and_removed() -> None:
    screen = FakeScreen(width=20)
    with ProgressLine(screen) as line:
        line.show("step 1", ", 5 s left")
        line.show("step 1", ", 4 s left")
    assert ["step 1, 5 s left", "step 1, 4 s left", ""] == screen.texts
    assert {f"\r{' ' * 19}\r"} == {text[: 19 + 2] for text in screen.written}


def test_a_line_that_stays_removes_the_one_that_does_not() -> None:
    screen = FakeScreen()
    with ProgressLine(screen) as line:
        line.show("step 1")
        line.say("a note\x1b[2J")
    assert ["step 1", "", "a note\\x1b[2J\n"] == screen.texts


def test_without_a_terminal_each_new_text_is_a_line() -> None:
    screen = FakeScreen(is_live=False)
    with ProgressLine(screen) as line:
        for number in (1, 1, 2):
            line.show(f"step {number}", ", 5 s left")
        line.rewrite("for terminals alone")
        line.show("pair 1, 1 decided", about=1)
        line.show("pair 1, 2 decided", about=1)
    assert ["step 1\n", "step 2\n", "pair 1, 1 decided\n"] == screen.texts


@pytest.mark.parametrize("is_live", [True, False])
def test_a_long_silence_is_broken_every_ten_seconds(*, is_live: bool) -> None:
    """With the last text and how long it has stood; what is written meanwhile begins the ten seconds again."""
    clock, screen = HandClock(), FakeScreen(is_live=is_live)
    line, other = ProgressLine(FakeScreen(is_live=False), clock), ProgressLine(screen, clock)

    def pass_seconds(seconds: int) -> None:
        for _ in range(seconds):
            clock.pass_time(1.0)
            line.repeat(other)

    pass_seconds(20)
    assert [] == screen.texts  # nothing was shown before
    line.show("hwperf: rehearsal")
    pass_seconds(4)
    line.say("hwperf: a note")
    pass_seconds(31)
    assert [f"hwperf: {seconds} s so far: rehearsal" for seconds in (14, 24, 34)] == [
        text.rstrip("\n") for text in screen.texts
    ]
