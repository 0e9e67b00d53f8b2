"""What is shown of long work: when, how often, on which terminals, and never while a call is timed."""

from itertools import pairwise

import pytest
from fakes.clocks import HandClock
from fakes.screens import FakeScreen
from fakes.streams import FakeClock, TimedCall, never

from pytest_hwperf.host.progress import ProgressLine
from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.plugin.session.terminal import Countdown, DescribedScreen

NODE = "test_a.py::test_it"


def test_a_line_is_begun_after_two_seconds_and_written_once_a_second() -> None:
    clock, screen = HandClock(), FakeScreen()
    countdown = Countdown(ProgressLine(screen), NODE, clock)
    for _ in range(50):
        countdown.tell("sampling", 1000 + 10 - clock())
        clock.pass_time(0.1)
    countdown.close()
    assert [f"hwperf: sampling, up to {left} s left, {NODE}" for left in (8, 7, 6)] == screen.texts[:-1]
    assert screen.texts[-1] == ""


def test_what_is_over_soon_begins_no_line() -> None:
    for after_s, left_s in ((1.9, 60.0), (5.0, 0.9)):
        clock, screen = HandClock(), FakeScreen()
        countdown = Countdown(ProgressLine(screen), NODE, clock)
        clock.pass_time(after_s)
        countdown.tell("sampling", left_s)
        countdown.close()
        assert [] == screen.texts


def test_a_load_is_announced_before_it_begins_if_it_is_long() -> None:
    screen = FakeScreen()
    countdown = Countdown(ProgressLine(screen), NODE, HandClock())
    countdown.announce("load server", 2.0)
    countdown.announce("load server", 30.0)
    assert [f"hwperf: load server, about 30 s, {NODE}"] == screen.texts


def test_without_a_line_no_clock_is_read() -> None:
    def broken() -> float:
        raise AssertionError

    countdown = Countdown(None, NODE, broken)
    countdown.tell("sampling", 60.0)
    countdown.announce("load server", 60.0)
    countdown.close()


def test_nothing_is_written_while_calls_are_timed() -> None:
    """Writing takes 50 ms here, and neither a call nor a window holds any of it."""
    clock, began_ns = FakeClock(), list[int]()

    def write() -> None:
        began_ns.append(clock())
        clock.now_ns += 50_000_000

    countdown = Countdown(ProgressLine(FakeScreen(told=write)), NODE, lambda: clock() / 1e9)
    call = TimedCall(clock, 1_000_000)
    measured = Sampler(Stream(call, None), SamplingLimits(max_time_s=10.0), clock, countdown.tell).measure([], never)
    assert 7 <= len(began_ns) <= 9
    assert {0.001} == set(measured.latency_s)
    assert [window.calls / 1000 for window in measured.windows] == pytest.approx(
        [window.wall_s for window in measured.windows]
    )
    assert all(later - earlier >= 1e9 for earlier, later in pairwise(began_ns))


def test_what_is_left_of_slow_calls_is_at_least_one_window() -> None:
    """A call of 30 s is sampled once, whatever the longest sampling."""
    clock, told = FakeClock(), list[tuple[str, float]]()
    stream = Stream(TimedCall(clock, 30_000_000_000), None)
    Sampler(stream, SamplingLimits(), clock, lambda what, left_s: told.append((what, left_s))).measure([], never)
    assert [("sampling", 30.0)] == told


def test_a_line_written_by_a_descriptor_is_cut_and_begins_a_row_of_its_own() -> None:
    """Where its row holds something already, on the next one."""
    written = list[str]()

    def write(_: int, data: bytes) -> int:
        written.append(data.decode())
        return len(data)

    for is_open in (True, False):
        screen = DescribedScreen(number=-1, encoding="utf-8", width=20, is_live=True, is_open=is_open, put=write)
        with ProgressLine(screen) as line:
            line.rewrite("hwperf: a\x1b[2J")
            line.rewrite("x" * 50)
    blank = f"\r{' ' * 19}\r"
    lines = [f"{blank}hwperf: a\\x1b[2J", f"{blank}{'x' * 17}…", blank]
    assert [f"\n{lines[0]}", *lines[1:], *lines] == written


def test_a_terminal_that_is_gone_is_no_error() -> None:
    DescribedScreen(number=-1, encoding="utf-8", width=20, is_live=True, is_open=False).write("text")


TERMINAL = """
def pytest_sessionstart(session):
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    terminal.isatty = type(terminal.isatty)(IS_LIVE)
"""
CONVERTING = """
import sys, time
from pytest_hwperf.plugin.session import terminal as progress

def test_it(hwperf, request, monkeypatch):
    monkeypatch.setattr(progress, "SHORT_S", 0.0)
    before = sys.stdout
    with progress.time_told(request.node, "onnx_fp32: converting the model"):
        print("of the test")
        time.sleep(0.05)
    assert sys.stdout is before
    hwperf(int)
"""


@pytest.mark.live
def test_a_conversion_is_shown_past_the_capture(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(TERMINAL.replace("IS_LIVE", "True"))
    pytester.makepyfile(CONVERTING)
    result = pytester.runpytest_subprocess("-v")

    result.assert_outcomes(passed=1)
    told = [line for line in result.outlines if line.startswith("hwperf: onnx_fp32: converting the model, 1 s so far")]
    assert 1 == len(told)
    assert "of the test" not in result.outlines


ASKING = """
from pytest_hwperf.plugin.session import terminal as progress

def test_it(hwperf, request):
    print("is live:", progress._live_screen(request.config) is not None)
"""


def test_only_a_terminal_that_is_read_has_a_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASKING)
    for is_live, option, shown in ((1, "-v", 1), (1, "-qq", 0), (0, "-v", 0), (1, "--hwperf-disable", 0)):
        pytester.makeconftest(TERMINAL.replace("IS_LIVE", str(bool(is_live))))
        result = pytester.runpytest_inprocess(option, "-s", "--hwperf-energy=off")
        result.stdout.fnmatch_lines([f"*is live: {bool(shown)}*"])


def test_a_stream_without_a_descriptor_shows_nothing(pytester: pytest.Pytester) -> None:
    """Such as that of a pytest within a pytest."""
    pytester.makeconftest(TERMINAL.replace("IS_LIVE", "True"))
    pytester.makepyfile(CONVERTING)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*so far*")


MEASURED = """
import pytest
from pytest_hwperf.plugin.session import terminal as progress

class Screen:
    is_live, width = True, 200
    def __init__(self):
        self.texts = []
    def write(self, text):
        self.texts.append(text.rpartition("\\r")[2].partition(",")[0])
    def described(self):
        return None

@pytest.fixture
def screen(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(progress, "_live_screen", lambda config: screen)
    for name in ("SHORT_S", "_EVERY_S", "_LEAST_LEFT_S"):
        monkeypatch.setattr(progress, name, 0.0)
    return screen

def test_calls(hwperf, screen):
    hwperf(int)
    assert ["hwperf: warm-up", "hwperf: sampling", ""] == list(dict.fromkeys(screen.texts))

@pytest.mark.hwload(kind="single_stream", seconds=0.1)
def test_load(hwperf, screen):
    hwperf(int)
    assert ["hwperf: load single_stream", ""] == screen.texts[-2:]
"""


def test_measurements_show_their_stages(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MEASURED)
    pytester.runpytest_inprocess("--hwperf-sample-time=0.3").assert_outcomes(passed=2)
