"""The line in pytest's terminal that shows how far the pairs are."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Protocol, Self

import pytest

from pytest_hwperf.gate.conductor import Progress
from pytest_hwperf.gate.progress import fit, progress_text
from pytest_hwperf.host.ticker import beside
from pytest_hwperf.host.worker_protocol import Role
from pytest_hwperf.plugin.session import session_of
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import show

_EVERY_S = 1.0
_LEAST_LEFT_S = 1.0  # for less, no line is begun


class TerminalLine(Protocol):
    """A line of a terminal that is written over."""

    def rewrite(self, text: str) -> None:
        """Write over it."""

    def clear(self) -> None:
        """Remove it."""


class Over(Protocol):
    """Says when something is over."""

    def wait(self, timeout: float) -> bool:
        """Wait for the end, at most so many seconds; return whether it has come."""


class Countdown:
    """Shows between the calls of one measurement how long it will take at most."""

    def __init__(self, line: TerminalLine | None, node: str, clock: Callable[[], float] = monotonic) -> None:
        """Count from now for the test `node`; without a line nothing is shown, and no clock is read."""
        self._line, self._node, self._clock = line, node, clock
        self._next_s = clock() + _SHORT_S if line else 0.0
        self._shown = False

    def tell(self, what: str, left_s: float) -> None:
        """Show that `what` takes up to `left_s` seconds more: once a second at most, and only of what is long."""
        if self._line is None or self._clock() < self._next_s or not (self._shown or left_s >= _LEAST_LEFT_S):
            return
        self._write(f"{what}, up to {_whole(left_s)} s left")
        self._next_s = self._clock() + _EVERY_S

    def announce(self, what: str, seconds: float) -> None:
        """Show before something that cannot be interrupted how long it takes, unless it is short."""
        if seconds > _SHORT_S:
            self._write(f"{what}, about {_whole(seconds)} s")

    def close(self) -> None:
        if self._line is not None and self._shown:
            self._line.clear()
            self._shown = False

    def _write(self, text: str) -> None:
        if self._line is not None:
            self._line.rewrite(f"hwperf: {text}, {self._node}")
            self._shown = True


def countdown_of(item: pytest.Item) -> Countdown:
    """Return what shows the time left of a measurement of `item`; it shows nothing where there is no terminal."""
    return Countdown(_live_line(item.config), item.nodeid)


@contextmanager
def time_told(item: pytest.Item, what: str) -> Iterator[None]:
    """Show how long the block has run, once that is long: how long a conversion takes is not known before.

    A thread writes, by a descriptor of its own: it exchanges no stream that the block may be writing to.
    """
    live = _live_line(item.config)
    descriptor = live.descriptor() if live else None
    if live is None or descriptor is None:
        yield
        return
    with closing(DescribedLine(descriptor)) as line:
        try:
            with beside(partial(tell_until, line=line, what=f"hwperf: {what}", whose=f", {item.nodeid}")):
                yield
        finally:
            if line.is_begun:
                live.left()


def tell_until(over: Over, line: TerminalLine, what: str, whose: str, clock: Callable[[], float] = monotonic) -> None:
    """Show each second how long something has run, from the second one on, until it is over."""
    began = clock()
    if over.wait(_SHORT_S):
        return
    line.rewrite(f"{what}, {_whole(clock() - began)} s so far{whose}")
    while not over.wait(_EVERY_S):
        line.rewrite(f"{what}, {_whole(clock() - began)} s so far{whose}")
    line.clear()


class DescribedLine:
    """A line that is written over by a descriptor of its own, whatever becomes of the streams of this process."""

    def __init__(self, terminal: "TerminalFile", write: Callable[[int, bytes], int] = os.write) -> None:
        """Write to `terminal`, as `os.write` does."""
        self._terminal, self._put = terminal, write
        self.is_begun = False

    def rewrite(self, text: str) -> None:
        """Write over the line; a terminal that is gone is no error."""
        from pytest_hwperf.gate.progress import fit  # which no session without a terminal needs

        begin = "\n" if self._terminal.is_open and not self.is_begun else "\r"
        self.is_begun = True
        width = self._terminal.width
        self._write(f"{begin}{fit(visible(text), width).ljust(width - 1)}")

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._write(f"{visible(text)}\n")

    def clear(self) -> None:
        """Remove the line, and go back to its first column."""
        self._write(f"\r{' ' * (self._terminal.width - 1)}\r")

    def close(self) -> None:
        os.close(self._terminal.number)

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._put(self._terminal.number, text.encode(self._terminal.encoding, "replace"))


def _live_line(config: pytest.Config) -> "ProgressLine | None":
    """Return the line of a terminal; None without one, with -qq, and in processes that do work for others."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is None or not terminal.isatty or not session_of(config).mode.judges:
        return None
    line = ProgressLine(config)
    return line if line.is_live else None


def _whole(seconds: float) -> int:
    return max(1, round(seconds))


_MEASURED: Mapping[Role, str] = {  # by processes in each role
    "cold": "cold start",
    "memory": "peak RSS in fresh process",
    "run": "measurement in fresh process",
}
_LONG_S = 10.0  # without a word a test that takes longer looks as if it hung
_SHORT_S = 2.0  # what is over sooner needs no line


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalFile:
    """A terminal by a descriptor of its own, which whoever gets it closes."""

    number: int
    encoding: str
    width: int  # in cells
    is_open: bool  # whether its row holds something, so that a line begins on the next one


