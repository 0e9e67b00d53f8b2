"""A thread that tells, several times a second, how long something has run."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

_EVERY_S = 0.2  # often enough for an eye, and too seldom to disturb what runs


@contextmanager
def ticking(tell: Callable[[float], None]) -> Iterator[None]:
    """Call `tell` with the seconds so far until the block is over."""
    began, over = monotonic(), threading.Event()

    def tick() -> None:
        while not over.wait(_EVERY_S):
            tell(monotonic() - began)

    thread = threading.Thread(target=tick, daemon=True, name="hwperf-progress")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
