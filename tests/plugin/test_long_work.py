"""What is shown of long work: when, how often, on which terminals, and never while a call is timed."""

import pytest
from fakes.clocks import HandClock
from fakes.streams import FakeClock, TimedCall, never

from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.plugin.progress import Countdown, DescribedLine, TerminalFile, tell_until

NODE = "test_a.py::test_it"


class FakeLine:
    """Keeps what is written, "" where it is removed; writing takes 50 ms of the clock, if there is one."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.texts = list[str]()
        self.began_ns = list[int]()
        self._clock = clock

    def rewrite(self, text: str) -> None:
        self.texts.append(text)
        if self._clock:
            self.began_ns.append(self._clock())
            self._clock.now_ns += 50_000_000

    def clear(self) -> None:
        self.texts.append("")


class FakeEnd:
    """Comes after so many seconds of waiting."""

    def __init__(self, clock: HandClock, after_s: float) -> None:
        self._clock, self._at_s = clock, clock() + after_s

    def wait(self, timeout: float) -> bool:
        self._clock.now_s = min(self._clock() + timeout, max(self._at_s, self._clock()))
        return self._clock() >= self._at_s


def test_a_line_is_begun_after_two_seconds_and_written_once_a_second() -> None:
    clock, line = HandClock(), FakeLine()
    countdown = Countdown(line, NODE, clock)
    for _ in range(50):
        countdown.tell("sampling", 1000 + 10 - clock())
        clock.pass_time(0.1)
    countdown.close()
    assert [f"hwperf: sampling, up to {left} s left, {NODE}" for left in (8, 7, 6)] == line.texts[:-1]
    assert line.texts[-1] == ""


@pytest.mark.parametrize(("after_s", "left_s"), [(1.9, 60.0), (5.0, 0.9)])
def test_what_is_over_soon_begins_no_line(after_s: float, left_s: float) -> None:
    clock, line = HandClock(), FakeLine()
    countdown = Countdown(line, NODE, clock)
    clock.pass_time(after_s)
    countdown.tell("sampling", left_s)
    countdown.close()
    assert [] == line.texts


def test_a_load_is_announced_before_it_begins_if_it_is_long() -> None:
    line = FakeLine()
    countdown = Countdown(line, NODE, HandClock())
    countdown.announce("load server", 2.0)
    countdown.announce("load server", 30.0)
    assert [f"hwperf: load server, about 30 s, {NODE}"] == line.texts


def test_without_a_line_no_clock_is_read() -> None:
    def broken() -> float:
        raise AssertionError

    countdown = Countdown(None, NODE, broken)
    countdown.tell("sampling", 60.0)
    countdown.announce("load server", 60.0)
    countdown.close()


def test_nothing_is_written_while_calls_are_timed() -> None:
    """Writing takes 50 ms here, and neither a call nor a window holds any of it."""
    clock = FakeClock()
    line = FakeLine(clock)
    countdown = Countdown(line, NODE, lambda: clock() / 1e9)
    call = TimedCall(clock, 1_000_000)
    measured = Sampler(Stream(call, None), SamplingLimits(max_time_s=10.0), clock, countdown.tell).measure([], never)
    assert 7 <= len(line.texts) <= 9
    assert {0.001} == set(measured.latency_s)
    assert [window.calls / 1000 for window in measured.windows] == pytest.approx(
        [window.wall_s for window in measured.windows]
    )
    assert all(later - earlier >= 1e9 for earlier, later in zip(line.began_ns, line.began_ns[1:], strict=False))


def test_what_is_left_of_slow_calls_is_at_least_one_window() -> None:
    """A call of 30 s is sampled once, whatever the longest sampling."""
    clock, told = FakeClock(), list[tuple[str, float]]()
    stream = Stream(TimedCall(clock, 30_000_000_000), None)
    Sampler(stream, SamplingLimits(), clock, lambda what, left_s: told.append((what, left_s))).measure([], never)
    assert [("sampling", 30.0)] == told


@pytest.mark.parametrize(("after_s", "seconds"), [(1.5, []), (2.5, [2]), (4.5, [2, 3, 4])])
def test_a_conversion_shows_its_time_so_far_from_two_seconds_on(after_s: float, seconds: list[int]) -> None:
    clock, line = HandClock(), FakeLine()
    tell_until(FakeEnd(clock, after_s), line, "hwperf: onnx_int8: converting the model", f", {NODE}", clock)

    shown = [f"hwperf: onnx_int8: converting the model, {so_far} s so far, {NODE}" for so_far in seconds]
    assert [*shown, *[""] * bool(shown)] == line.texts


@pytest.mark.parametrize("is_open", [True, False])
def test_a_line_written_by_a_descriptor_is_cut_and_begins_a_row_of_its_own(*, is_open: bool) -> None:
    written = list[str]()

    def write(_: int, data: bytes) -> int:
        written.append(data.decode())
        return len(data)

    terminal = TerminalFile(number=-1, encoding="utf-8", width=20, is_open=is_open)
    line = DescribedLine(terminal, write)
    line.rewrite("hwperf: a\x1b[2J")
    line.rewrite("x" * 50)
    line.clear()
    assert [*("\n" if is_open else "\r"), "\r", "\r"] == [text[0] for text in written]
    assert [r"hwperf: a\x1b[2J".ljust(19), f"{'x' * 17}…".ljust(19), " " * 19 + "\r"] == [text[1:] for text in written]


def test_a_terminal_that_is_gone_is_no_error() -> None:
    DescribedLine(TerminalFile(number=-1, encoding="utf-8", width=20, is_open=False)).rewrite("text")


TERMINAL = """
def pytest_sessionstart(session):
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    terminal.isatty = type(terminal.isatty)(IS_LIVE)
"""
CONVERTING = """
import sys, time
from pytest_hwperf.plugin import progress

