"""What is shown of long work in this process: the time left of sampling, and how long a conversion takes so far.

Only on a terminal. Sampling is shown between its calls, by the thread that measures; no timed call runs meanwhile.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.host.ticker import beside
from pytest_hwperf.plugin.session import session_of

if TYPE_CHECKING:
    from pytest_hwperf.plugin.progress import Described, ProgressLine

_SHORT_S = 2.0  # what is over sooner needs no line
_EVERY_S = 1.0
_LEAST_LEFT_S = 1.0  # for less, no line is begun


class Line(Protocol):
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

    def __init__(self, line: Line | None, node: str, clock: Callable[[], float] = monotonic) -> None:
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
        """Remove the line."""
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


def tell_until(over: Over, line: Line, what: str, whose: str, clock: Callable[[], float] = monotonic) -> None:
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

    def __init__(self, terminal: "Described", write: Callable[[int, bytes], int] = os.write) -> None:
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
        """Close the descriptor."""
        os.close(self._terminal.number)

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._put(self._terminal.number, text.encode(self._terminal.encoding, "replace"))


def _live_line(config: pytest.Config) -> "ProgressLine | None":
    """Return the line of a terminal; None without one, with -qq, and in processes that do work for others."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is None or not terminal.isatty or not session_of(config).mode.judges:
        return None
    from pytest_hwperf.plugin.progress import ProgressLine

    line = ProgressLine(config)
    return line if line.is_live else None


def _whole(seconds: float) -> int:
    return max(1, round(seconds))
