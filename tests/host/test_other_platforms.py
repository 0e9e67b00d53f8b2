"""What stands for Linux on macOS and Windows, as far as Linux can carry it out: `tox -e portable` shows the rest."""

import os
import subprocess
import sys
import threading
import time
from types import FrameType, SimpleNamespace

import pytest

from pytest_hwperf.host import clocks, launch, machine, signals, ticks


@pytest.fixture(params=["darwin", "win32"])
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The platform, as these modules are told."""
    for module in (clocks, launch, ticks):
        told = {name: getattr(sys, name) for name in ("getswitchinterval", "setswitchinterval", "_current_frames")}
        monkeypatch.setattr(module, "sys", SimpleNamespace(platform=request.param, **told))
    return str(request.param)


@pytest.fixture
def child() -> "subprocess.Popen[bytes]":
    """A process that computes for a moment, tells so, and waits."""
    code = "x = bytearray(20_000_000); sum(range(3_000_000)); print(flush=True); input()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    return process


def test_what_living_children_use_is_counted(elsewhere: str, child: "subprocess.Popen[bytes]") -> None:
    """Windows counts what they hold now alone."""
    assert elsewhere
    with child:
        assert clocks.has_children()
        assert 0.005 < clocks.cpu_seconds_of_children()
        assert 20_000_000 < clocks.touched_by_children()
        assert 0.0 < clocks.cpu_seconds()
        child.kill()
    assert not clocks.has_children()


def test_what_is_not_counted_is_none(elsewhere: str) -> None:
    assert (None, 4 if elsewhere == "darwin" else 0) == (clocks.interruptions(), len(clocks.used_by_ended()))
    assert ({}, time.thread_time_ns) == (clocks.ns_of_threads(), clocks.clock_of(threading.current_thread()))


def test_a_process_is_ended_with_what_it_has_started(
    elsewhere: str, child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """MacOS refuses a group of one process that has ended and that nobody has waited for."""

    def refused(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refused)
    with child:
        signals.own(child)
        launch.end_group(child)
        if elsewhere == "win32":
            assert child.wait(10) < 0
            launch.end_group(child)  # it is gone
        child.kill()
    signals.let_go(child.pid)
    assert launch.is_child_of(os.getppid())


def test_a_side_has_its_socket(elsewhere: str) -> None:
    ours, theirs = launch.sockets()
    with ours, theirs:
        ours.sendall(b"x")
        assert b"x" == theirs.recv(1)
        given = launch.inherited([]) if elsewhere == "win32" else launch.inherited([theirs.fileno()])
        assert ({"close_fds": True} if elsewhere == "win32" else {"pass_fds": [theirs.fileno()]}) == given


def test_a_thread_sees_what_the_main_thread_does_where_there_is_no_timer(elsewhere: str) -> None:
    seen = list[str]()

    def take(frame: FrameType | None) -> None:
        seen.append(frame.f_code.co_name if frame else "")

    def computes() -> None:
        while len(seen) < 3:
            pass

    before = sys.getswitchinterval()
    with ticks.ticking(0.001, take):
        computes()
    assert elsewhere
    assert "computes" in seen
    assert before == pytest.approx(sys.getswitchinterval(), rel=0.01)


def test_what_a_platform_lacks_is_told_in_lines() -> None:
    assert () == machine.lacking("linux")
    assert [6, 10] == [len(machine.lacking(platform)) for platform in ("darwin", "win32")]
