"""On which processor a thread runs: the sides of a pair share one while they take turns.

Standard library only: it is loaded in the processes that are measured.
"""

import os
from collections.abc import Callable, Collection, Iterable


def processors() -> tuple[int, ...]:
    """Return the processors that the calling thread may run on, by number; none where the platform does not say."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


class Seat:
    """Keeps the calling thread on one processor for a while; threads that exist already stay where they are.

    References:
        sched_setaffinity(2): a process id of 0 is the calling thread, and threads that it starts inherit its mask.
    """

    def __init__(
        self,
        allowed: Callable[[], Collection[int]] = processors,
        allow: Callable[[Iterable[int]], None] = lambda numbers: os.sched_setaffinity(0, numbers),
    ) -> None:
        """Start without a seat.

        Args:
            allowed: returns the processors of the calling thread.
            allow: sets them.
        """
        self._allowed = allowed
        self._allow = allow
        self._before: frozenset[int] = frozenset()  # to go back to; empty: nothing is taken

    def take(self, number: int) -> str:
        """Stay on processor `number` until `leave`; return why that cannot be, "" where it can."""
        allowed = frozenset(self._allowed())
        if number not in allowed:
            return f"may run on processors {', '.join(map(str, sorted(allowed))) or 'unknown'} only"
        try:
            self._allow({number})
        except OSError as error:
            return f"cannot choose its processor ({error.strerror})"
        self._before = allowed
        return ""

    def leave(self) -> None:
        """Run wherever it was allowed to before."""
        if self._before:
            self._allow(self._before)
            self._before = frozenset()
