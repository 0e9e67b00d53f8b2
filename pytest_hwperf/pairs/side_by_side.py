"""Pairs side by side: which processors each takes its turns on, and how one that fails ends the others."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from pytest_hwperf.host.interruption import uninterrupted

T = TypeVar("T")


def shared_out(processors: Sequence[int], pairs: int) -> list[Sequence[int]]:
    """Return the processors of each of so many pairs: none is in two of them."""
    return [processors[pair::pairs] for pair in range(pairs)]


def run_side_by_side(jobs: Sequence[Callable[[], T]], stop: Event) -> list[T]:
    """Run jobs at the same time, the first of them in this thread; return what they return, in their order.

    Signals reach the main thread only, and the first job as if it was alone. Where it, or one of the others, is ended
    by an error, `stop` is set: the other jobs end themselves then, and are waited for.
    """
    first, *others = jobs
    if not others:
        return [first()]
    with ThreadPoolExecutor(len(others)) as pool:
        try:
            with uninterrupted():
                beside = [pool.submit(job) for job in others]
            return [first(), *(job.result() for job in beside)]
        except BaseException:
            stop.set()
            with uninterrupted():
                pool.shutdown()
            raise
