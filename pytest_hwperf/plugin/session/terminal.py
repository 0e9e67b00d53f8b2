"""What pytest's terminal shows of long work: pairs, measurements, conversions and fresh processes."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from time import monotonic

import pytest

from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.progress import ProgressLine, ticking
from pytest_hwperf.plugin.session.state import session_of

_EVERY_S = 1.0
_LEAST_LEFT_S = 1.0  # for less, no line is begun
SHORT_S = 2.0  # what is over sooner needs no line


@dataclass(slots=True, kw_only=True)
class DescribedScreen:
    """A terminal or log by a descriptor of its own, for a thread: whatever becomes of the streams of this process."""

    number: int
    encoding: str
    width: int  # in cells
    is_live: bool
    is_open: bool  # whether its row holds something, so that a line begins on the next one
    put: Callable[[int, bytes], int] = os.write

    def write(self, text: str) -> None:
        """Write in a row of its own; a terminal that is gone is no error."""
        begin, self.is_open = "\n" if self.is_open else "", False
        with suppress(OSError):
            self.put(self.number, f"{begin}{text}".encode(self.encoding, "replace"))

    def close(self) -> None:
        os.close(self.number)


class PytestScreen:
    """pytest's terminal; nothing with -qq, and in an xdist worker, which has none.

    It is seen from within a test too, where pytest captures what is written: capturing is interrupted for it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        found: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
        self._terminal = None if config.get_verbosity() < -1 else found

    @property
    def is_live(self) -> bool:
        return self._terminal is not None and bool(self._terminal.isatty)

    @property
    def width(self) -> int:
        return self._config.get_terminal_writer().fullwidth

    def write(self, text: str) -> None:
        """Write behind the line in which the test is named; a log shows it at once."""
        if self._terminal is not None:
            with self._uncaptured():
                self._terminal.ensure_newline()
                self._terminal.write(text, flush=True)

    def described(self) -> DescribedScreen | None:
        """Return the terminal by a descriptor of its own, which the caller closes; None where it has none."""
        if self._terminal is None:
            return None
        try:
            with self._uncaptured():
                number, encoding = os.dup(sys.stdout.fileno()), sys.stdout.encoding
        except (OSError, ValueError, AttributeError):  # of a stream that is no file
            return None
        is_open = bool(self._terminal.currentfspath)
        return DescribedScreen(
            number=number, encoding=encoding, width=self.width, is_live=self.is_live, is_open=is_open
        )

    def left(self) -> None:
        """Take note that a thread has written a line, so that what follows begins another one."""
        if self._terminal is not None:
            self._terminal.currentfspath = None

    def _uncaptured(self) -> AbstractContextManager[None]:
        capturing = self._config.pluginmanager.getplugin("capturemanager")
        found: AbstractContextManager[None] = capturing.global_and_fixture_disabled() if capturing else nullcontext()
        return found


def line_of(config: pytest.Config) -> ProgressLine:
    return ProgressLine(PytestScreen(config))


@contextmanager
def gate_line(config: pytest.Config) -> Iterator[ProgressLine]:
    """Give the line of a gate; something is written at least every ten seconds, whatever is waited for."""
    screen = PytestScreen(config)
    with ProgressLine(screen) as line, ExitStack() as stack:
        if described := screen.described():
            other = ProgressLine(stack.enter_context(closing(described)))
            stack.enter_context(ticking(lambda _: line.repeat(other), _EVERY_S, _EVERY_S))
        yield line


def show_pairs(line: ProgressLine, progress: Progress) -> None:
    if line.screen.is_live or progress.stage != "checkout":
        line.show(progress_text(progress), about=(progress.stage, progress.pair))


class Countdown:
    """Shows between the calls of one measurement how long it will take at most."""

    def __init__(self, line: ProgressLine | None, node: str, clock: Callable[[], float] = monotonic) -> None:
        """Count from now for the test `node`; without a line nothing is shown, and no clock is read."""
        self._line, self._node, self._clock = line, node, clock
        self._next_s = clock() + SHORT_S if line else 0.0
        self._least_s = _LEAST_LEFT_S

    def tell(self, what: str, left_s: float) -> None:
        """Show that `what` takes up to `left_s` seconds more: once a second at most, and only of what is long."""
        if self._line is not None and self._clock() >= self._next_s and left_s >= self._least_s:
            self._write(f"{what}, up to {_whole(left_s)} s left")
            self._next_s = self._clock() + _EVERY_S

    def announce(self, what: str, seconds: float) -> None:
        """Show before something that cannot be interrupted how long it takes, unless it is short."""
        if seconds > SHORT_S:
            self._write(f"{what}, about {_whole(seconds)} s")

    def close(self) -> None:
        if self._line is not None:
            self._line.clear()

    def _write(self, text: str) -> None:
        if self._line is not None:
            self._line.rewrite(f"hwperf: {text}, {self._node}")
            self._least_s = 0.0  # what is shown goes on


def countdown_of(item: pytest.Item) -> Countdown:
    """Return what shows the time left of a measurement of `item`; it shows nothing where there is no terminal."""
    screen = _live_screen(item.config)
    return Countdown(ProgressLine(screen) if screen else None, item.nodeid)


@contextmanager
def time_told(item: pytest.Item, what: str) -> Iterator[None]:
    """Show how long the block has run, once that is long: how long a conversion takes is not known before.

    A thread writes, by a descriptor of its own: it exchanges no stream that the block may be writing to.
    """
    live = _live_screen(item.config)
    screen = live.described() if live else None
    if live is None or screen is None:
        yield
        return
    with closing(screen), ProgressLine(screen) as line:

        def tell(seconds: float) -> None:
            line.rewrite(f"hwperf: {what}, {_whole(seconds)} s so far, {item.nodeid}")

        try:
            with ticking(tell, SHORT_S, _EVERY_S):
                yield
        finally:
            if not screen.is_open:
                live.left()


def _live_screen(config: pytest.Config) -> PytestScreen | None:
    """Return a terminal; None without one, with -qq, and in processes that do work for others."""
    screen = PytestScreen(config)
    return screen if screen.is_live and session_of(config).judges else None


def _whole(seconds: float) -> int:
    return max(1, round(seconds))


_BESIDE: Mapping[str, str] = {  # stages that are no pairs
    "explain": "what moved,",
    "operators": "operators,",
    "failures": "calls that failed on one side, pair",
    "processes": "comparison of fresh processes",
}


def progress_text(progress: Progress) -> str:
    """Return the line: stage, pair, what is decided, time left until the next decision, and the test."""
    if progress.stage == "rehearsal":
        return f"hwperf: rehearsal of both sides {progress.test}".rstrip()
    if progress.stage == "checkout":
        return "hwperf: checkout of the baseline"
    what = _BESIDE.get(progress.stage, f"{progress.stage} pair")
    numbers = f"{progress.pair}–{progress.pair + progress.beside}" if progress.beside else f"{progress.pair}"
    parts = [f"hwperf: {what}{'s' if progress.beside else ''} {numbers} of {progress.of}"]
    if progress.stage == "confirm":
        parts.append(f"{progress.decided} of {progress.tests} tests decided")
    if progress.left_s is not None:
        parts.append(f"about {max(1, round(progress.left_s))} s left")
    return ", ".join([*parts, progress.test] if progress.test else parts)
