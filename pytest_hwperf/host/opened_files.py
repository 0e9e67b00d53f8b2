"""Files that this process uses and programs that it starts, noted by an audit hook and by what it has open or mapped.

A hook stays for the life of its process. It takes 0.7 µs of any audited event, of which making an array is one, and
2 µs of opening a file, which takes 7 without it (Python 3.11, a cloud machine): it is never in a process of which a
timed call counts.

Not seen is what native code opens, closes again and no Python code has asked about or made a text of.
"""

import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from types import FrameType
from typing import Any

from pytest_hwperf.host.asked_metadata import AskedMetadata
from pytest_hwperf.host.fakes import note
from pytest_hwperf.host.files import is_file, mapped_files
from pytest_hwperf.records.structs import Record

WATCHES_FILES = "HWPERF_WATCHES_FILES"  # in a process that notes its files: seconds since 1970 from which one is new
IMPORTING = "<frozen importlib._bootstrap_external>"  # the file of what imports, as its code names it
# How a path is used, a letter each.
READ, MADE, APPENDED = "r", "w", "a"  # opened to read, to write, to write at its end
ASKED, ABSENT = "s", "n"  # asked about: it was there; it was not
LISTED = "l"  # a folder whose names are read
FOLDER, PUT = "m", "p"  # made as a folder, also where it was one; put there or taken away by name: moved, linked
NAMED = "f"  # made a text by `os.fspath`, as libraries do before native code opens it
_TAKEN = "taken"  # put, where it is there at that moment
_MOST = 20_000  # paths of a kind
_COMPILED = (".pyc", ".pyo")
_SYSTEM = ("/dev/", "/proc/", "/sys/")
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - a place that is asked about
_USES: Mapping[str, Mapping[int, str]] = {  # audited event → which of its arguments is a path → its use
    "os.listdir": {0: LISTED},
    "os.scandir": {0: LISTED},
    "os.mkdir": {0: FOLDER},
    "os.remove": {0: _TAKEN},
    "os.rename": {0: _TAKEN, 1: PUT},
    "os.rmdir": {0: _TAKEN},
    "os.link": {1: PUT},
    "os.symlink": {1: PUT},
    "os.truncate": {0: MADE},
    "os.getxattr": {0: READ},
    "os.setxattr": {0: MADE},
    "sqlite3.connect": {0: READ},  # whether it is written is seen on disk
}
_STAT = os.stat  # which is replaced in a process that is watched
_OF_PATHS = ("os", "posixpath", "ntpath", "genericpath", "pathlib")  # modules that only make paths of paths
_NEITHER = (f"{PurePath(__file__).parents[1]}{os.sep}", "<frozen ")  # code that is neither installed nor of a test

# Audited event → which of its arguments is the environment; the first two are the program and its command, but for a
# text for the shell.
_STARTING: Mapping[str, int] = {
    "subprocess.Popen": 3,
    **dict.fromkeys(("os.posix_spawn", "os.exec", "os.system", "os.fork", "os.forkpty"), 2),
}
_FORK = "os.fork()"  # stands for the command of a copy of this process
_SEARCHED = "PYTHONPATH"
_PYTHONS, _SHELLS = ("python", "pypy"), frozenset({"sh", "bash", "dash", "zsh"})
_INTERPRETER = re.compile(r"(python|pypy)[\d.]*(\.exe)?")
_WRAPPERS = frozenset(
    {"env", "nice", "timeout", "nohup", "xargs", "time", "taskset", "stdbuf", "setsid", "ionice", "chrt", "sudo"}
)  # start what follows them
_WITHOUT = ("-", "-i", "--ignore-environment")  # env(1) starts a program with nothing of its own environment then
# Modules that are loaded when a process is spawned in a way that no audit event tells of → who does so.
SPAWNING = {
    "multiprocessing.popen_spawn_posix": "multiprocessing",
    "multiprocessing.popen_forkserver": "multiprocessing",
    "joblib.externals.loky.backend.popen_loky_posix": "joblib",
}
_INSTALLED = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/libexec/", "/nix/store/", "/gnu/store/")
_MOST_PROGRAMS = 1000
_SHOWN = 4  # words of a command
_HEAD = 256  # bytes of a script that name its interpreter


