"""The guard of a fresh process: it ends the process with all it has started, if whoever launched it dies first.

`python -I -S guard.py LAUNCHER MARK`, started with a pipe as its standard input, by which it is told the process group.
It does nothing until the launcher dies, by whatever signal; a launcher that lives kills it.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress

_ROUNDS, _PAUSE_S = 100, 0.01  # of looking for marked processes: one that was killed takes its time to go


def wait_for_end(launcher: int) -> bytes:
    """Return what the launcher has written when it is gone.

    Its end of the pipe is closed then, unless a forked child still holds it open.
    """
    pipe, written = sys.stdin.fileno(), b""
    waiting = [pipe]
    if hasattr(os, "pidfd_open"):  # Linux
        with suppress(OSError):  # gone already, or an old kernel
            waiting.append(os.pidfd_open(launcher))
    while pipe in select.select(waiting, [], [], None if os.getppid() == launcher else 0)[0]:
        part = os.read(pipe, 64)
        if not part:
            break
        written += part
    return written


def end_marked(mark: str) -> None:
    """Kill all processes in whose environment this variable is set, until there are none: they may start others.

    Those that have left their process group are found by it, where the system shows environments (Linux).
    """
    for _ in range(_ROUNDS):
        try:
            processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - of many names
        except OSError:
            return
        if not [process for process in processes if _kill(process, f"{mark}=".encode())]:
            return
        time.sleep(_PAUSE_S)


def _kill(process: int, mark: bytes) -> bool:
    """Kill a process that has the mark; whether it had it. Its number may be another's a moment later."""
    try:
        if not _is_marked(process, mark):
            return False
        descriptor = _descriptor(process)
        if descriptor is None:
            os.kill(process, signal.SIGKILL)
            return True
        try:
            if _is_marked(process, mark):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
    except OSError:  # it is gone, or belongs to another user
        return False
    return True


def _descriptor(process: int) -> int | None:
    """Return a descriptor that means this process, whatever becomes of its number; None where the system gives none.

    Raises:
        ProcessLookupError: it is gone.
    """
    if not hasattr(os, "pidfd_open"):  # a Python that was built for older systems
        return None
    try:
        return os.pidfd_open(process)
    except ProcessLookupError:
        raise
    except OSError:  # an old kernel, or a sandbox that refuses the call
        return None


def _is_marked(process: int, mark: bytes) -> bool:
    with open(f"/proc/{process}/environ", "rb") as environment:  # noqa: PTH123 - pathlib takes longer to import
        return mark in environment.read()


def main() -> None:
    """Wait for the end of the launcher, then kill the process group; a stopped process dies of this too."""
    launcher, mark = int(sys.argv[1]), sys.argv[2]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    group = wait_for_end(launcher)
    if group:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(int(group), signal.SIGKILL)
    end_marked(mark)


if __name__ == "__main__":
    main()
