"""Tools that observe this process, and coverage.py suspended."""

import asyncio
import cProfile
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.tracers import CoverageTracer, FakeMonitoring

from pytest_hwperf.host.tracing import lasting_tracers, trace_conditions, tracers, untraced, untraced_wait


@pytest.fixture(autouse=True)
def _unobserved() -> Iterator[None]:
    """Take away whatever observes the tests themselves."""
    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)


@pytest.fixture
def monitoring(monkeypatch: pytest.MonkeyPatch) -> FakeMonitoring:
    """Stand for that of Python 3.12 and later, whose tools of this process are left alone."""
    fake = FakeMonitoring()
    monkeypatch.setattr(sys, "monitoring", fake, raising=False)
    return fake


@contextmanager
def traced(set_it: Callable[[Any], None], tool: object) -> Iterator[None]:
    set_it(tool)
    try:
        yield
    finally:
        set_it(None)


def test_nothing_observes_by_default(monitoring: FakeMonitoring) -> None:
    assert ((), {}) == (tracers(), trace_conditions())
    assert not monitoring.changes


@pytest.mark.usefixtures("monitoring")
def test_a_trace_function_is_named_by_its_package() -> None:
    def follow(*_: object) -> None:
        return None

    with traced(sys.settrace, follow):
        found = tracers()
    assert (__name__.partition(".")[0],) == found


@pytest.mark.usefixtures("monitoring")
def test_a_debugger_is_named_by_the_object_that_its_function_is_bound_to() -> None:
    class Debugger:
        __module__ = "pdb"

        def follow(self, *_: object) -> None:
            return None

    with traced(sys.settrace, Debugger().follow):
        found = lasting_tracers()
    assert ("pdb",) == found


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cProfile is a tool of sys.monitoring there")
def test_a_profiler_is_named() -> None:
    with cProfile.Profile():
        found = lasting_tracers()
    assert ("cProfile",) == found


@pytest.mark.usefixtures("monitoring")
def test_tracemalloc_is_named() -> None:
    was = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        assert ("tracemalloc",) == lasting_tracers()
        assert {"traced_by": "tracemalloc"} == trace_conditions()
    finally:
        if not was:
            tracemalloc.stop()


@pytest.mark.usefixtures("monitoring")
def test_memray_is_known_by_what_it_does_to_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        return None

    start.__module__ = "memray._memray"
    monkeypatch.setattr(threading, "getprofile", lambda: start)
    assert ("memray",) == lasting_tracers()


def test_tools_of_monitoring_are_named(monitoring: FakeMonitoring) -> None:
    monitoring.tools.update({0: "pydevd", 1: "coverage.py"})
    assert ("coverage.py", "pydevd") == tracers()
    assert ("pydevd",) == lasting_tracers()
    assert {"traced_by": "coverage.py (suspended), pydevd"} == trace_conditions()


@pytest.mark.usefixtures("monitoring")
def test_coverage_does_not_see_an_untraced_call() -> None:
    """And it sees what follows, whatever becomes of the call."""
    tracer = CoverageTracer()

    def call() -> int:
        return 1 // 0

    with traced(sys.settrace, tracer):
        found = lasting_tracers(), trace_conditions()
        with pytest.raises(ZeroDivisionError):
            untraced(call)
        given_back = sys.gettrace() is tracer
    assert ((), {"traced_by": "coverage.py (suspended)"}) == found
    assert given_back
    assert "call" not in tracer.seen
    assert "untraced" in tracer.seen


@pytest.mark.usefixtures("monitoring")
def test_coverage_does_not_see_threads_of_an_untraced_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of one that waits; and it sees the threads that begin later."""
    tracer = CoverageTracer()

    def in_thread() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    def call() -> None:
        return None

    async def wait() -> None:
        in_thread()

    monkeypatch.setattr(threading, "_trace_hook", tracer)
    with traced(sys.settrace, tracer):
        untraced(in_thread)
        asyncio.run(untraced_wait(wait()))
        unseen = "call" not in tracer.seen
        in_thread()
    assert unseen
    assert "call" in tracer.seen


def test_coverage_by_monitoring_does_not_see_an_untraced_call(monitoring: FakeMonitoring) -> None:
    monitoring.tools.update({1: "coverage.py", 2: "another"})
    monitoring.events.update({1: 5, 2: 7})
    assert 3 == untraced(lambda: 3)
    assert [(1, 0), (1, 5)] == monitoring.changes


@pytest.mark.usefixtures("monitoring")
def test_another_tool_is_left_alone() -> None:
    seen = list[str]()

    def follow(frame: object, *_: object) -> None:
        seen.append(frame.f_code.co_name)  # type: ignore[attr-defined] # a frame

    def call() -> None:
        return None

    with traced(sys.settrace, follow):
        untraced(call)
    assert "call" in seen


@pytest.mark.parametrize(
    ("torch", "seen"),
    [
        (SimpleNamespace(autograd=SimpleNamespace(_profiler_enabled=lambda: True)), True),
        (SimpleNamespace(autograd=SimpleNamespace(_profiler_enabled=lambda: False)), False),
        (SimpleNamespace(), False),  # a version that does not tell
    ],
)
def test_the_profiler_of_pytorch_is_seen(torch: Any, seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert seen == ("torch.profiler" in lasting_tracers())
