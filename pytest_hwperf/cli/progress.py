"""A line on the terminal that shows the progress of a command; nothing where standard error is no terminal."""

import sys

from pytest_hwperf.core.foreign_text import visible

_CLEAR = "\r\033[K"  # begin the line anew


def show_progress(text: str) -> None:
    """Replace the line by `text`."""
    if sys.stderr.isatty():
        print(f"{_CLEAR}{visible(text)}", end="", file=sys.stderr, flush=True)


def clear_progress() -> None:
    """Remove the line."""
    show_progress("")
