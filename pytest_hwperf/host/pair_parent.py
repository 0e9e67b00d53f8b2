"""The parent of a pair: it imports what both sides import from the same files, and is forked into both of them.

`python pair_parent.py` is conducted by `gate.parent`, with a line of JSON each way at a time: what to import, then how
each side is started. It loads nothing but the standard library by itself: what it has loaded, both sides have.
"""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the folder of this file: its modules are no side's

import builtins
import gc
import importlib
import io
import json
import os
import re
import runpy
import select
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import all_suffixes
from types import FrameType
from typing import Any

CAN_TELL_ENDS = hasattr(os, "pidfd_open")  # of processes that were forked: on Linux
STARTED = "HWPERF_STARTED_"  # begins the names of the variables by which `host.launch` finds all that it has started
_LINUX_ONLY = "only Linux tells how a process that was forked has ended"
_FAKES = "pytest_hwperf.host.fakes"
_EVERY = "the whole environment"
_KEEP_FOLDER = dict[str, str]()  # module → its variable with the working directory, as a side would have set it
_STAT, _LIST = os.stat, os.listdir  # which are replaced while modules are imported
_MAIN = "__mp_main__"  # the name by which multiprocessing knows the program that runs


def main() -> Mapping[str, Any] | None:
    """Import, fork, and tell how both sides end; return how a side is started to the process that is to be it."""
    if sys.platform != "linux":
        raise OSError(_LINUX_ONLY)
    answers = os.dup(1)
    os.dup2(2, 1)  # what an import prints is no answer
    orders = _lines(0)
    told = next(orders)
    refused = import_all(told["modules"], frozenset(told["differing"]), told.get("trees", ()))
    _answer(answers, {"refused": refused, "imported": sorted(told["modules"].keys() & sys.modules.keys())})
    sides = next(orders, {"sides": ()})["sides"]
    gc.collect()
    gc.freeze()  # pages that no collection writes to stay shared
    children = dict[int, tuple[str, int]]()  # descriptor of a process → its side and id
    for side in sides:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads that a fork leaves behind: see `pairs`
            pid = os.fork()
        if not pid:
            for descriptor in (answers, *children, *(one["descriptor"] for one in sides if one is not side)):
                os.close(descriptor)
            started: Mapping[str, Any] = side
            return started
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)  # as the side does: whichever comes first
        children[os.pidfd_open(pid)] = side["side"], pid
    for side in sides:
        os.close(side["descriptor"])
    if sides:  # else nobody needs this process any more
        _answer(answers, {"forked": dict(children.values())})
        _tell_ends(children, answers)
    return None


def import_all(  # noqa: C901 - one look at each thing
    modules: Mapping[str, str], differing: Collection[str], trees: Collection[str]
) -> dict[str, str]:
    """Import modules in their order; return the packages that a side has to import itself, with the reason.

    `trees` are the folders in which only one side finds modules.
    """
    refused, loaded, opened = dict[str, str](), set(sys.modules), _opened()
    sys.dont_write_bytecode, writes = True, sys.dont_write_bytecode
    for name in modules:
        package = name.partition(".")[0]
        if name in sys.modules or package in refused or threading.active_count() > 1:
            continue  # after a thread was started, it would be seen with each package
        with _reads() as (read, asking), watching(trees) as uses:
            why = _import(name)
        new, loaded = set(sys.modules) - loaded, set(sys.modules)
        more, opened = _opened() - opened, _opened()
        others = [one for one in new - {_MAIN} if (file := _file_of(one)) and modules.get(one) != file]
        spread = [one for one in new if _file_of(one) is None and is_in(trees, one)]
        if others:
            why = f"it loads {min(others)}, which the sides do not share"
        elif not all(map(_keeps_folder, asking)):
            why = "it reads the working directory, which differs between the sides"
        elif named := sorted(read & {*differing, _EVERY}):
            why = f"it reads {named[0]}, which differs between the sides"
        elif threading.active_count() > 1:
            why = "it starts a Python thread"
        elif more:
            why = "it leaves a file or a connection open"
        elif uses or spread:
            why = min(uses, default=f"a side has its own part of {min(spread, default='')}")
        if why:
            refused[package] = why
    sys.dont_write_bytecode = writes
    _give_functions_back()
    if fakes := sys.modules.get(_FAKES):  # it was loaded while functions of `os` were watched, and took these for real
        fakes.note()
    if inspect := sys.modules.get("inspect"):  # where modules were found: a side may have another of that name
        inspect.modulesbyfile.clear()
        inspect._filesbymodname.clear()  # noqa: SLF001 - there is no public way
    return refused


