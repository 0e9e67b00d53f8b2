"""An end for what dask has started, also if a signal comes meanwhile, or the other side says nothing any more."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar

from pytest_hwperf.host.interruption import uninterrupted

_CLOSE_S = 10.0


_OF_DASK = (TimeoutError, OSError, RuntimeError, AssertionError)  # what its own close raises of a half-closed one


class Closable(Protocol):
    """A client or a cluster of dask."""

    def close(self, timeout: float) -> object:
        """End it within so many seconds."""


Closed = TypeVar("Closed", bound=Closable)


@contextmanager
def closing(what: Closed) -> Iterator[Closed]:
    """Close something of dask on exit, for which signals wait; what does not answer is let go of.

    What cannot be closed ends by itself: processes over SSH with their connection, local ones with this process.
    """
    try:
        yield what
    finally:
        with uninterrupted(), suppress(*_OF_DASK):
            what.close(timeout=_CLOSE_S)
