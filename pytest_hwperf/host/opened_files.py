"""Files that this process uses, noted by an audit hook and by what it has open or mapped at certain moments.

A hook stays for the life of its process. It takes 0.7 µs of any audited event, of which making an array is one, and
2 µs of opening a file, which takes 7 without it (Python 3.11, a cloud machine): it is never in a process of which a
timed call counts.

Not seen is what native code opens, closes again and no Python code has asked about or made a text of.
"""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from types import FrameType
from typing import Any

from pytest_hwperf.host.files import mapped_files
from pytest_hwperf.host.started_programs import STARTING, StartedPrograms, whole
from pytest_hwperf.records.structs import Record

WATCHES_FILES = "HWPERF_WATCHES_FILES"  # set in a process that notes its files
# How a path is used, a letter each.
READ, MADE, APPENDED = "r", "w", "a"  # opened to read, to write, to write at its end
ASKED, ABSENT = "s", "n"  # asked about: it was there; it was not
LISTED = "l"  # a folder whose names are read
FOLDER, PUT = "m", "p"  # made as a folder, also where it was one; put there or taken away by name: moved, linked
NAMED = "f"  # made a text by `os.fspath`, as libraries do before native code opens it
_MOST = 20_000  # paths of a kind
_COMPILED = (".pyc", ".pyo")
_SYSTEM = ("/dev/", "/proc/", "/sys/")
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - a place that is asked about
_IMPORTING = "<frozen importlib._bootstrap_external>"
_NAMED_BY: Mapping[str, tuple[int, str]] = {  # audited event → which of its arguments is a path, and its use
    "os.listdir": (0, LISTED),
    "os.scandir": (0, LISTED),
    "os.mkdir": (0, FOLDER),
    "os.rename": (1, PUT),
    "os.link": (1, PUT),
    "os.symlink": (1, PUT),
    "os.truncate": (0, MADE),
    "os.getxattr": (0, READ),
    "os.setxattr": (0, MADE),
    "sqlite3.connect": (0, READ),  # whether it is written is seen on disk
}
_TAKING = ("os.remove", "os.rename", "os.rmdir")  # whose first argument is no longer there then
_ASKING = ("stat", "lstat", "access", "readlink")
_STAT = os.stat  # which is replaced in a process that is watched
_OF_PATHS = ("os", "posixpath", "ntpath", "genericpath", "pathlib")  # modules that only make paths of paths
_NEITHER = (f"{PurePath(__file__).parents[1]}{os.sep}", "<frozen ")  # code that is neither installed nor of a test


class Opened(Record, frozen=True, kw_only=True):
    """Files that a process has opened, links resolved, sorted; none of its environment or of the system."""

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    uses: Mapping[str, str] = {}  # path as it was named, of whatever is or was there → letters for how it was used
    started: Mapping[str, tuple[str, ...]] = {}  # command that may run code → folders of PYTHONPATH that it lacks
    told: Mapping[str, tuple[str, ...]] = {}  # command of any program → its folder and other texts that may name a path

    def joined(self, other: "Opened") -> "Opened":
        """Return what either process has opened."""
        started, told = {**self.started, **other.started}, {**self.told, **other.told}
        return Opened(
            read=tuple(dict.fromkeys((*self.read, *other.read))),
            written=tuple(dict.fromkeys((*self.written, *other.written))),
            uses={path: self.uses.get(path, "") + other.uses.get(path, "") for path in {**self.uses, **other.uses}},
            started={command: self.started.get(command) or other.started.get(command, ()) for command in started},
            told={command: (*self.told.get(command, ()), *other.told.get(command, ())) for command in told},
        )


