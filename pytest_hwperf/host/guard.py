"""The guard of a fresh process: it ends the process with all it has started, if whoever launched it dies first.

`python -I -S guard.py LAUNCHER GROUP`, started with a pipe as its standard input. It does nothing until the launcher
dies, by whatever signal; a launcher that lives kills it.
"""

import os
import select
import signal
import sys
from contextlib import suppress


def wait_for_end(launcher: int) -> None:
    """Return when the launcher is gone: its end of the pipe is closed, even if a forked child still holds it open."""
    waiting = [sys.stdin.fileno()]
    if hasattr(os, "pidfd_open"):  # Linux
        with suppress(OSError):  # gone already, or an old kernel
            waiting.append(os.pidfd_open(launcher))
    if os.getppid() == launcher:
        select.select(waiting, [], [])


def main() -> None:
    """Wait for the end of the launcher, then kill the process group; a stopped process dies of this too."""
    launcher, group = map(int, sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait_for_end(launcher)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
