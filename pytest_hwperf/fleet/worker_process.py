"""What ends the processes of dask, and what does not: a worker of this machine, and a program over SSH.

`python -m pytest_hwperf.fleet.worker_process -m MODULE [ARGUMENT ...]` ends with its connection. Without a terminal a
server of SSH sends no signal when the connection is gone, whether it was closed, the other side was killed or its
network has failed; and some servers pass on no signal at all. But it closes the standard input.
dask loads this module into the workers of this machine too: Ctrl-C in a terminal reaches them, but is the fleet's to
answer.
"""

import os
import runpy
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep
from types import FrameType

from pytest_hwperf.host.workdirs import workdir

_GRACE_S = 20.0  # to end by itself after SIGTERM
# What terminals and CI systems send to all processes of a group.
_TO_ALL = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Let processes that are started meanwhile take no such signal until `dask_setup`; here they wait for the end."""
    if not hasattr(signal, "pthread_sigmask"):  # not POSIX
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TO_ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def dask_setup(_: object) -> None:
    """Let the worker live on until the fleet ends it, which its gate needs to remove what it has made.

    A handler that does nothing, since what is ignored or blocked would be so in the programs of the gate as well.
    """
    for number in _TO_ALL:
        signal.signal(number, _ignore)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TO_ALL)


def _ignore(signum: int, frame: FrameType | None) -> None:
    del signum, frame


def main() -> None:
    """Run a module as a program until the standard input is closed; what dask writes goes with it."""
    _, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    with workdir() as folder:
        os.environ["DASK_TEMPORARY_DIRECTORY"] = str(folder)
        threading.Thread(target=end_with, args=(sys.stdin.fileno(),), daemon=True).start()
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def end_with(descriptor: int) -> None:
    """End this process when a descriptor is closed: by SIGTERM, which lets dask end its work, then at once."""
    while os.read(descriptor, 1 << 12):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(_GRACE_S)
    os._exit(1)


if __name__ == "__main__":
    main()