class OpenedFiles:
    """Notes paths as they are used."""

    def __init__(self) -> None:
        self._opened = dict[tuple[str, bool], None]()  # in order, since a set may change while it is read
        self._uses: dict[str, dict[str, None]] = {}  # letter → paths
        self._environment = system_places({sys.prefix, sys.base_prefix, sys.exec_prefix})
        self._programs = StartedPrograms()
        self._is_over = False

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event; others than those of files are none of ours."""
        if self._is_over:
            return
        if event == "open":
            path, mode, flags = arguments
            for use in _uses_of(mode, flags):
                self._note(path, use, sys._getframe(1))  # noqa: SLF001 - who opens it
        elif event in STARTING:
            self._programs.note(event, arguments)
        elif event in _TAKING and isinstance(arguments[0], str | bytes | PurePath) and os.path.lexists(arguments[0]):
            self._note(arguments[0], PUT, sys._getframe(1))  # noqa: SLF001 - who takes it away
        if event in _NAMED_BY:
            at, use = _NAMED_BY[event]
            by = sys._getframe(1)  # noqa: SLF001 - who uses it
            if use != LISTED or by.f_code.co_filename != _IMPORTING:
                self._note(arguments[at], use, by)

    def ask(self, path: object) -> None:
        """Note that somebody asks whether a file is there, which is no event of an audit."""
        if not self._is_over:
            try:
                _STAT(path)  # type: ignore[arg-type] # whatever it is
                use = ASKED
            except (OSError, TypeError, ValueError):
                use = ABSENT
            self._note(path, use, sys._getframe(2))  # noqa: SLF001 - who asks

    def name(self, path: object) -> None:
        """Note that somebody makes a text of a path: native code that opens it then is no event of an audit either."""
        by = sys._getframe(2)  # noqa: SLF001 - who does
        if not self._is_over and str(by.f_globals.get("__name__")).partition(".")[0] not in _OF_PATHS:
            self._note(path, NAMED, by)

    def look(self) -> None:
        """Note what is mapped or open at this moment, by native code too."""
        for path in mapped_files():  # native code reads models and tables in this way
            if not path.endswith(" (deleted)"):
                self._opened[path, False] = None
                self._keep(path, READ)
        known = {path for paths in self._uses.values() for path in paths}  # of these it is known how they were opened
        for path, use in _held():
            if path not in known:
                self._keep(path, use)

    def end(self) -> Opened:
        """Return what was used, with what is mapped or open now, and note no more."""
        self.look()
        self._is_over = True
        uses = dict[str, str]()
        for letter, paths in self._uses.items():
            for path in list(paths):
                uses[path] = uses.get(path, "") + letter
        programs, kinds = self._programs, (False, True)
        read, written = (_of_interest({path for path, kind in list(self._opened) if kind == one}) for one in kinds)
        return Opened(read=read, written=written, uses=uses, started=programs.found(), told=programs.told())

    def _note(self, named: object, use: str, by: FrameType) -> None:
        path = os.fsdecode(named) if isinstance(named, str | bytes | PurePath) else ""
        if not path or "\0" in path:  # a descriptor is open already
            return
        if use == READ and path.startswith("file:"):  # as SQLite names a database with options
            path = path.removeprefix("file:").partition("?")[0]
        if not os.path.isabs(path):  # noqa: PTH117 - within every `open`
            path = whole(path)
        if use in (READ, MADE, APPENDED) and len(self._opened) < 2 * _MOST:
            self._opened[path, use != READ] = None
        if path not in self._uses.get(use, ()) and not _is_of_installed(by, (*self._environment, *_NEITHER)):
            self._keep(path, use)

    def _keep(self, path: str, use: str) -> None:
        is_outside = path.startswith((*_SYSTEM, *self._environment)) and not path.startswith(_SHARED_MEMORY)
        paths = self._uses.setdefault(use, {})
        if not is_outside and not path.endswith(_COMPILED) and len(paths) < _MOST:
            paths[path] = None


class _Asking:
    """A function of `os` that asks about a file; equal to it, and as little bound to an object as it is."""

    def __init__(self, function: Callable[..., Any], ask: Callable[[object], None]) -> None:
        self.__wrapped__ = function
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = function.__doc__
        self._ask = ask

    def __call__(self, path: Any, *arguments: Any, **named: Any) -> Any:
        folder = named.get("dir_fd")
        self._ask(path if folder is None else _below(folder, path))
        return self.__wrapped__(path, *arguments, **named)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.__wrapped__

    def __hash__(self) -> int:  # `os.supports_follow_symlinks` and the like hold the function
        return hash(self.__wrapped__)


def watch() -> OpenedFiles:
    """Note what is used from now on, in this process and not in those that it starts."""
    os.environ.pop(WATCHES_FILES, None)
    found = OpenedFiles()
    sys.addaudithook(found.note)
    for name in _ASKING:
        setattr(os, name, _Asking(getattr(os, name), found.ask))
    os.fspath = _Asking(os.fspath, found.name)
    os.open = _Asking(os.open, found.name)  # whose audit event has no `dir_fd`
    return found


def system_places(prefixes: Collection[str]) -> tuple[str, ...]:
    """Return the beginnings of paths that belong to environments.

    Of a prefix like /usr these are its libraries only: a project may lie in it.
    """
    within = ("lib", "lib64", "share", "bin", "include")
    every = dict.fromkeys(one for prefix in prefixes for one in (prefix, os.path.realpath(prefix)))
    return tuple(f"{prefix}{os.sep}{name}{os.sep}" for prefix in every for name in within)


def _below(folder: int, path: object) -> object:
    """Return a path that is relative to an open folder as one that says which."""
    try:
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))  # type: ignore[arg-type] # noqa: PTH115, PTH118 - whatever it is
    except (OSError, TypeError, ValueError):
        return path


def _uses_of(mode: object, flags: int) -> str:
    if isinstance(mode, str):
        made = APPENDED if "a" in mode else MADE if set(mode) & set("wx+") else ""
        return made + (READ if "r" in mode or ("a" in mode and "+" in mode) or not made else "")
    made = APPENDED if flags & os.O_APPEND else MADE if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else ""
    return made + ("" if flags & (os.O_WRONLY | os.O_TRUNC | os.O_EXCL) else READ)


def _is_of_installed(frame: FrameType | None, installed: tuple[str, ...]) -> bool:
    """Whether an installed package does it by itself, as pytest does, or another one while it is imported.

    What it does on behalf of a test, as a library that loads a model, has code in between that is not installed.
    """
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(installed):
            return False
        if code.co_name == "<module>" and not code.co_filename.startswith("<"):
            return True
        frame = frame.f_back
    return False


def _of_interest(paths: Iterable[str]) -> tuple[str, ...]:
    """Leave out what belongs to the environment or the system, and folders; sorted, links resolved."""
    places = (*_SYSTEM, *system_places({sys.prefix, sys.base_prefix, sys.exec_prefix}))
    found = {os.path.realpath(path) for path in paths if not path.endswith(_COMPILED) and "\0" not in path}
    kept = (path for path in found if not path.startswith(places))
    return tuple(sorted(path for path in kept if os.path.isfile(path)))[:_MOST]  # noqa: PTH113 - thousands of texts


def _held() -> Iterator[tuple[str, str]]:
    """Yield the files that are open, and how: native code keeps tables and databases open."""
    with suppress(OSError):
        for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - its names alone
            with suppress(OSError):  # that of the list itself is closed by now
                path = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 - "socket:[1]" is no path
                facts = PurePath("/proc/self/fdinfo", number)
                with open(facts, encoding="ascii") as file:  # noqa: PTH123 - as elsewhere
                    flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
                for use in _uses_of(None, flags) if path.startswith("/") else ():
                    yield path, use