def _import(name: str) -> str:
    """Import a module; return why that fails, "" also where no import finds it: other code has made it."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        return "" if f"{name}.".startswith(f"{error.name}.") else f"its import fails without {error.name}"
    except Exception as error:  # noqa: BLE001 - whatever an import raises here, it is left to the sides
        return f"its import fails: {type(error).__name__}"
    return ""


def become(side: Mapping[str, Any]) -> None:
    """Be a process of a side, as if it had been started as `python -m MODULE ARGUMENT ...`."""
    if sys.platform != "linux":
        raise OSError(_LINUX_ONLY)
    with suppress(PermissionError):
        os.setpgid(0, 0)
    log = os.open(side["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, opened in ((0, null), (1, log), (2, log)):
        os.dup2(opened, number)
    os.close(log)
    os.close(null)
    marks = {name: value for name, value in os.environ.items() if name.startswith(STARTED)}
    os.environ.clear()
    os.environ.update({**side["environment"], **marks})
    os.chdir(side["directory"])
    own = [] if sys.flags.safe_path else [side["directory"]]
    paths = filter(None, side["environment"].get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = dict.fromkeys([*own, *map(os.path.abspath, paths), *sys.path])
    sys.argv = ["", *side["arguments"]]
    sys.modules.pop(_MAIN, None)
    for module, variable in _KEEP_FOLDER.items():
        setattr(sys.modules[module], variable, side["directory"])
    runpy.run_module(side["module"], run_name="__main__", alter_sys=True)


@contextmanager
def watching(trees: Collection[str]) -> Iterator[set[str]]:  # noqa: C901 - one look at each thing
    """Collect why an import that is made meanwhile may go otherwise on a side, which has other folders and words."""
    found = set[str]()

    class Missed:
        """Is asked last for a module, when nothing has found it."""

        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if is_in(trees, name):
                found.add(f"it looks for {name}, which a side has in its own tree")

    def note_path(frame: FrameType) -> None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return
        if frame.f_globals.get("__name__") != "importlib.metadata":
            found.add("it reads sys.path, which differs between the sides")
        elif _has_metadata(trees, frame.f_locals.get("name")):
            found.add("it looks for installed packages, of which a side has one in its own tree")

    def note_file(path: object) -> None:
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        if text and not text.startswith("<") and (not os.path.isabs(text) or text.startswith(tuple(trees))):  # noqa: PTH117 - no pathlib here
            found.add(f"it uses the file {text}, which differs between the sides")

    own = Missed()
    replaced = [(os, name) for name in ("stat", "lstat", "access", "listdir", "scandir", "open")]
    replaced += [(builtins, "open"), (io, "open")]
    before = [(module, name, getattr(module, name)) for module, name in replaced]
    words, path = sys.argv, sys.path
    watched = _watched_list(note_path)(path)
    argv = _watched_list(lambda _: found.add("it reads the command line, which differs between the sides"))(words)
    asked = {function: _Told(function, note_file) for _, _, function in before}
    sys.meta_path.append(own)
    sys.path, sys.argv = watched, argv
    for module, name, function in before:
        setattr(module, name, asked[function])
    try:
        yield found
    finally:
        for module, name, function in before:
            setattr(module, name, function)
        if own in sys.meta_path:
            sys.meta_path.remove(own)
        if sys.path is not watched or sys.argv is not argv:
            found.add("it puts another list in the place of sys.path or sys.argv")
        sys.path, sys.argv = path, words


def _give_functions_back() -> None:
    """Give modules the functions of files themselves, where they have kept what stood in for one of them."""
    for module in list(sys.modules.values()):
        names = _names_of(module)
        for name, value in list(names.items()):
            if type(value) is _Told:
                names[name] = value.__wrapped__


def _looks_for_sources(frame: FrameType | None) -> bool:
    """Whether the library looks for the module of something among the files of all modules, which is told to nobody."""
    for _ in range(5):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") in ("inspect", "linecache"):
            return True
        frame = frame.f_back
    return False


class _Told:
    """A function of files that tells of its path first; equal to it, and as little bound to an object as it is."""

    def __init__(self, function: Callable[..., Any], tell: Callable[[object], None]) -> None:
        self.__wrapped__ = function
        self.__name__ = self.__qualname__ = function.__name__
        self._tell = tell

    def __call__(self, path: Any = ".", *arguments: Any, **named: Any) -> Any:
        if not _looks_for_sources(sys._getframe(1)):  # noqa: SLF001 - who asks
            self._tell(path)
        return self.__wrapped__(path, *arguments, **named)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.__wrapped__

    def __hash__(self) -> int:
        return hash(self.__wrapped__)


_OF_LISTS = (
    *(
        "__add__",
        "__contains__",
        "__delitem__",
        "__eq__",
        "__getitem__",
        "__iadd__",
        "__iter__",
        "__len__",
        "__reversed__",
    ),
    *("__setitem__", "append", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"),
)


def _watched_list(note: Callable[[FrameType], object]) -> type[list[str]]:
    """Return a kind of list that tells who uses it."""

    def told(name: str) -> Callable[..., Any]:
        def use(self: list[str], *arguments: Any) -> Any:
            note(sys._getframe(1))  # noqa: SLF001 - who does
            return getattr(list, name)(self, *arguments)

        return use

    return type("Watched", (list,), {name: told(name) for name in _OF_LISTS})


def is_in(trees: Collection[str], name: str) -> bool:
    """Whether one of these folders has something that an import by this name would find."""
    place = name.replace(".", os.sep)
    ends = ("", *all_suffixes())
    return any(_is_there(os.path.join(tree, f"{place}{end}")) for tree in trees for end in ends)  # noqa: PTH118 - no pathlib here


def _is_there(path: str) -> bool:
    try:
        _STAT(path)
    except (OSError, ValueError):
        return False
    return True


def _has_metadata(trees: Collection[str], name: object) -> bool:
    """Whether a tree describes an installed package, of this name if one is given."""
    asked = re.sub(r"[-_.]+", "_", name).lower() if isinstance(name, str) else ""
    for tree in trees:
        for entry in _LIST(tree) if _is_there(tree) else ():
            own = re.sub(r"[-_.]+", "_", entry.partition("-")[0].removesuffix(".egg-info")).lower()
            if entry.endswith((".dist-info", ".egg-info")) and (not asked or asked == own):
                return True
    return False


@contextmanager
def _reads() -> Iterator[tuple[set[str], set[str]]]:
    """Collect the variables of the environment that are read meanwhile, and the modules that ask for the folder."""
    read, asking = set[str](), set[str]()

    class Watched(type(os.environ)):  # type: ignore[misc]  # the class of `os.environ` has no public name
        def __getitem__(self, key: str) -> str:
            read.add(key)
            return str(super().__getitem__(key))

        def __iter__(self) -> Iterator[str]:
            read.add(_EVERY)
            return iter(super().__iter__())

    def getcwd() -> str:
        frame = sys._getframe(1)  # noqa: SLF001 - who asks
        asks, behind = (str(one and one.f_globals.get("__name__")) for one in (frame, frame.f_back))
        if (asks, behind) != ("posixpath", "inspect"):  # which looks for the module of something among all files
            asking.add(asks)
        return before[1]()

    before = os.environ.__class__, os.getcwd
    os.environ.__class__, os.getcwd = Watched, getcwd
    try:
        yield read, asking
    finally:
        os.environ.__class__, os.getcwd = before


def _keeps_folder(name: str) -> bool:
    """Whether a module keeps the working directory in one variable, and no other text or path of it in another."""
    folder, names = os.getcwd(), vars(sys.modules[name]) if name in sys.modules else {}  # noqa: PTH109 - no pathlib here
    held = [
        key for key, value in names.items() if isinstance(value, str | os.PathLike) and folder in os.fsdecode(value)
    ]
    if len(held) != 1 or names[held[0]] != folder:
        return False
    _KEEP_FOLDER[name] = held[0]
    return True


def _opened() -> set[str]:
    """Return the descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - without pathlib, which a side may not load


