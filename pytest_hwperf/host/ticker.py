"""A thread beside a block, such as one that tells, several times a second, how long the block has run."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

_EVERY_S = 0.2  # often enough for an eye, and too seldom to disturb what runs


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread of its own until the event that it is given is set: the block is over.

    The thread has ended when the block is left, so that nothing of it falls into what is timed then.
    """
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), daemon=True, name="hwperf-progress")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def ticking(tell: Callable[[float], None]) -> Iterator[None]:
    """Call `tell` with the seconds so far until the block is over."""
    began = monotonic()

    def tick(over: threading.Event) -> None:
        while not over.wait(_EVERY_S):
            tell(monotonic() - began)

    with beside(tick):
        yield
