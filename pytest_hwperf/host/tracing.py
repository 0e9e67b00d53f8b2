"""What observes this process as it runs: coverage.py, debuggers, profilers; each makes what is measured slower."""

import sys
import threading
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pytest_hwperf.host.fakes import faked_clock
from pytest_hwperf.records.messages import Statement, state

T = TypeVar("T")

_COVERAGE = "coverage.py"
AFFECTED = "hwperf-affected"  # in rehearsals alone, whose times are discarded
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
    return tuple(sorted(found - {AFFECTED}))


def lasting_tracers() -> tuple[str, ...]:
    """Return those that `untraced` does not suspend: a debugger would lose its place, and a profiler its frames."""
    return tuple(name for name in tracers() if name != _COVERAGE)


def why_untimed() -> Statement | None:
    """Say why no call can be timed in this process; None where one can."""
    if seen := lasting_tracers():
        return state("traced", by=", ".join(seen))
    if clock := faked_clock():
        return state("clock faked", clock=clock)
    return None


def trace_conditions() -> dict[str, str]:
    """Return what a run says of the tools that observed its process; nothing without any."""
    lasting = lasting_tracers()
    seen = [name if name in lasting else f"{name} (suspended)" for name in tracers()]
    return {"traced_by": ", ".join(seen)} if seen else {}


def untraced(call: Callable[[], T]) -> T:
    """Make a call that coverage.py does not observe, nor threads that it starts, and return its value.

    The trace function is taken away and given back in one frame: it counts the frames that it has seen begin and end.
    """
    tracer = sys.gettrace()
    suspended = _of_coverage(tracer)
    monitoring: Any = getattr(sys, "monitoring", None)
    events = {tool: monitoring.get_events(tool) for tool, name in _monitoring().items() if name == _COVERAGE}
    if suspended:
        sys.settrace(None)
    for tool in events:
        monitoring.set_events(tool, 0)
    try:
        with _threads_untraced():
            return call()
    finally:
        for tool, mask in events.items():
            monitoring.set_events(tool, mask)
        if suspended:
            sys.settrace(tracer)


async def untraced_wait(work: Coroutine[Any, Any, T]) -> T:
    """Await something that coverage.py does not observe, and return its value: as `untraced`, in one frame too."""
    tracer = sys.gettrace()
    suspended = _of_coverage(tracer)
    if suspended:  # tools of `sys.monitoring` observe all threads: who measures has suspended them
        sys.settrace(None)
    try:
        with _threads_untraced():
            return await work
    finally:
        if suspended:
            sys.settrace(tracer)


@contextmanager
def _threads_untraced() -> Iterator[None]:
    """Let threads that begin meanwhile, such as those of a load, begin without coverage.py."""
    tracer = threading.gettrace()
    if _of_coverage(tracer):
        threading.settrace(None)
    try:
        yield
    finally:
        if tracer is not None and _of_coverage(tracer):
            threading.settrace(tracer)


def _of_coverage(tracer: Any) -> bool:
    return tracer is not None and _name_of(tracer) == _COVERAGE


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
