"""Ctrl-C, SIGTERM and SIGHUP end a run in the same way: what it has started is ended, what it has made is removed."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# A signal that is ignored (nohup), or that someone else handles, is left as it is. SIGHUP: the terminal is gone.
_USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
if hasattr(signal, "SIGHUP"):
    _USUAL[signal.SIGHUP] = signal.SIG_DFL


class Interruption:
    """The handler of all these signals: it raises KeyboardInterrupt, but not while something is made or removed."""

    def __init__(self) -> None:
        self.held = 0  # while above 0, signals wait; `held += 1` itself is never interrupted, as a call may be
        self._waits = False
        self._raised = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Interrupt once; after that only Ctrl-C does again, since CI systems send several signals in a row."""
        del frame
        if self._raised and signum != signal.SIGINT:
            return
        self._waits = True
        self._raise_if_free()

    def release(self) -> None:
        """Take one from `held`; a signal that has come meanwhile interrupts now."""
        self.held -= 1
        self._raise_if_free()

    def _raise_if_free(self) -> None:
        if self._waits and not self.held:
            self._waits, self._raised = False, True
            raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Let any of these signals raise KeyboardInterrupt in the main thread; yield the handler, also where it is in use.

    Elsewhere than in the main thread nothing is handled.
    """
    active = _active()
    if active is not None:
        yield active
        return
    handler, before = Interruption(), {}
    if threading.current_thread() is threading.main_thread():
        for number, usual in _USUAL.items():
            if signal.getsignal(number) == usual:
                before[number] = signal.signal(number, handler)
    try:
        yield handler
    finally:
        handler.held += 1
        for number, usual in before.items():
            signal.signal(number, usual)
        handler.release()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let these signals wait until the block has ended: what is started in it is also noted for its end."""
    handler = _active() or Interruption()
    handler.held += 1
    try:
        yield
    finally:
        handler.release()


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Let processes that are started meanwhile take no such signal until `outlive_signals`; here they wait."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _USUAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def outlive_signals() -> None:
    """Let these signals do nothing in this process: its parent ends it.

    A handler that does nothing, since what is ignored or blocked would be so in the programs that it starts as well.
    """
    for number in _USUAL:
        signal.signal(number, lambda *_: None)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _USUAL)


def _active() -> Interruption | None:
    if threading.current_thread() is threading.main_thread():
        for number in _USUAL:
            if isinstance(handler := signal.getsignal(number), Interruption):
                return handler
    return None
