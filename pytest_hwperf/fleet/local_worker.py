"""What dask loads into a worker of this machine: Ctrl-C in a terminal reaches it too, but is the fleet's to answer."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# What terminals and CI systems send to all processes of a group.
_TO_ALL = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def deaf() -> Iterator[None]:
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
        signal.signal(number, _live_on)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TO_ALL)


def _live_on(signum: int, frame: FrameType | None) -> None:
    del signum, frame
