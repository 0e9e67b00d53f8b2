"""One line that shows how far something is, and a thread that writes it while something else runs."""

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol, Self, TextIO

from pytest_hwperf.records.text import visible

_EVERY_S = 0.2  # often enough for an eye, and too seldom to disturb what runs
LONG_S = 10.0  # without a word what takes longer looks as if it hung
_UP = "\033[A"  # to the row above


class Screen(Protocol):
    """Where a line is written, from the first column on: a terminal, a log, or nowhere."""

    @property
    def is_live(self) -> bool: ...  # whether it is a terminal, whose last line can be written over

    @property
    def width(self) -> int: ...  # cells of the terminal

    def write(self, text: str) -> None: ...


def shows_colours(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal that reads escape codes; consoles of Windows may show them as text."""
    return stream is not None and stream.isatty() and sys.platform != "win32"


class StandardError:
    """The screen of commands."""

    @property
    def is_live(self) -> bool:
        return sys.stderr.isatty()

    @property
    def width(self) -> int:
        return shutil.get_terminal_size().columns

    def write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


class ProgressLine:
    """One line or several, written over; where there is no terminal, a line for each new text. Removed on exit."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = monotonic) -> None:
        self.screen, self._clock = screen, clock
        self._rows = 0  # that are shown
        self._about: object = None
        self._said = ("", 0.0, 0.0)  # the last text, since when it has stood, and when something was written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str, left: str = "", *, about: object = None) -> None:
        """Write over the line `text` and, on a terminal only, what is `left`.

        Without a terminal write a line where `text` is new, or what it is `about` if that is given.
        """
        about = about or text
        if self.screen.is_live:
            self.rewrite(f"{text}{left}")
        elif about != self._about:
            self.say(text)
        self._about, self._said = about, (text, self._clock(), self._clock())

    def rewrite(self, *texts: str) -> None:
        """Write over the line, or over all of them; nothing without a terminal."""
        if self.screen.is_live:
            width = self.screen.width
            blank = f"\r{' ' * (width - 1)}\r"
            rows = "\n".join(fit(visible(text), width) for text in texts)
            self.screen.write(f"{blank}{(_UP + blank) * (self._rows - 1)}{rows}")
            self._rows = len(texts)

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        self.screen.write(f"{visible(text)}\n")
        self._said = (*self._said[:2], self._clock())

    def clear(self) -> None:
        """Remove the line; what stands without a terminal stays."""
        if self._rows:
            self.rewrite("")
            self._rows = 0

    @contextmanager
    def timed(self, text: str) -> Iterator[None]:
        """Show a text, and on a terminal the seconds for which the block has run."""
        self.show(text)
        with ticking(lambda seconds: self.show(text, f", {seconds:.0f} s")):
            yield

    def repeat(self, other: "ProgressLine") -> None:
        """Write the last text again on another line where ten seconds are silent, with how long it has stood."""
        (text, since, written), now = self._said, self._clock()
        if text and now - written >= LONG_S:
            self._said = (text, since, now)
            other.show(f"hwperf: {now - since:.0f} s so far: {text.removeprefix('hwperf: ')}")


@contextmanager
def ticking(tell: Callable[[float], None], first_s: float = _EVERY_S, every_s: float = _EVERY_S) -> Iterator[None]:
    """Call `tell` in a thread with the seconds so far, after `first_s` and then each `every_s`.

    The thread has ended when the block is left, so that nothing of it falls into what is timed then.
    """
    over = threading.Event()
    given = (over, tell, first_s, every_s)
    thread = threading.Thread(target=tick_until, args=given, daemon=True, name="hwperf-progress")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def tick_until(
    over: threading.Event,
    tell: Callable[[float], None],
    first_s: float,
    every_s: float,
    clock: Callable[[], float] = monotonic,
) -> None:
    """Do so until it is over."""
    began, wait_s = clock(), first_s
    while not over.wait(wait_s):
        tell(clock() - began)
        wait_s = every_s


def fit(text: str, width: int) -> str:
    """Cut `text` to a terminal of `width` cells, with one left free: a line that wraps cannot be written over.

    A letter outside of ASCII counts as two cells, which it takes at most.
    """
    kept = text
    while kept and sum(1 if letter.isascii() else 2 for letter in kept) > width - (1 if kept == text else 3):
        kept = kept[:-1]
    return kept if kept == text else f"{kept}…"
