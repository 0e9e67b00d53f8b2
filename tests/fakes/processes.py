"""Whether processes have ended: who kills one only sends a signal, and the kernel takes its time."""

import time
from collections.abc import Iterator
from pathlib import Path

import psutil  # noqa: TID253 - only tests import this

_PATIENCE_S = 10.0


def ends(pid: int) -> bool:
    """Wait until a process that was killed is gone, or a zombie that its parent has yet to collect."""
    return any(not psutil.pid_exists(pid) or _is_zombie(pid) for _ in _waiting())


def left_in(*folders: Path) -> list[str]:
    """Wait until no process is at work below these folders; return the command lines of those that stay."""
    found: list[str] = []
    for _ in _waiting():
        found = processes_in(*folders)
        if not found:
            break
    return found


def processes_in(*folders: Path) -> list[str]:
    """Return the command lines of processes at work below these folders."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(Path(process.cwd()).is_relative_to(folder) for folder in folders):
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def _waiting() -> Iterator[None]:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        yield
        time.sleep(0.05)


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
