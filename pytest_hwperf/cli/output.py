"""What the commands write, to the terminal and to files: foreign text is made visible, in any encoding."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from pytest_hwperf.host.files import replace_file
from pytest_hwperf.host.progress import ProgressLine, StandardError, shows_colours
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible, visible_json, visible_lines
from pytest_hwperf.reports.document import PLAIN, Block, Style, styled

# Exit codes of commands. An unforeseen error never ends with one of the first three, which are answers.
OK, FAILED, INCONCLUSIVE = 0, 1, 3
USAGE = 4  # as in pytest
INTERRUPTED = 130  # Ctrl-C, as in shells
COLORS = ("auto", "always", "never")
COLOR = ContextVar("color", default="auto")  # one of them: the answer of --color
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}
_ERROR: Style = {"bold": True, "red": True}
_MOST = 10  # lines about what was left out


class OutputClosed(Exception):  # noqa: N818 - the reader has seen enough, which is no error
    """Nobody reads the answer any more, as after `| head`."""


def say(line: str, style: Style = PLAIN) -> None:
    """Write one line of the answer."""
    say_lines(visible(line), style)


def say_lines(text: str, style: Style = PLAIN) -> None:
    """Write lines of the answer; foreign text in them is visible already."""
    try:
        print(_painted(visible_lines(text), style, sys.stdout), flush=True)
    except OSError as error:
        with suppress(OSError):  # Python flushes what is left once more at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from error
        raise UsageProblem(f"the standard output cannot be written ({error.strerror})") from error


def show_document(document: Iterable[Block], widest: int | None = None) -> None:
    """Write an answer in the width of the terminal, and where it is to be read easily no wider than `widest`."""
    for line, style in styled(document, min(width(), widest or width())):
        say_lines(line, style)


def width() -> int:
    """Return the columns to write for: those of the terminal or of COLUMNS, and 100 where there is neither."""
    return shutil.get_terminal_size((100, 24)).columns


def complain(text: str) -> None:
    """Write an error, and where there is more to see, a log below it."""
    print(f"{_painted('hwperf:', _ERROR, sys.stderr)} {visible_lines(text)}", file=sys.stderr)


def asked_colour(words: Sequence[str]) -> str:
    """Return what `--color` says among the words of a command line, before anything else is read of it."""
    asked = [one.removeprefix("--color=") for one in words if one.startswith("--color=")]
    return asked[-1] if asked and asked[-1] in COLORS else "auto"


def _painted(text: str, style: Style, stream: TextIO) -> str:
    """Put the colours of a style around a text, where `--color` or the terminal wants them."""
    codes = ";".join(_CODES[name] for name in style)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text and _takes_color(stream) else text


def _takes_color(stream: TextIO) -> bool:
    if COLOR.get() != "auto":
        return COLOR.get() == "always"
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and shows_colours(stream)


def tolerate_any_encoding() -> None:
    """Let an output without `×` or `µ`, as in the locale C, get escapes instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def progress_line() -> ProgressLine:
    """Return a line of standard error."""
    return ProgressLine(StandardError())


def clear_progress() -> None:
    """Remove the line, whoever has written it; what stands without a terminal stays."""
    progress_line().rewrite("")


def write_file(file: str, content: bytes) -> None:
    """Write a file that was checked."""
    with explained_if_unwritable(file):
        replace_file(Path(file), content)


def write_record(file: str, record: Record) -> None:
    """Write a record as a line of JSON, in which no foreign text is obeyed by a terminal."""
    write_file(file, visible_json(to_json(record)) + b"\n")


def write_export(content: bytes, left_out: Sequence[str], files: Sequence[str]) -> None:
    """Write what another program reads to a file, or print it; name what its format cannot hold."""
    for file in files:
        write_file(file, content)
    if not files:
        say_lines(content.decode().removesuffix("\n"))
    for line in left_out[:_MOST]:
        complain(f"left out: {visible(line)}")
    if (more := len(left_out) - _MOST) > 0:
        complain(f"left out: {more} more")


@contextmanager
def explained_if_unwritable(what: object) -> Iterator[None]:
    """Turn the error of a file that cannot be written into one for the user."""
    try:
        yield
    except OSError as error:
        raise UsageProblem(f"{what} cannot be written ({error.strerror}): give another place") from error