class Opened(Record, frozen=True, kw_only=True):
    """Files that a process has opened, links resolved, sorted; none of its environment or of the system."""

    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # new ones that installed packages have read by themselves, also in their environment
    uses: Mapping[str, str] = {}  # path as it was named, of whatever is or was there → letters for how it was used
    started: Mapping[str, tuple[str, ...]] = {}  # command that may run code → folders of PYTHONPATH that it lacks
    told: Mapping[str, tuple[str, ...]] = {}  # command of any program → its folder and other texts that may name a path
    metadata: Mapping[str, tuple[str, ...]] = {}  # file of an installed package's metadata → what was asked of it

    def joined(self, other: "Opened") -> "Opened":
        """Return what either process has opened."""
        started, told = {**self.started, **other.started}, {**self.told, **other.told}
        return Opened(
            read=tuple(dict.fromkeys((*self.read, *other.read))),
            written=tuple(dict.fromkeys((*self.written, *other.written))),
            kept=tuple(dict.fromkeys((*self.kept, *other.kept))),
            uses={path: self.uses.get(path, "") + other.uses.get(path, "") for path in {**self.uses, **other.uses}},
            started={command: self.started.get(command) or other.started.get(command, ()) for command in started},
            metadata={
                path: tuple(dict.fromkeys((*self.metadata.get(path, ()), *other.metadata.get(path, ()))))
                for path in {**self.metadata, **other.metadata}
            },
            told={command: (*self.told.get(command, ()), *other.told.get(command, ())) for command in told},
        )


