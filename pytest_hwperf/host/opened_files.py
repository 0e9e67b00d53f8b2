"""Files that Python code of this process opens, noted by an audit hook; what native code opens it does not see.

A hook stays for the life of its process. It takes 0.7 µs of any audited event, of which making an array is one, and
2 µs of opening a file, which takes 7 without it (Python 3.11, a cloud machine): it is never in a process of which a
timed call counts.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any

from pytest_hwperf.core.structs import Record

WATCHES_FILES = "HWPERF_WATCHES_FILES"  # set in a process that notes its files
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_MOST = 20_000  # files of a kind
_COMPILED = (".pyc", ".pyo")
_SYSTEM = ("/dev/", "/proc/", "/sys/")


class Opened(Record, frozen=True, kw_only=True):
    """Files that a process has opened, links resolved, sorted; none of its environment or of the system."""

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()


class OpenedFiles:
    """Notes files as they are opened."""

    def __init__(self) -> None:
        """Note nothing yet."""
        self._noted = dict[tuple[str, bool], None]()  # in order, since a set may change while it is read
        self._is_over = False

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event; other ones than `open` are none of ours."""
        if event != "open" or self._is_over:
            return
        path, mode, flags = arguments
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or len(self._noted) >= 2 * _MOST:  # a descriptor is open already
            return
        is_written = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _WRITES)
        if not os.path.isabs(path):  # noqa: PTH117 - within every `open`
            path = f"{os.getcwd()}{os.sep}{path}"  # noqa: PTH109 - the same
        self._noted[path, is_written] = None

    def end(self) -> Opened:
        """Return what was opened, with the files that are mapped into memory, and note no more."""
        self._is_over = True
        kinds: dict[bool, set[str]] = {False: set(_mapped()), True: set()}
        for path, is_written in list(self._noted):
            kinds[is_written].add(path)
        return Opened(read=_of_interest(kinds[False]), written=_of_interest(kinds[True]))


def watch() -> OpenedFiles:
    """Note what is opened from now on, in this process and not in those that it starts."""
    os.environ.pop(WATCHES_FILES, None)
    found = OpenedFiles()
    sys.addaudithook(found.note)
    return found


def _of_interest(paths: Iterable[str]) -> tuple[str, ...]:
    """Leave out what belongs to the environment or the system, and folders; sorted, links resolved."""
    prefixes = tuple(f"{os.path.realpath(one)}{os.sep}" for one in {sys.prefix, sys.base_prefix, sys.exec_prefix})
    found = {os.path.realpath(path) for path in paths if not path.endswith(_COMPILED) and "\0" not in path}
    kept = (path for path in found if not path.startswith((*_SYSTEM, *_outside(prefixes))))
    return tuple(sorted(path for path in kept if os.path.isfile(path)))[:_MOST]  # noqa: PTH113 - thousands of texts


def _outside(prefixes: Iterable[str]) -> Iterable[str]:
    """Yield of a prefix like /usr its libraries only: a project may lie in it."""
    for prefix in prefixes:
        yield from (f"{prefix}{name}{os.sep}" for name in ("lib", "lib64", "share", "bin", "include"))


def _mapped() -> Iterable[str]:
    """Yield the files that are mapped into memory: native code reads models and tables in this way."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:  # noqa: PTH123 - as elsewhere
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if path and not path.endswith(" (deleted)"):
                    yield f"/{path}"
    except OSError:
        return
