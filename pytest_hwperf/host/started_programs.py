"""Programs that this process starts: what each is told, which may run code, and what of PYTHONPATH it does not use."""

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_hwperf.host.files import is_file

# Audited event → which of its arguments is the environment; the first two are the program and its command, but for a
# text for the shell.
STARTING: Mapping[str, int] = {
    "subprocess.Popen": 3,
    "os.posix_spawn": 2,
    "os.exec": 2,
    "os.system": 2,
    "os.fork": 2,
    "os.forkpty": 2,
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
_SPAWNING = {
    "multiprocessing.popen_spawn_posix": "multiprocessing",
    "multiprocessing.popen_forkserver": "multiprocessing",
    "joblib.externals.loky.backend.popen_loky_posix": "joblib",
}
_SYSTEM = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/libexec/", "/nix/store/", "/gnu/store/")
_MOST = 1000  # programs
_SHOWN = 4  # words of a command
_HEAD = 256  # bytes of a script that name its interpreter


class StartedPrograms:
    """Notes programs as they are started."""

    def __init__(self) -> None:
        self._own = tuple(filter(None, os.environ.get(_SEARCHED, "").split(os.pathsep)))
        self._given = frozenset(os.environ.values())
        self._started: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}  # folder, command → what it misses
        self._told: dict[str, dict[str, None]] = {}  # command → texts

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event of `STARTING`; it must not fail, since that would keep the program from starting."""
        if event == "os.system":
            arguments = ("sh", ["sh", "-c", arguments[0]], None)
        elif event.startswith("os.fork"):
            arguments = (_FORK, [_FORK], None)
        words = arguments[1][1:] if isinstance(arguments[1], list | tuple) else ()
        command = tuple(_texts([arguments[0], *words]))
        directory = next(_texts([arguments[2]]), "") if event == "subprocess.Popen" else ""
        given = os.environ if arguments[STARTING[event]] is None else arguments[STARTING[event]]
        before, own = _parted(command)
        if _names(before, {"env"}) and any(one in _WITHOUT or _SEARCHED in one for one in before):
            given = {}
        directory = whole(directory)
        values = given.values() if isinstance(given, Mapping) else ()
        told = (directory, *command, *(one for one in _texts([*values]) if one not in self._given))
        if (shown := " ".join(command[:_SHOWN])) in self._told or len(self._told) < _MOST:
            self._told.setdefault(shown, {}).update(dict.fromkeys(one for one in told if os.sep in one))
        searched = _searched(given, directory, own)
        missing = tuple(one for one in self._own if one not in searched)
        if command and "\0" not in command[0] and (missing or len(self._started) < _MOST):
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
            is_python = _is_python(command, Path(directory))
            if is_python or _may_run_code(command, directory):
                shown = " ".join(command[:_SHOWN])
                found[shown] = found.get(shown) or (missing if is_python else ())
        return found | {by: () for module, by in _SPAWNING.items() if module in sys.modules}


def _parted(command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part a command where `env`, `nice` and the like name Python or a shell: they start what follows them."""
    if not _names(command[:1], _WRAPPERS):
        return (), command
    named = (place for place, one in enumerate(command) if _INTERPRETER.fullmatch(_name(one)) or _name(one) in _SHELLS)
    place = next(named, len(command))
    return command[:place], command[place:]


def _names(words: Sequence[str], programs: Collection[str]) -> bool:
    return any(_name(one) in programs for one in words)


def _name(word: str) -> str:
    return os.path.basename(word)  # noqa: PTH119 - a text


def whole(path: str) -> str:
    """Return a path from the root on; as it is where the working directory is gone: a hook must not raise."""
    try:
        return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - within every `open`
    except FileNotFoundError:
        return path


def _texts(words: Sequence[object]) -> Iterator[str]:
    yield from (os.fsdecode(one) for one in words if isinstance(one, str | bytes | os.PathLike))


def _searched(environment: Any, directory: str, command: Sequence[str]) -> set[str]:
    """Return the folders that Python searches first; which options a shell gives it is not known."""
    options = list[str]()
    for word in () if _is_shell(command) else command[1:]:
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


def _is_python(command: tuple[str, ...], directory: Path) -> bool:
    """Whether a command runs Python, by its name, by the first line of a script, or by what a shell is told."""
    before, own = _parted(command)
    if _is_shell(own):
        told = " ".join(own[1:])
        return any(one in told for one in _PYTHONS) or any(_is_program(one, directory) for one in told.split())
    return any(_is_program(one, directory) for one in (*before[1:], *own[:1]))


def _is_shell(command: Sequence[str]) -> bool:
    return _names(command[:1], _SHELLS)


def _may_run_code(command: tuple[str, ...], directory: str) -> bool:
    """Whether a command is a shell, a copy of this process, or a file that came with no package of the system."""
    _, own = _parted(command)
    if not own or _is_shell(own) or own[0] == _FORK:  # which program a wrapper starts is not known
        return True
    found = shutil.which(own[0]) or own[0]
    if os.sep not in found:  # there is none
        return False
    return not os.path.realpath(os.path.join(directory, found)).startswith(_SYSTEM)  # noqa: PTH118 - a text


def _is_program(word: str, directory: Path) -> bool:
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
