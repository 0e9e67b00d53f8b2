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

PROCESSES = "/proc"
_ROUNDS, _PAUSE_S = 100, 0.01  # of looking for marked processes: one that was killed takes its time to go
_CLEAN_ROUNDS = 2  # one that was listed first may have started another after the list was made, and have ended
_SIZE, _ENVIRONMENT_START, _ENVIRONMENT_END = 20, 47, 48  # of the fields of /proc/PID/stat after the name: proc(5)


def wait_for_end(launcher: int) -> bytes:
    """Return what the launcher has written when it is gone.

    Its end of the pipe is closed then, unless a forked child still holds it open.
    """
    pipe, written = sys.stdin.fileno(), b""
    waiting = [pipe]
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # gone already, an old kernel, a Python for older systems
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
    clean = 0
    for _ in range(_ROUNDS):
        try:
            processes = [int(name) for name in os.listdir(PROCESSES) if name.isdigit()]  # noqa: PTH208 - of many names
        except OSError:
            return
        if [process for process in processes if _kill(process, f"{mark}=".encode())]:
            clean = 0
            time.sleep(_PAUSE_S)
        elif (clean := clean + 1) == _CLEAN_ROUNDS:
            return


def _kill(process: int, mark: bytes) -> bool:
    """Kill a process that has the mark; whether it had it or may yet. Its number may be another's a moment later."""
    if sys.platform != "linux":
        return False
    try:
        environment = _environment(process)
        if mark not in environment:
            return not environment and _is_in_exec(process)
        try:
            descriptor = os.pidfd_open(process)  # means this process, whatever becomes of its number
        except ProcessLookupError:
            return False
        except (AttributeError, OSError):  # a Python for older systems, an old kernel, a sandbox that refuses the call
            os.kill(process, signal.SIGKILL)
            return True
        try:
            if mark in _environment(process):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
    except OSError:  # it is gone, or belongs to another user
        return False
    return True


def _environment(process: int) -> bytes:
    with open(f"{PROCESSES}/{process}/environ", "rb") as environment:  # noqa: PTH123 - pathlib takes longer to import
        return environment.read()


def _is_in_exec(process: int) -> bool:
    """Tell whether a process without environment is about to get it: for some 100 µs `execve` shows none.

    Unlike that of a kernel thread or zombie its memory has a size; unlike one that was started without any
    environment, whose end is its start, it has no place for it yet.
    """
    with open(f"{PROCESSES}/{process}/stat", "rb") as file:  # noqa: PTH123 - as above
        fields = file.read().rpartition(b")")[2].split()
    size, start, end = (int(fields[place]) for place in (_SIZE, _ENVIRONMENT_START, _ENVIRONMENT_END))
    return size > 0 and (end == 0 or end != start)


def main() -> None:
    """Wait for the end of the launcher, then kill the process group; a stopped process dies of this too."""
    if sys.platform == "win32":
        return
    launcher, mark = int(sys.argv[1]), sys.argv[2]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    group = wait_for_end(launcher)
    if group and int(group) > 1:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(int(group), signal.SIGKILL)
    end_marked(mark)


if __name__ == "__main__":
    main()
