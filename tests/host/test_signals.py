"""Signals reach processes that were started here, and nothing else, whatever a fake gives as their number."""

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import pytest_hwperf
from pytest_hwperf.host import launch, signals
from pytest_hwperf.records.errors import WorkerError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no groups of processes")

SENDS = {"kill", "killpg", "send_signal", "terminate", "pidfd_send_signal", "raise_signal"}


class Number(int):
    """A number of a class of its own."""


class Index:
    """What an operating system takes for the number 1."""

    def __index__(self) -> int:
        return 1


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object, int]]:
    """Record signals in the place of the system: nothing is ever sent."""
    found: list[tuple[str, object, int]] = []
    for name in ("kill", "killpg"):
        monkeypatch.setattr(os, name, lambda number, kind, name=name: found.append((name, number, kind)))
    if sys.platform == "linux":
        monkeypatch.setattr(signal, "pidfd_send_signal", lambda handle, kind: found.append(("handle", handle, kind)))
    return found


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that ends when its input does."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        signals.own(process)
        yield process
        signals.let_go(process.pid)


@pytest.mark.parametrize(
    "number",
    [MagicMock(), Index(), Number(os.getppid()), True, 1, 0, -1, -os.getppid(), 2.0, "2", None, os.getppid()],
    ids=lambda number: f"{type(number).__name__} {number if isinstance(number, int) else ''}",
)
def test_nothing_is_sent_to_what_was_not_started_here(sent: list[tuple[str, object, int]], number: Any) -> None:
    """Whether it is no number at all, one that means many processes, or that of a process of somebody else."""
    process = MagicMock(pid=number)
    launch.end_group(process)
    launch.end_group(process, at_once=False)
    launch.Launched(process=process, log=Path(os.devnull)).interrupt()
    launch.hold(number, still=True)
    signals.send(number, signal.SIGTERM)
    signals.send_to_group(number, signal.SIGTERM)
    assert [] == sent
    assert not process.kill.called
    assert not process.send_signal.called


def test_what_no_popen_has_started_is_refused() -> None:
    """Before its number is told to the guard, which would end the group of that number."""
    for process in (MagicMock(), MagicMock(pid=os.getppid()), None):
        with pytest.raises(WorkerError, match=r"subprocess\.Popen is faked"):
            signals.own(process)


@pytest.mark.parametrize("number", [MagicMock(), True, 1, -5, Index()], ids=lambda number: type(number).__name__)
def test_a_fork_is_told_by_a_number(number: object) -> None:
    with pytest.raises(WorkerError, match="is no number of a process"):
        signals.own_child(number)


def test_an_own_process_gets_its_signals_by_a_handle(
    child: "subprocess.Popen[bytes]", sent: list[tuple[str, object, int]]
) -> None:
    """Popen looks first whether it has ended; its group is known by its number."""
    signals.send(child.pid, signal.SIGCONT)
    signals.send_to_group(child.pid, signal.SIGCONT)
    assert [("kill", child.pid, signal.SIGCONT), ("killpg", child.pid, signal.SIGCONT)] == sent


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no handles of processes on this system")
def test_a_forked_process_is_meant_by_a_descriptor(
    child: "subprocess.Popen[bytes]", sent: list[tuple[str, object, int]]
) -> None:
    signals.own_child(child.pid)
    signals.send(child.pid, signal.SIGCONT)
    (way, handle, kind), *rest = sent
    assert ("handle", signal.SIGCONT, []) == (way, kind, rest)
    assert isinstance(handle, int)
    signals.let_go(child.pid)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


def test_a_process_that_was_let_go_gets_none(
    child: "subprocess.Popen[bytes]", sent: list[tuple[str, object, int]]
) -> None:
    """Its number may be another's by now."""
    signals.let_go(child.pid)
    signals.send(child.pid, signal.SIGCONT)
    signals.send_to_group(child.pid, signal.SIGCONT)
    assert [] == sent


def test_a_group_whose_number_is_another_process_by_now_gets_none(
    child: "subprocess.Popen[bytes]", sent: list[tuple[str, object, int]]
) -> None:
    """The own leader was waited for, and yet a process has that number; without one, what is left of it is meant."""
    child.returncode = 0
    signals.send_to_group(child.pid, signal.SIGKILL)
    assert [] == sent
    child.returncode = None
    child.communicate()
    signals.send_to_group(child.pid, signal.SIGKILL)
    assert [("killpg", child.pid, signal.SIGKILL)] == sent


def test_signals_are_sent_in_one_place() -> None:
    """The guard, a program of its own, sends those that end what a killed run has left."""
    root = Path(pytest_hwperf.__file__).parent
    senders = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SENDS
    }
    # The last one: on Windows psutil ends what a process has started.
    assert {"host/signals.py", "host/guard.py", "host/launch.py"} == senders