class OpenedFiles:
    """Notes paths as they are used."""

    def __init__(self, since: float = math.inf) -> None:
        self._since = since  # instant from which a file is new
        self._opened = dict[tuple[str, bool], None]()  # path, whether to write; in order, as a set may change meanwhile
        self._uses: dict[str, dict[str, None]] = {}  # letter → paths
        self._environment = system_places({sys.prefix, sys.base_prefix, sys.exec_prefix})
        self._programs = StartedPrograms()
        self._metadata = AskedMetadata()
        self._is_over = False

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event; others than those of files are none of ours."""
        if self._is_over:
            return
        if event in _STARTING:
            self._programs.note(event, arguments)
        elif event == "open" or event in _USES:  # nothing else may ask for the frame, which is an audited event too
            by = sys._getframe(1)  # noqa: SLF001 - who does it
            if event == "open" and isinstance(arguments[0], str | PurePath):
                self._metadata.note(str(arguments[0]), callers(by))
            uses = [(0, use) for use in _uses_of(*arguments[1:])] if event == "open" else _USES[event].items()
            for place, use in uses:
                if use != LISTED or by.f_code.co_filename != IMPORTING:
                    self._note(arguments[place], use, by)

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
        # Of these it is known how they were opened; other threads may open more meanwhile.
        known = {path for paths in list(self._uses.values()) for path in list(paths)}
        for path, use in _held():
            if path not in known:
                self._keep(path, use)

    def end(self) -> Opened:
        """Return what was used, with what is mapped or open now, and note no more."""
        self.look()
        self._is_over = True
        uses = dict[str, str]()
        for letter, paths in list(self._uses.items()):
            for path in list(paths):
                uses[path] = uses.get(path, "") + letter
        kinds = ({path for path, kind in list(self._opened) if kind == one} for one in (False, True))
        (read, written), programs = map(self._of_interest, kinds), self._programs
        return Opened(
            read=read,
            written=written,
            kept=self._new(
                {path for path, is_made in list(self._opened) if not is_made} - self._uses.get(READ, {}).keys()
            ),
            uses=uses,
            started=programs.found(),
            told=programs.told(),
            metadata=self._metadata.found(),
        )

    def _note(self, named: object, use: str, by: FrameType) -> None:
        path = os.fsdecode(named) if isinstance(named, str | bytes | PurePath) else ""
        if not path or "\0" in path or (use == _TAKEN and not os.path.lexists(path)):  # a descriptor is open already
            return
        use = PUT if use == _TAKEN else use
        if use == READ and path.startswith("file:"):  # as SQLite names a database with options
            path = path.removeprefix("file:").partition("?")[0]
        path = _whole(path)
        if use in (READ, MADE, APPENDED) and len(self._opened) < 2 * _MOST:
            self._opened[path, use != READ] = None
        if path not in self._uses.get(use, ()) and not _is_of_installed(by, (*self._environment, *_NEITHER)):
            self._keep(path, use)

    def _keep(self, path: str, use: str) -> None:
        is_outside = path.startswith((*_SYSTEM, *self._environment)) and not path.startswith(_SHARED_MEMORY)
        paths = self._uses.setdefault(use, {})
        if not is_outside and not path.endswith(_COMPILED) and len(paths) < _MOST:
            paths[path] = None

    def _new(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the files that were made or changed since the given instant, sorted, links resolved; no byte code."""
        found = {os.path.realpath(path) for path in paths if not path.endswith(_COMPILED)}
        return tuple(sorted(path for path in found if not path.startswith(_SYSTEM) and is_new(path, self._since)))

    def _of_interest(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Leave out what belongs to the environment or the system, and folders; sorted, links resolved."""
        found = {os.path.realpath(path) for path in paths if not path.endswith(_COMPILED)}
        kept = (path for path in found if not path.startswith((*_SYSTEM, *self._environment)))
        return tuple(sorted(path for path in kept if is_file(path)))[:_MOST]


class _Asking:
    """A function of `os` that asks about a file; equal to it, and as little bound to an object as it is."""

    def __init__(self, function: Callable[..., Any], ask: Callable[[object], None]) -> None:
        self.__wrapped__ = function
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = function.__doc__
        self._ask = ask

    def __call__(self, path: Any, *arguments: Any, **named: Any) -> Any:
        asked = path
        with suppress(OSError, TypeError, ValueError):  # whatever it is
            if (folder := named.get("dir_fd")) is not None:  # a path that is relative to an open folder
                asked = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))  # noqa: PTH115, PTH118
        self._ask(asked)
        return self.__wrapped__(path, *arguments, **named)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.__wrapped__

    def __hash__(self) -> int:  # `os.supports_follow_symlinks` and the like hold the function
        return hash(self.__wrapped__)


def watch() -> OpenedFiles:
    """Note what is used from now on, in this process and not in those that it starts."""
    found = OpenedFiles(float(os.environ.pop(WATCHES_FILES)))
    sys.addaudithook(found.note)
    for name in ("stat", "lstat", "access", "readlink"):
        setattr(os, name, _Asking(getattr(os, name), found.ask))
    os.fspath = _Asking(os.fspath, found.name)
    os.open = _Asking(os.open, found.name)  # whose audit event has no `dir_fd`
    note()  # else what this package does itself would not be watched
    return found


def is_new(path: str, since: float) -> bool:
    """Whether it was made, changed, moved or linked since: a process can set the other times of a file as it likes."""
    try:
        return _STAT(path).st_ctime >= since
    except OSError:
        return False


def system_places(prefixes: Collection[str]) -> tuple[str, ...]:
    """Return the beginnings of paths that belong to environments.

    Of a prefix like /usr these are its libraries only: a project may lie in it.
    """
    within = ("lib", "lib64", "share", "bin", "include")
    every = dict.fromkeys(one for prefix in prefixes for one in (prefix, os.path.realpath(prefix)))
    return tuple(f"{prefix}{os.sep}{name}{os.sep}" for prefix in every for name in within)


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, the one that has called it, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _uses_of(mode: object, flags: int) -> str:
    if isinstance(mode, str):
        made = APPENDED if "a" in mode else MADE if set(mode) & set("wx+") else ""
        return made + (READ if "r" in mode or ("a" in mode and "+" in mode) or not made else "")
    made = APPENDED if flags & os.O_APPEND else MADE if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else ""
    return made + ("" if flags & (os.O_WRONLY | os.O_TRUNC | os.O_EXCL) else READ)


def _is_of_installed(frame: FrameType, installed: tuple[str, ...]) -> bool:
    """Whether an installed package does it by itself, as pytest does, or another one while it is imported.

    What it does on behalf of a test, as a library that loads a model, has code in between that is not installed.
    """
    for code in (one.f_code for one in callers(frame)):
        if not code.co_filename.startswith(installed):
            return False
        if code.co_name == "<module>" and not code.co_filename.startswith("<"):
            return True
    return False


def _held() -> Iterator[tuple[str, str]]:
    """Yield the files that are open, and how: native code keeps tables and databases open."""
    with suppress(OSError):
        for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - its names alone
            with suppress(OSError):  # that of the list itself is closed by now
                path = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 - "socket:[1]" is no path
                with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as file:  # noqa: PTH123 - audited
                    flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
                yield from ((path, use) for use in _uses_of(None, flags) if path.startswith("/"))


class StartedPrograms:
    """Notes programs as they are started: what each is told, and what of PYTHONPATH it does not use."""

    def __init__(self) -> None:
        self._own = tuple(filter(None, os.environ.get(_SEARCHED, "").split(os.pathsep)))
        self._given = frozenset(os.environ.values())
        self._started: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}  # folder, command → what it misses
        self._told: dict[str, dict[str, None]] = {}  # command → texts

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event of a program; it must not fail, since that would keep the program from starting."""
        if event == "os.system":
            arguments = ("sh", ["sh", "-c", arguments[0]], None)
        elif event.startswith("os.fork"):
            arguments = (_FORK, [_FORK], None)
        words = arguments[1][1:] if isinstance(arguments[1], list | tuple) else ()
        command = tuple(_texts([arguments[0], *words]))
        given = os.environ if arguments[_STARTING[event]] is None else arguments[_STARTING[event]]
        before, own = _parted(command)
        if any(_name(one) == "env" for one in before) and any(one in _WITHOUT or _SEARCHED in one for one in before):
            given = {}
        directory = _whole(next(_texts([arguments[2]]), "") if event == "subprocess.Popen" else "")
        values = _texts([*given.values()]) if isinstance(given, Mapping) else ()
        told = (directory, *command, *(one for one in values if one not in self._given))
        if (shown := " ".join(command[:_SHOWN])) in self._told or len(self._told) < _MOST_PROGRAMS:
            self._told.setdefault(shown, {}).update(dict.fromkeys(one for one in told if os.sep in one))
        searched = _searched(given, directory, own)
        missing = tuple(one for one in self._own if one not in searched)
        if command and "\0" not in command[0] and (missing or len(self._started) < _MOST_PROGRAMS):
            self._started[directory, command] = self._started.get((directory, command)) or missing

    def told(self) -> dict[str, tuple[str, ...]]:
        """Return command → what may name a path: its folder, its words, and variables that this process had not."""
        return {command: tuple(texts) for command, texts in list(self._told.items())}

    def found(self) -> dict[str, tuple[str, ...]]:
        """Return command → folders that a program of Python does not search, although this process does.

        Of others that may run a project's code nothing is missing: shells, and programs that no system has installed.
        """
        found = dict[str, tuple[str, ...]]()
        for (directory, command), missing in list(self._started.items()):
            runs_python, may_run_code = _kind_of(command, Path(directory))
            if runs_python or may_run_code:
                shown = " ".join(command[:_SHOWN])
                found[shown] = found.get(shown) or (missing if runs_python else ())
        return found | {by: () for module, by in SPAWNING.items() if module in sys.modules}


def _kind_of(command: tuple[str, ...], directory: Path) -> tuple[bool, bool]:
    """Return whether a command runs Python, and whether it may run a project's code in another way.

    The first by its name, the first line of a script, or what a shell is told; the second is a shell, a copy of this
    process, or a file that came with no package of the system.
    """
    before, own = _parted(command)
    is_shell = bool(own) and _name(own[0]) in _SHELLS
    told = " ".join(own[1:]) if is_shell else ""
    words = told.split() if is_shell else [*before[1:], *own[:1]]
    runs_python = any(one in told for one in _PYTHONS) or any(_is_program(word, directory) for word in words)
    if not own or is_shell or own[0] == _FORK:  # which program a wrapper starts is not known
        return runs_python, True
    program = shutil.which(own[0]) or own[0]  # without a separator there is none
    return runs_python, os.sep in program and not os.path.realpath(directory / program).startswith(_INSTALLED)


def _is_program(word: str, directory: Path) -> bool:
    """Whether a word names Python, or a script that it runs."""
    if _name(word).startswith(_PYTHONS):
        return True
    path = directory / (shutil.which(word) or word)
    if not is_file(path):  # a pipe would be waited for
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).partition(b"\n")[0]
    except OSError:
        return False
    return head.startswith(b"#!") and b"py" in head


