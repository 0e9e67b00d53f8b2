"""What a process uses of the changes between two trees: code that is run, files that are opened, modules looked for.

What cannot be attributed is used too: another process, and code that another tracer runs unseen.
"""

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, FunctionType, GeneratorType, TracebackType
from typing import Any

from pytest_hwperf.host.clocks import has_children, used_by_ended
from pytest_hwperf.host.opened_files import IMPORTING, callers
from pytest_hwperf.host.source_files import is_own, loaded_modules
from pytest_hwperf.host.tracing import AFFECTED
from pytest_hwperf.stats.causes.changed_code import EVERY_TEST, MODULE, Usage, Watch, key_of

_OPENED, _OVERFLOW = 0x20, 0x4000
_EVENT = struct.Struct("iIII")  # descriptor of the watch, mask, cookie, length of a name
_LARGEST = 1 << 16  # bytes that are read at once
_PROCESS = "another process"
_NOTED: Mapping[str, str] = {  # audited event → what is used then, whatever its arguments are
    **dict.fromkeys(("socket.connect", "socket.sendto", "socket.sendmsg"), "a connection to another process"),
    "sys.settrace": "another trace function",  # what it runs is told to nobody
    "cpython.PyInterpreterState_New": "another interpreter",  # this one is not told what runs there
}
# Modules by which Python makes other interpreters: Python 3.13 announces none of these.
_INTERPRETERS = frozenset(("_interpreters", "_xxsubinterpreters"))
_PROCESSES = frozenset(
    ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "pty.spawn")
)
_CODE_OF = {FunctionType: "__code__", GeneratorType: "gi_code", CoroutineType: "cr_code", AsyncGeneratorType: "ag_code"}
_READS_CODE = frozenset((*_CODE_OF.values(), "f_code", "tb_frame"))  # attributes whose reading is audited
# Names of what tells on which line code stands. Python audits none of these readings: who makes one has its name.
_LINES = frozenset(
    (
        *("co_firstlineno", "co_lines", "co_positions", "co_linetable", "co_lnotab"),
        *("f_lineno", "tb_lineno", "lineno", "__firstlineno__"),
    )
)
_NEAR = 3  # frames in which whoever looks at code may read its lines
_READERS = frozenset(("pathlib", "inspect", "traceback"))  # modules that read for whoever calls them
_MOST = 3  # things that are kept of each test: one is enough to keep it in
_FREE_TOOLS = (4, 3, 5, 1, 0)  # of `sys.monitoring`, from the one that others use least