def test_it(hwperf, request, monkeypatch):
    monkeypatch.setattr(progress, "_SHORT_S", 0.0)
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
from pytest_hwperf.plugin import progress

def test_it(hwperf, request):
    print("is live:", progress._live_line(request.config) is not None)
"""


@pytest.mark.parametrize(
    ("is_live", "option", "shown"),
    [(True, "-v", True), (True, "-qq", False), (False, "-v", False), (True, "--hwperf-disable", False)],
)
def test_only_a_terminal_that_is_read_has_a_line(
    pytester: pytest.Pytester, option: str, *, is_live: bool, shown: bool
) -> None:
    pytester.makeconftest(TERMINAL.replace("IS_LIVE", str(is_live)))
    pytester.makepyfile(ASKING)

    pytester.runpytest_inprocess(option, "-s").stdout.fnmatch_lines([f"*is live: {shown}*"])


def test_a_stream_without_a_descriptor_shows_nothing(pytester: pytest.Pytester) -> None:
    """Such as that of a pytest within a pytest."""
    pytester.makeconftest(TERMINAL.replace("IS_LIVE", "True"))
    pytester.makepyfile(CONVERTING)
    result = pytester.runpytest_inprocess()

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*so far*")


MEASURED = """
import pytest
from pytest_hwperf.plugin import progress

class Line:
    def __init__(self):
        self.texts = []
    def rewrite(self, text):
        self.texts.append(text.partition(",")[0])
    def clear(self):
        self.texts.append("")
    def descriptor(self):
        return None

@pytest.fixture
def line(monkeypatch):
    line = Line()
    monkeypatch.setattr(progress, "_live_line", lambda config: line)
    for name in ("_SHORT_S", "_EVERY_S", "_LEAST_LEFT_S"):
        monkeypatch.setattr(progress, name, 0.0)
    return line

def test_calls(hwperf, line):
    hwperf(int)
    assert ["hwperf: warm-up", "hwperf: sampling", ""] == list(dict.fromkeys(line.texts))

@pytest.mark.hwload(kind="single_stream", seconds=0.1)
def test_load(hwperf, line):
    hwperf(int)
    assert ["hwperf: load single_stream", ""] == line.texts[-2:]
"""


def test_measurements_show_their_stages(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MEASURED)

    pytester.runpytest_inprocess("--hwperf-sample-time=0.3").assert_outcomes(passed=2)