class ProgressLine:
    """One line that is written over, or without a terminal a line for each pair; nothing with -qq.

    It is shown from within a test too, where pytest captures what is written: capturing is interrupted for it.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Write into the terminal of `config`; an xdist worker has none."""
        self._config = config
        self._terminal: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
        if config.get_verbosity() < -1:
            self._terminal = None
        self._last: tuple[str, int] = ("", 0)
        self._said = ("", monotonic(), monotonic())  # the last text, since when it has stood, and when it was written

    def __enter__(self) -> Self:
        """Show nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line, however the block has ended."""
        self.clear()

    def show(self, progress: Progress) -> None:
        """Show `progress`; without a terminal only when another pair has begun."""
        if self._terminal is None or (progress.stage == "checkout" and not self._terminal.isatty):
            return
        text = visible(progress_text(progress))
        self._said = (text, monotonic(), monotonic())
        with self._uncaptured():
            if self._last == ("", 0):
                self._terminal.ensure_newline()  # of the line in which the test is named
            if self._terminal.isatty:
                self._terminal.rewrite(fit(text, self._config.get_terminal_writer().fullwidth), erase=True)
            elif self._last != (progress.stage, progress.pair):
                self._terminal.write_line(text)
                self._terminal.flush()  # a log that is no terminal would show it much later
        self._last = (progress.stage, progress.pair)

    def rewrite(self, text: str) -> None:
        """Write over the line; nothing without a terminal."""
        if self._terminal is not None and self._terminal.isatty:
            with self._uncaptured():
                if self._last == ("", 0):
                    self._terminal.ensure_newline()
                self._terminal.rewrite(fit(visible(text), self._config.get_terminal_writer().fullwidth), erase=True)
            self._last = (text, 1)

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Write something at least every ten seconds, whatever the block waits for."""
        described = self.descriptor()
        if described is None:
            yield
            return
        line = DescribedLine(described)
        write = line.rewrite if self.is_live else line.say
        with closing(line), beside(partial(self.beat_until, write=write)):
            yield

    def beat_until(self, over: Over, write: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        """Write the last text again where nothing else has been written for ten seconds, with how long it has stood."""
        while not over.wait(1.0):
            text, since, written = self._said
            if text and clock() - written >= _LONG_S:
                self._said = (text, since, clock())
                write(f"hwperf: {clock() - since:.0f} s so far: {text.removeprefix('hwperf: ')}")

    def descriptor(self) -> "TerminalFile | None":
        """Return the terminal as a descriptor of its own, for a thread; None where there is no such thing."""
        if self._terminal is None:
            return None
        try:
            with self._uncaptured():
                number, encoding = os.dup(sys.stdout.fileno()), sys.stdout.encoding
        except (OSError, ValueError, AttributeError):  # of a stream that is no file
            return None
        width = self._config.get_terminal_writer().fullwidth
        return TerminalFile(number=number, encoding=encoding, width=width, is_open=bool(self._terminal.currentfspath))

    def left(self) -> None:
        """Take note that a thread has written a line, so that what follows begins another one."""
        if self._terminal is not None:
            self._terminal.currentfspath = None

    @property
    def is_live(self) -> bool:
        """Whether it is written over."""
        return self._terminal is not None and bool(self._terminal.isatty)

    def say(self, text: str) -> None:
        """Write one line that stays."""
        self.clear()
        self._said = (self._said[0], self._said[1], monotonic())
        if self._terminal is not None:
            with self._uncaptured():
                self._terminal.ensure_newline()
                self._terminal.write_line(visible(text))
                self._terminal.flush()

    def clear(self) -> None:
        """Remove the line; what stands without a terminal stays."""
        if self._terminal is not None and self._terminal.isatty and self._last != ("", 0):
            with self._uncaptured():
                self._terminal.rewrite("", erase=True)
                self._terminal.rewrite("")  # back to the first column

    def _uncaptured(self) -> AbstractContextManager[None]:
        capturing = self._config.pluginmanager.getplugin("capturemanager")
        found: AbstractContextManager[None] = capturing.global_and_fixture_disabled() if capturing else nullcontext()
        return found


class Waiting:
    """What is shown while fresh processes of one test are waited for."""

    def __init__(self, line: ProgressLine, node: str, role: Role, total: int) -> None:
        """Wait for `total` processes that measure in `role`."""
        self._line, self._node, self._role, self._total = line, node, role, total
        self._shown = False

    def answered(self, answers: int, seconds: float) -> None:
        """Show how many have answered and what is left: in the line, or without a terminal where it takes long."""
        shortest_s = _SHORT_S if self._line.is_live else _LONG_S
        text = processes_left(self._node, self._role, self._total, answers, seconds, shortest_s=shortest_s)
        if text and self._line.is_live:
            self._line.rewrite(text)
            self._shown = True
        elif text:
            self._line.say(text)

    def close(self) -> None:
        if self._shown:
            self._line.clear()


def processes_left(
    node: str, role: Role, total: int, answers: int, seconds: float, *, shortest_s: float = _LONG_S
) -> str:
    """Return what is said while fresh processes are waited for; "" where those that are left are quick."""
    left_s = (total - answers) * seconds
    if left_s < shortest_s:
        return ""
    measured = _MEASURED[role]
    return f"hwperf: {measured} {answers} of {total} took {show(seconds, 's')}, up to {show(left_s, 's')} left, {node}"