class FileWatch:
    """Files that are watched; a link stands for what it leads to."""

    def __init__(self, root: Path, files: Sequence[str]) -> None:
        """Watch files below `root`; the process opens no other descriptor for them."""
        self._named: Mapping[int, str] = {}
        self._descriptor = -1
        if not files:
            return
        if sys.platform != "linux":
            raise OSError("this system has no inotify")
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = _checked(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._named = {
            _checked(library.inotify_add_watch(self._descriptor, os.fsencode(root / file), _OPENED)): file
            for file in files
        }

    def opened(self) -> list[str]:
        """Return which of them were opened since this was last asked; all of them where that is not known any more."""
        found = dict[str, None]()
        with suppress(BlockingIOError):
            while self._named and (content := os.read(self._descriptor, _LARGEST)):
                at = 0
                while at < len(content):
                    number, mask, _, length = _EVENT.unpack_from(content, at)
                    at += _EVENT.size + length
                    if mask & _OVERFLOW:
                        found |= dict.fromkeys(self._named.values())
                    elif mask & _OPENED and number in self._named:
                        found[self._named[number]] = None
        return list(found)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Recorder:
    """Notes what is used of a watch, for each test."""

    def __init__(self, watch: Watch) -> None:
        """Watch from `begin` on."""
        self._root = Path(os.path.realpath(watch.root))
        self._watch = watch
        self._sources = {str(self._root / file): keys for file, keys in watch.code.items()}
        self._moved = {str(self._root / file): frozenset(keys) for file, keys in watch.moved.items()}
        self._installed = tuple(
            f"{one}{os.sep}" for one in (sys.prefix, sys.base_prefix) if Path(one).is_relative_to(self._root)
        )
        self._folders = frozenset(str(self._root / folder) for folder in watch.listed)
        self._modules = frozenset(watch.modules)
        self._context = EVERY_TEST
        self._is_begun = False  # before, plugins of the environment ask other programs about this machine
        self._used: dict[str, list[str]] = {}
        self._reading = threading.local()
        self._ended, _ = _children()
        self._real: dict[str, str] = {}  # file as code names it → links resolved
        self._files: FileWatch | None = None

    def begin(self) -> None:
        """Begin to watch: before any code of the tree is run."""
        try:
            self._files = FileWatch(self._root, self._watch.files)
            self.watch_code()
        except OSError as error:
            self._note(f"what is used cannot be watched ({error})")
        for file in map(os.path.realpath, loaded_modules().values()):
            if self._is_of_root(file):
                self._note(f"{self._shown(file)}, loaded before anything could be watched")
        sys.addaudithook(self._audit)

    def watch_code(self) -> None:
        """Be told of all code that is run from now on, in every thread."""
        monitoring: Any = vars(sys)["monitoring"]
        tool = next((one for one in _FREE_TOOLS if monitoring.get_tool(one) is None), None)
        if tool is None:
            raise OSError("all tools of sys.monitoring are in use")
        monitoring.use_tool_id(tool, AFFECTED)
        monitoring.register_callback(tool, monitoring.events.PY_START, self._started)
        monitoring.set_events(tool, monitoring.events.PY_START)

    def _started(self, code: CodeType, _: int) -> object:
        """Note code that begins; of other code no more is to be heard."""
        if (code.co_filename, code.co_qualname) == (IMPORTING, "FileFinder.find_spec"):
            self._looked_for(str(sys._getframe(1).f_locals.get("fullname", "")))  # noqa: SLF001 - the frame that begins
        elif not self._ran(code) and not self._reads_lines(code):
            return vars(sys)["monitoring"].DISABLE
        return None

    def _ran(self, code: CodeType) -> bool:
        """Note code that was asked about; whether it was."""
        keys = self._sources.get(self._file_of(code))
        if keys is None or (MODULE not in keys and key_of(code) not in keys):
            return False
        self._note(f"{self._shown(self._file_of(code))}::{code.co_qualname}")
        return True

    def _reads_lines(self, code: CodeType) -> bool:
        """Note code of the tree that may read on which lines code stands, where some has moved; whether it may."""
        if not self._moved or not _names_lines(code) or not self._is_of_root(self._file_of(code)):
            return False
        self._note(f"line numbers, which {self._shown(self._file_of(code))}::{code.co_qualname} may read")
        return True

    def _has_moved(self, code: CodeType) -> bool:
        return key_of(code) in self._moved.get(self._file_of(code), ())

    def _file_of(self, code: CodeType) -> str:
        """Return the file of a piece of code, links resolved."""
        if (name := code.co_filename) not in self._real:
            self._real[name] = os.path.realpath(name)
        return self._real[name]

    def _is_of_root(self, file: str) -> bool:
        """Whether a file, links resolved, is the user's own in the tree."""
        return is_own(file, self._root) and not file.startswith(self._installed)

    def enter(self, context: str) -> str:
        """Attribute what is used from now on to a test, a file of tests or every test; return whose turn it was."""
        if not self._is_begun:
            self._is_begun = True
            self._ended, _ = _children()
        self._drain()
        before, self._context = self._context, context
        return before

    def share(self, context: str, others: Sequence[str]) -> None:
        """Attribute what was used in a context to others too."""
        for what in tuple(self._used.get(context, ())):
            for other in others:
                self._note(what, other)

    def usage(self) -> Usage:
        """Return what was used until now."""
        self._drain()
        return Usage(used={context: tuple(used) for context, used in self._used.items()})

    def _drain(self) -> None:
        """Note what the system tells only when it is asked."""
        for file in self._files.opened() if self._files else ():
            self._note(file)
        before = self._ended
        self._ended, are_alive = _children()
        if are_alive or self._ended != before:
            self._note(_PROCESS)

    def _note(self, what: str, context: str | None = None) -> None:
        used = self._used.setdefault(self._context if context is None else context, [])
        if what not in used and len(used) < _MOST:
            used.append(what)

    def _looked_for(self, module: str) -> None:
        if module in _INTERPRETERS:
            self._note(_NOTED["cpython.PyInterpreterState_New"])
        if module.rpartition(".")[2] in self._modules:
            self._note(f"the module {module}, which one side alone has")

    def _shown(self, path: str) -> str:
        return path.removeprefix(f"{self._root}{os.sep}")

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note what Python is about to do; an exception here would end it.

        To ask for a frame, or for the code of a frame, is an audited event too: those of this hook are not looked at.
        """
        if getattr(self._reading, "is_on", False):
            return
        self._reading.is_on = True
        try:
            self._note_event(event, arguments)
        finally:
            self._reading.is_on = False

    def _note_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _PROCESSES:
            if self._is_begun or self._is_of_tree(_cause()):
                self._note(_PROCESS)
        elif event in _NOTED:
            self._note(_NOTED[event])
        elif event == "import":
            self._looked_for(str(arguments[0]))
        elif event == "open":
            path, by = _path_of(arguments[0]), _cause()
            if path.endswith(".py") and not _is_read_to_run(by) and os.path.realpath(path) in self._sources:
                self._note(f"{self._shown(os.path.realpath(path))}, read as a file")
        elif event in ("os.listdir", "os.scandir"):
            self._listed(arguments[0] if arguments else None, _cause())
        elif event == "object.__getattr__" and arguments[1] in _READS_CODE:
            self._inspected(arguments[0], _cause())
        elif event == "sys._getframe" and self._moved:
            self._asked_for_frames(_cause())

    def _is_of_tree(self, frame: FrameType) -> bool:
        """Whether code of the tree is what calls, however far away."""
        files = (Path(one.f_code.co_filename) for one in callers(frame))  # "<frozen runpy>" is none
        return any(file.is_absolute() and file.resolve().is_relative_to(self._root) for file in files)

    def _listed(self, name: object, by: FrameType) -> None:
        """Note a folder that is not the same on both sides and is listed."""
        if self._folders and by.f_code.co_filename != IMPORTING and not _is_pytest(by):
            path = os.path.realpath(f"/proc/self/fd/{name}" if isinstance(name, int) else _path_of(name) or ".")
            if path in self._folders:
                self._note(f"the list of files in {self._shown(path)}")

    def _inspected(self, holder: object, by: FrameType) -> None:
        """Note code that something looks at: changed code counts as run, of moved code the lines may be read.

        A compiler looks at code without a call of it. A frame or a traceback is looked at to say where code stands.
        """
        if isinstance(holder, TracebackType):
            holder = holder.tb_frame
        if isinstance(holder, FrameType):
            if self._has_moved(holder.f_code) and not _is_pytest(by):
                self._note_place(holder.f_code)
        elif (attribute := _CODE_OF.get(type(holder))) is not None:
            code = getattr(holder, attribute)
            if not self._ran(code) and self._has_moved(code) and _may_read_lines(by) and not _is_pytest(by):
                self._note_place(code)

    def _asked_for_frames(self, by: FrameType) -> None:
        """Note moved code that calls, directly or not, what asks for frames and names their lines."""
        if _may_read_lines(by) and not _is_pytest(by):
            for frame in callers(by):
                if self._has_moved(frame.f_code):
                    self._note_place(frame.f_code)

    def _note_place(self, code: CodeType) -> None:
        self._note(f"the lines of {self._shown(self._file_of(code))}::{code.co_qualname}")


def _cause() -> FrameType:
    """Return the frame that has caused an event: the first one outside of this file."""
    return next(frame for frame in callers(sys._getframe(1)) if frame.f_code.co_filename != __file__)  # noqa: SLF001


@cache
def _names_lines(code: CodeType) -> bool:
    """Whether a piece of code names what tells on which lines code stands, as an attribute or as a text."""
    texts = (one for one in code.co_consts if isinstance(one, str))
    return not _LINES.isdisjoint(code.co_names) or not _LINES.isdisjoint(texts)


def _may_read_lines(by: FrameType) -> bool:
    """Whether whoever looks at code, or one of the nearest callers, names its lines."""
    return any(_names_lines(frame.f_code) for frame in islice(callers(by), _NEAR))


def _path_of(name: object) -> str:
    return os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else ""


def _is_read_to_run(frame: FrameType) -> bool:
    """Whether source is opened to import it, by Python or by pytest, which rewrites assertions."""
    if frame.f_code.co_filename == IMPORTING:
        return frame.f_back is not None and frame.f_back.f_code.co_qualname == "SourceLoader.get_code"
    return _is_pytest(frame)


def _is_pytest(frame: FrameType) -> bool:
    """Whether pytest itself or this package calls, also by way of what reads files and code for them."""
    packages = (str(one.f_globals.get("__name__", "")).partition(".")[0] for one in callers(frame))
    return next((one for one in packages if one not in _READERS), "") in {"_pytest", "pytest_hwperf"}


def _children() -> tuple[Sequence[float], bool]:
    """Return what processes of this one's that have ended have used, and whether one that it has started is alive."""
    return used_by_ended(), has_children()
