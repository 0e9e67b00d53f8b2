"""Signals to processes that this one has started and not let go of; the package sends none in another way.

A number below 2 would mean every process of the user, or this one's own group, and so may whatever is no number: a
fake of the tests has the index 1. The guard of a process, a program of its own, sends its signals itself.
"""

import os
import signal
import subprocess
import sys
from typing import Any, TypeGuard, cast

from pytest_hwperf.records.errors import WorkerError

_LEAST = 2
_NO_HANDLE = -1  # of a process that only its number means here
_Popen = subprocess.Popen  # as it is when this is loaded
_owned: "dict[int, subprocess.Popen[Any] | int]" = {}  # number → what means this process whoever has its number later

KILL = signal.SIGTERM  # on Windows it ends a process at once
if sys.platform != "win32":
    KILL = signal.SIGKILL


def own(process: object) -> None:
    """Note a process that was just started."""
    if not isinstance(process, _Popen) or not is_number(process.pid):
        raise WorkerError(f"subprocess.Popen is faked: it has started no process, and gave a {type(process).__name__}")
    _owned[process.pid] = process


def own_child(number: object) -> int:
    """Note a process that was forked, here or by an own process that reaps none; return its number."""
    if not is_number(number):
        raise WorkerError(f"{number!r} is no number of a process")
    _owned[number] = _NO_HANDLE
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        _owned[number] = os.pidfd_open(number)
    return number


def let_go(number: object) -> None:
    """Forget a process whose end was waited for: from now on its number may be another's."""
    handle = _owned.pop(number, None) if is_number(number) else None
    if isinstance(handle, int) and handle != _NO_HANDLE:
        os.close(handle)


def send(number: object, kind: int) -> None:
    """Send a signal to an own process; it may have ended."""
    handle = _owned.get(number) if is_number(number) else None
    if isinstance(handle, _Popen):
        handle.send_signal(kind)
    elif handle == _NO_HANDLE:
        os.kill(cast("int", number), kind)
    elif isinstance(handle, int) and sys.platform == "linux":
        signal.pidfd_send_signal(handle, kind)


def send_to_group(number: object, kind: int) -> None:
    """Send a signal to the group that an own process leads; all of it may have ended."""
    if sys.platform != "win32" and is_number(number) and is_own(number) and not _is_another(number):
        os.killpg(number, kind)


def send_to_this_process(kind: int) -> None:
    os.kill(os.getpid(), kind)


def is_own(number: object) -> bool:
    """Whether it is the number of a process that this one has started, and has not let go of."""
    return is_number(number) and number in _owned


def is_number(number: object) -> TypeGuard[int]:
    """Whether it can be the number of a single process that was started."""
    return type(number) is int and number >= _LEAST


def _is_another(number: int) -> bool:
    """Whether the own process of that number was reaped, and another process has the number now.

    As long as one member of the group lives, the system gives its number to no other process.
    """
    if sys.platform == "win32" or not _is_reaped(number):
        return False
    try:
        os.getpgid(number)
    except ProcessLookupError:
        return False
    return True


def _is_reaped(number: int) -> bool:
    handle = _owned[number]
    if isinstance(handle, _Popen):
        return handle.returncode is not None
    if sys.platform == "linux" and handle != _NO_HANDLE:
        try:
            signal.pidfd_send_signal(handle, 0)
        except ProcessLookupError:
            return True
    return False
