"""The line on standard error that shows the progress of a command."""

import shutil
import sys

from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.gate.progress import fit

_CLEAR = "\r\033[K"  # of the line


class ProgressLine:
    """One line that is written over; where standard error is no terminal, a line for each text."""

    def __init__(self) -> None:
        """Show nothing yet."""
        self._last = ""

    def show(self, text: str, left: str = "") -> None:
        """Replace the line by `text`, followed on a terminal by the time that is `left`."""
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns
            print(f"{_CLEAR}{fit(visible(text + left), width)}", end="", file=sys.stderr, flush=True)
        elif text != self._last:
            print(visible(text), file=sys.stderr, flush=True)
        self._last = text


def clear_progress() -> None:
    """Remove the line; what stands without a terminal stays."""
    if sys.stderr.isatty():
        print(_CLEAR, end="", file=sys.stderr, flush=True)
