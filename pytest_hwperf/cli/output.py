"""What the commands write: foreign text made visible, in any encoding, and an end where nobody reads on."""

import argparse
import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from io import TextIOWrapper

from pytest_hwperf.host.progress import ProgressLine
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.text import visible, visible_lines
from pytest_hwperf.reports.document import Block, as_text

USAGE = 4  # pytest's own exit code; 0 and 1 are as in pytest too


class OutputClosed(Exception):  # noqa: N818 - the reader has seen enough, which is no error
    """Nobody reads the answer any more, as after `| head`."""


def say(line: str) -> None:
    """Write one line of the answer."""
    say_lines(visible(line))


def say_lines(text: str) -> None:
    """Write lines of the answer; foreign text in them is visible already."""
    try:
        print(visible_lines(text), flush=True)
    except OSError as error:
        with suppress(OSError):  # Python flushes what is left once more at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from error
        raise UsageProblem(f"the standard output cannot be written ({error.strerror})") from error


def show_document(document: Iterable[Block], widest: int | None = None) -> None:
    """Write an answer in the width of the terminal, and where it is to be read easily no wider than `widest`."""
    for line in as_text(document, min(width(), widest or width())):
        say_lines(line)


def width() -> int:
    """Return the columns to write for: those of the terminal or of COLUMNS, and 100 where there is neither."""
    return shutil.get_terminal_size((100, 24)).columns


def complain(text: str) -> None:
    """Write an error, and where there is more to see, a log below it."""
    print(visible_lines(f"hwperf: {text}"), file=sys.stderr)


def show_help_alone(parser: argparse.ArgumentParser) -> None:
    """Let a parser show its help where no command follows; that is no answer, so that the exit code says so."""

    def run(_: argparse.Namespace) -> int:
        parser.print_help()
        return USAGE

    parser.set_defaults(run=run)


def tolerate_any_encoding() -> None:
    """Let an output without `×` or `µ`, as in the locale C, get escapes instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _StandardError:
    """Where commands show how far they are."""

    @property
    def is_live(self) -> bool:
        return sys.stderr.isatty()

    @property
    def width(self) -> int:
        return shutil.get_terminal_size().columns

    def write(self, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)


def progress_line() -> ProgressLine:
    """Return a line of standard error."""
    return ProgressLine(_StandardError())


def clear_progress() -> None:
    """Remove the line, whoever has written it; what stands without a terminal stays."""
    progress_line().rewrite("")