def _file_of(name: str) -> str | None:
    """Return the file of a loaded module, past any `__getattr__`, which might import."""
    file = _names_of(sys.modules[name]).get("__file__")
    return file if isinstance(file, str) else None


def _names_of(module: object) -> dict[str, Any]:
    """Return the names of a module; none of what stands in for one, which may be anything."""
    try:
        names: dict[str, Any] = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return names


def _tell_ends(children: dict[int, tuple[str, int]], answers: int) -> None:
    """Tell of each child how it has ended, until both have or nobody listens any more.

    Neither is reaped: its number belongs to no other process while its conductor may still end it.
    """
    while children:
        ready, _, _ = select.select([0, *children], [], [])
        if 0 in ready:  # the conductor is gone, or needs this process no more
            return
        for descriptor in ready:
            side, pid = children.pop(descriptor)
            _answer(answers, {"ended": side, "code": _code_of(pid)})
    select.select([0], [], [])


def _code_of(pid: int) -> int:
    if sys.platform != "linux":
        raise OSError(_LINUX_ONLY)
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return 0 if ended is None else ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _lines(descriptor: int) -> Iterator[Any]:
    """Yield what each line says; nothing more is read than what has been sent."""
    rest = b""
    while True:
        line, found, after = rest.partition(b"\n")
        if found:
            rest = after
            yield json.loads(line)
            continue
        part = os.read(descriptor, 1 << 20)
        if not part:
            return
        rest += part


def _answer(descriptor: int, answer: Mapping[str, Any]) -> None:
    text = json.dumps(answer).encode() + b"\n"
    while text:
        text = text[os.write(descriptor, text) :]


if __name__ == "__main__":
    started = main()
    if started is not None:
        become(started)
    else:
        os._exit(0)
