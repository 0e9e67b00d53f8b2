"""Which pieces of some Python code are run in this process, in whatever thread: asked of Python itself.

From 3.12 on `sys.monitoring` tells of each piece of code when it is first run, in all threads, and costs nothing
afterwards. Before that a trace function is called for each call, in the threads that Python starts.
"""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any

from pytest_hwperf.core.changed_code import MODULE, key_of

_TOOLS = (4, 3, 5, 1, 0)  # of `sys.monitoring`, from the one that others use least
_NAME = "hwperf-affected"
_FINDS_MODULES = ("<frozen importlib._bootstrap_external>", "FileFinder.find_spec")
_SLOWER_CODE = 5  # times that code without calls takes under a trace function, at most (measured: 4.3)
_SLOWEST = 60  # the same of calls that do nothing (54)
_TRIES = 1000


class CodeWatch:
    """Code that is watched."""

    def __init__(
        self, files: Mapping[str, tuple[str, ...]], ran: Callable[[str], None], looked_for: Callable[[str], None]
    ) -> None:
        """Watch from `begin` on.

        Args:
            files: path of a file, links resolved → keys of its code.
            ran: is told the path and the name of code that is run.
            looked_for: is told the full name of a module that is searched for in a folder.
        """
        self._files = files
        self._ran = ran
        self._looked_for = looked_for
        self._paths: dict[str, str] = {}  # of a file as code names it → links resolved
        self._of_interest: dict[str, bool] = {}  # whether code of a file, as it names it, is to be looked at
        self._threads: _Threads | None = None
        self._events = 0  # calls of Python code that the trace function was told of since it was last asked
        self._event_s = 0.0  # what it takes to be told

    def begin(self) -> None:
        """Be told of all code that is run from now on, in this thread and those that follow.

        Raises:
            OSError: all tools of `sys.monitoring` are in use.
        """
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            if threading.active_count() > 1:
                raise OSError("threads run already")
            self._threads = _Threads()
            threading.settrace(self._of_thread)
            before_s = _seconds_of_calls()
            sys.settrace(self._traced)
            self._event_s = max(0.0, _seconds_of_calls() - before_s) / _TRIES
            return
        tool = next((one for one in _TOOLS if monitoring.get_tool(one) is None), None)
        if tool is None:
            raise OSError("all tools of sys.monitoring are in use")
        monitoring.use_tool_id(tool, _NAME)
        monitoring.register_callback(tool, monitoring.events.PY_START, self._started)
        monitoring.set_events(tool, monitoring.events.PY_START)

    def missed(self) -> str:
        """Return by what code may have been run that nobody was told of, "" where nothing was missed."""
        if self._threads is None:
            return ""
        if sys.gettrace() != self._traced or threading.gettrace() != self._of_thread:
            return "another trace function"
        if "greenlet" in sys.modules:
            return "greenlets"
        return "threads that Python has not started" if self._threads.unseen() else ""

    def untraced_s(self, taken_s: float) -> float:
        """Return what has taken so many seconds since this was last asked would have taken without a trace function.

        It is rather too short than too long: by it as many calls are made as a process makes that nobody watches.
        """
        events, self._events = self._events, 0
        if self._threads is None:
            return taken_s
        return max((taken_s - events * self._event_s) / _SLOWER_CODE, taken_s / _SLOWEST)

    def is_watched(self, code: CodeType) -> bool:
        """Whether it is code that was asked about."""
        keys = self._files.get(self._path(code.co_filename))
        return keys is not None and (MODULE in keys or key_of(code) in keys)

    def _started(self, code: CodeType, _: int) -> object:
        """Tell of code that begins; of other code no more is to be heard."""
        monitoring: Any = vars(sys)["monitoring"]
        if self._is_finder(code):
            self._looked_for(str(sys._getframe(1).f_locals.get("fullname", "")))  # noqa: SLF001 - the frame that begins
            return None
        if not self.is_watched(code):
            return monitoring.DISABLE
        self._seen(code)
        return None

    def _traced(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._events += 1
            code = frame.f_code
            is_of_interest = self._of_interest.get(code.co_filename)
            if is_of_interest is None:
                is_of_interest = self._of_interest[code.co_filename] = self._is_of_interest(code.co_filename)
            if not is_of_interest:
                return
            if self._is_finder(code):
                self._looked_for(str(frame.f_locals.get("fullname", "")))
            else:
                self._seen(code)

    def _of_thread(self, frame: FrameType, event: str, argument: object) -> None:
        if self._threads is not None:
            self._threads.see()
        self._traced(frame, event, argument)

    def _seen(self, code: CodeType) -> None:
        if self.is_watched(code):
            self._ran(f"{self._path(code.co_filename)}::{code.co_qualname}")

    def _path(self, name: str) -> str:
        if name not in self._paths:
            self._paths[name] = os.path.realpath(name)
        return self._paths[name]

    def _is_of_interest(self, name: str) -> bool:
        return name == _FINDS_MODULES[0] or self._path(name) in self._files

    @staticmethod
    def _is_finder(code: CodeType) -> bool:
        return (code.co_filename, code.co_qualname) == _FINDS_MODULES


class _Threads:
    """Threads that have run Python code since this was made, and those that were seen to.

    The interpreter numbers the states of its threads, also those that native code attaches to it.
    """

    def __init__(self) -> None:
        self._here = threading.local()
        self._seen = 0
        self._lock = threading.Lock()
        self._first = _number_of_new_thread()

    def see(self) -> None:
        """Note the thread that calls."""
        if not hasattr(self._here, "is_seen"):
            self._here.is_seen = True
            with self._lock:
                self._seen += 1

    def unseen(self) -> int:
        """Return how many were not seen, the one that counts among those that were."""
        return _number_of_new_thread() - self._first - self._seen


def _seconds_of_calls() -> float:
    """Return what some calls of Python code take that does nothing."""
    began = time.perf_counter()
    for _ in range(_TRIES):
        _nothing()
    return time.perf_counter() - began


def _nothing() -> None: ...


def _number_of_new_thread() -> int:
    """Start a thread and return the number of its state: one more than that of the thread before."""
    current, number = ctypes.pythonapi.PyThreadState_Get, ctypes.pythonapi.PyThreadState_GetID
    current.restype, number.restype, number.argtypes = ctypes.c_void_p, ctypes.c_uint64, [ctypes.c_void_p]
    found = list[int]()
    thread = threading.Thread(target=lambda: found.append(number(current())))
    thread.start()
    thread.join()
    return found[0]
