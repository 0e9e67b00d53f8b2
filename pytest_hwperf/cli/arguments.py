"""Arguments that several commands take, and what is checked of them before anything is measured."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from pytest_hwperf import registry
from pytest_hwperf.cli.output import complain, say_lines
from pytest_hwperf.gate.targets import check_target
from pytest_hwperf.host.files import check_writable, is_file, replace_file, same_place
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.load import LONGEST_S
from pytest_hwperf.records.structs import Record
from pytest_hwperf.records.text import visible, visible_json
from pytest_hwperf.stores.location import locate
from pytest_hwperf.stores.store import Store

_WRITTEN = ("html", "json", "markdown", "output", "plot", "record")  # options whose file is replaced
_NOT_READ = (*_WRITTEN, "given")
_MOST = 10  # lines about what was left out
_SCHEME = re.compile(r"sql:sqlite:///|@|[a-z-]+:")  # in front of a file: a store, a body, a format

_SHARED: Mapping[str, Mapping[str, Any]] = {
    "--data": {"metavar": "FILE", "required": True, "help": ".npz with X and perhaps y, .npy, or .csv"},
    "--target": {"metavar": "COLUMN", "help": "column of a .csv that holds the labels"},
    "--batch-size": {"metavar": "ROWS", "type": int, "default": 1, "help": "rows per call; default: 1"},
    "--threads": {"metavar": "N", "type": int, "default": 1, "help": "of ONNX Runtime; default: 1"},
    "--alpha": {"metavar": "PERCENT", "default": "1%", "help": "false alarms of the whole; default: 1%%"},
    "--json": {"metavar": "FILE", "help": "write the report as JSON"},
}


def add_shared(command: argparse.ArgumentParser, *names: str, **others: Any) -> None:
    """Add arguments to a command; `others` replace what is usual of each."""
    for name in names:
        command.add_argument(name, **{**_SHARED[name], **others})


def check_model(model: str) -> None:
    """Refuse what names no model."""
    check_target(model, ("function", "ONNX file"))


def check_time(seconds: float, most: int, usual: str) -> None:
    """Refuse a time in which nothing can be measured, and one without end."""
    if not 0 < seconds <= most:
        raise UsageProblem(f"--time={seconds:g}: a number of seconds above 0 up to {most}, such as {usual}")


def check_timeout(seconds: float) -> None:
    """Refuse a time of a request that no answer can keep, and one without end."""
    if not 0 < seconds <= LONGEST_S:
        raise UsageProblem(f"--timeout={seconds:g}: a number of seconds above 0 up to {LONGEST_S:g}, such as 10")


def check_files(**files: str | list[str] | None) -> None:
    """Check that files can be written, each its own, before the time is spent."""
    given = {f"--{option}={file}": Path(file) for option, value in files.items() for file in _texts_in(value)}
    if twice := same_place(given):
        raise UsageProblem(f"{twice[0]} and {twice[1]} name one file: give each its own")
    for option, file in given.items():
        with explained_if_unwritable(option):
            check_writable(file)


def check_kept(options: argparse.Namespace) -> None:
    """Refuse to write where something is that the command reads, of which nothing would be left."""
    given = vars(options)
    written = [(name, file) for name in _WRITTEN for file in _texts_in(given.get(name))]
    texts = [text for name, value in given.items() if name not in _NOT_READ for text in _texts_in(value)]
    read = {form for text in texts for form in (text, text.partition("::")[0], _SCHEME.sub("", text))}
    for (name, file), other in product(written, read):
        if is_file(Path(file)) and is_file(Path(other)) and same_place({name: Path(file), "": Path(other)}):
            raise UsageProblem(f"--{name}={file} is a file that this command reads: give another place")


def _texts_in(value: object) -> list[str]:
    """Return the texts that an option was given: none, one or several."""
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str) and text]


def make_folder_of(**files: str | None) -> None:
    """Make the folders of files that are kept with others of their kind, where they are not there yet."""
    for option, file in files.items():
        if file:
            with explained_if_unwritable(f"--{option}={file}"):
                Path(file).parent.mkdir(parents=True, exist_ok=True)


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


DEFAULT = "json:.hwperf"
HELP = "as --hwperf-store, a folder or file being relative to the current folder"


def open_store(url: str, given: str = "--store") -> tuple[Store, str]:
    """Open a store; return also where it is."""
    try:
        scheme, location = locate(url, Path.cwd())
    except ValueError as problem:
        raise UsageProblem(f"{given}={problem}") from problem
    store: Store = registry.find("stores", scheme)(location)
    return store, str(location)