def _parted(command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part a command where `env`, `nice` and the like name Python or a shell: they start what follows them."""
    if not command or _name(command[0]) not in _WRAPPERS:
        return (), command
    named = (at for at, one in enumerate(command) if _INTERPRETER.fullmatch(_name(one)) or _name(one) in _SHELLS)
    place = next(named, len(command))
    return command[:place], command[place:]


def _name(word: str) -> str:
    return os.path.basename(word)  # noqa: PTH119 - a text


def _whole(path: str) -> str:
    """Return a path from the root on; as it is where the working directory is gone: a hook must not raise."""
    if os.path.isabs(path):  # noqa: PTH117 - within every `open`
        return path
    try:
        return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - as above
    except FileNotFoundError:
        return path


def _texts(words: Sequence[object]) -> Iterator[str]:
    yield from (os.fsdecode(one) for one in words if isinstance(one, str | bytes | os.PathLike))


def _searched(environment: Any, directory: str, command: Sequence[str]) -> set[str]:
    """Return the folders that Python searches first; which options a shell gives it is not known."""
    options = list[str]()
    for word in () if command and _name(command[0]) in _SHELLS else command[1:]:
        options.append(word)
        if word in ("-c", "-m") or not word.startswith("-"):
            break
    flags = {letter for one in options if one[:1] == "-" and one[:2] not in ("--", "-X", "-W") for letter in one[1:]}
    here = {directory.rstrip(os.sep)} if flags & {"c", "m"} and not flags & {"I", "P"} else set()
    if flags & {"I", "E"} or not isinstance(environment, Mapping):
        return here
    every = dict(environment)  # whose keys may be bytes, for which `os.environ` must not be asked
    value = every.get(_SEARCHED) or every.get(os.fsencode(_SEARCHED)) or ""
    return here | {os.path.join(directory, one) for text in _texts([value]) for one in text.split(os.pathsep)}  # noqa: PTH118 - texts
