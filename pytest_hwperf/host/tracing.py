"""What observes this process as it runs: coverage.py, debuggers, profilers; each makes what is measured slower."""

import os
import sys
import threading
import tracemalloc
from collections.abc import Callable, Coroutine, Mapping
from types import CodeType
from typing import Any, TypeVar

from pytest_hwperf.stats.changed_code import MODULE, key_of

T = TypeVar("T")

_COVERAGE = "coverage.py"
_OWN = "hwperf-affected"  # in rehearsals alone, whose times are discarded
_TOOLS = range(6)  # identifiers of tools of `sys.monitoring`
_KNOWN: Mapping[str, str] = {"coverage": _COVERAGE, "pdb": "pdb", "bdb": "pdb", "cProfile": "cProfile"}


def tracers() -> tuple[str, ...]:
    """Return the name of each tool that observes this thread or the memory of this process, in alphabetical order."""
    found = {_name_of(tracer) for tracer in (sys.gettrace(), sys.getprofile()) if tracer is not None}
    found.update(_monitoring().values())
    if _package(threading.getprofile()) == "memray":  # of which the profile function of a thread shows nothing
        found.add("memray")
    if _torch_profiles(sys.modules.get("torch")):
        found.add("torch.profiler")
    if tracemalloc.is_tracing():
        found.add("tracemalloc")
    return tuple(sorted(found - {_OWN}))


def lasting_tracers() -> tuple[str, ...]:
    """Return those that `untraced` does not suspend: a debugger would lose its place, and a profiler its frames."""
    return tuple(name for name in tracers() if name != _COVERAGE)


def trace_conditions() -> dict[str, str]:
    """Return what a run says of the tools that observed its process; nothing without any."""
    lasting = lasting_tracers()
    seen = [name if name in lasting else f"{name} (suspended)" for name in tracers()]
    return {"traced_by": ", ".join(seen)} if seen else {}


def untraced(call: Callable[[], T]) -> T:
    """Make a call that coverage.py does not observe, and return its value.

    The trace function is taken away and given back in one frame: it counts the frames that it has seen begin and end.
    """
    tracer = sys.gettrace()
    suspended = tracer is not None and _name_of(tracer) == _COVERAGE
    monitoring: Any = getattr(sys, "monitoring", None)
    events = {tool: monitoring.get_events(tool) for tool, name in _monitoring().items() if name == _COVERAGE}
    if suspended:
        sys.settrace(None)
    for tool in events:
        monitoring.set_events(tool, 0)
    try:
        return call()
    finally:
        for tool, mask in events.items():
            monitoring.set_events(tool, mask)
        if suspended:
            sys.settrace(tracer)


async def untraced_wait(work: Coroutine[Any, Any, T]) -> T:
    """Await something that coverage.py does not observe, and return its value: as `untraced`, in one frame too."""
    tracer = sys.gettrace()
    suspended = tracer is not None and _name_of(tracer) == _COVERAGE
    if suspended:  # tools of `sys.monitoring` observe all threads: who measures has suspended them
        sys.settrace(None)
    try:
        return await work
    finally:
        if suspended:
            sys.settrace(tracer)


def _torch_profiles(torch: Any) -> bool:
    """Whether PyTorch's profiler notes each operator, which takes microseconds; None where it is not imported."""
    enabled = getattr(getattr(torch, "autograd", None), "_profiler_enabled", None)
    return enabled is not None and bool(enabled())


def _monitoring() -> dict[int, str]:
    """Return the tools of `sys.monitoring`, which Python has from 3.12 on: identifier → name."""
    monitoring: Any = getattr(sys, "monitoring", None)
    named = {tool: monitoring.get_tool(tool) for tool in _TOOLS} if monitoring else {}
    return {tool: str(name) for tool, name in named.items() if name is not None}


def _name_of(tracer: Any) -> str:
    """Return the name of the tool that a trace or profile function belongs to."""
    package = _package(tracer)
    return _KNOWN.get(package, package)


def _package(function: Any) -> str:
    """Return the top-level package of a function, of the object that it is bound to, or of a callable object."""
    owner = getattr(function, "__self__", None)
    known = type(owner) if owner is not None and not isinstance(owner, type(sys)) else function
    module = getattr(known, "__module__", None) or type(function).__module__
    return str(module).partition(".")[0]


_FREE_TOOLS = (4, 3, 5, 1, 0)  # of `sys.monitoring`, from the one that others use least
_FINDS_MODULES = ("<frozen importlib._bootstrap_external>", "FileFinder.find_spec")


class CodeWatch:
    """Code that is watched."""

    def __init__(
        self, files: Mapping[str, tuple[str, ...]], ran: Callable[[str], None], looked_for: Callable[[str], None]
    ) -> None:
        """Watch from `begin` on."""
        self._files = files
        self._ran = ran
        self._looked_for = looked_for
        self._paths: dict[str, str] = {}  # of a file as code names it → links resolved

    def begin(self) -> None:
        """Be told of all code that is run from now on, in every thread."""
        monitoring: Any = vars(sys)["monitoring"]
        tool = next((one for one in _FREE_TOOLS if monitoring.get_tool(one) is None), None)
        if tool is None:
            raise OSError("all tools of sys.monitoring are in use")
        monitoring.use_tool_id(tool, _OWN)
        monitoring.register_callback(tool, monitoring.events.PY_START, self._started)
        monitoring.set_events(tool, monitoring.events.PY_START)

    def is_watched(self, code: CodeType) -> bool:
        """Whether it is code that was asked about."""
        keys = self._files.get(self._path(code.co_filename))
        return keys is not None and (MODULE in keys or key_of(code) in keys)

    def _started(self, code: CodeType, _: int) -> object:
        """Tell of code that begins; of other code no more is to be heard."""
        if (code.co_filename, code.co_qualname) == _FINDS_MODULES:
            self._looked_for(str(sys._getframe(1).f_locals.get("fullname", "")))  # noqa: SLF001 - the frame that begins
        elif self.is_watched(code):
            self._ran(f"{self._path(code.co_filename)}::{code.co_qualname}")
        else:
            return vars(sys)["monitoring"].DISABLE
        return None

    def _path(self, name: str) -> str:
        if name not in self._paths:
            self._paths[name] = os.path.realpath(name)
        return self._paths[name]
