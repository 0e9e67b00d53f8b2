"""The processor on which a thread runs: the sides of a pair share one while they take turns.

Standard library only: it is loaded in the processes that are measured.
"""

import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


def processors(thread: int = 0) -> tuple[int, ...]:
    """Return the processors that a thread may run on, by number; none where the platform does not say."""
    return tuple(sorted(os.sched_getaffinity(thread))) if hasattr(os, "sched_getaffinity") else ()


def threads_here() -> tuple[int, ...]:
    """Return the ids of this process's threads; none where the system does not list them."""
    try:
        return tuple(int(entry.name) for entry in Path("/proc/self/task").iterdir())
    except FileNotFoundError:
        return ()


def _allow(thread: int, numbers: Iterable[int]) -> None:
    os.sched_setaffinity(thread, numbers)  # looked up now: some platforms have none


@dataclass(slots=True)
class CpuPin:
    """Keeps a thread on one processor for a while; threads that exist already stay where they are.

    References:
        sched_setaffinity(2): a process id of 0 is the calling thread, that of a thread another one; threads that a
        thread starts inherit its processors.
    """

    allowed: Callable[[int], Collection[int]] = processors  # returns the processors of a thread, 0 = the calling one
    allow: Callable[[int, Iterable[int]], None] = _allow  # sets them
    threads: Callable[[], Iterable[int]] = threads_here  # returns the ids of all threads of this process
    thread: int = 0  # id of the one to keep, 0 = the calling one
    _before: frozenset[int] = frozenset()  # processors to go back to; empty: not pinned
    _older: frozenset[int] = frozenset()  # threads that were there before
    _pin: frozenset[int] = frozenset()

    def pin(self, number: int) -> str:
        """Stay on processor `number` until `release`; return why that cannot be, "" where it can."""
        allowed, older = frozenset(self.allowed(self.thread)), frozenset(self.threads())
        if number not in allowed:
            return f"may run on processors {', '.join(map(str, sorted(allowed))) or 'unknown'} only"
        try:
            self.allow(self.thread, {number})
        except OSError as error:
            return f"cannot choose its processor ({error.strerror})"
        self._before, self._older, self._pin = allowed, older, frozenset({number})
        return ""

    def release(self) -> None:
        """Run wherever it was allowed to before, and let threads do so that have inherited the pin meanwhile."""
        before, self._before = self._before, frozenset()
        if not before:
            return
        for thread in (self.thread, *(thread for thread in self.threads() if thread not in self._older)):
            # A thread that has ended meanwhile is no loss; a cpuset that has shrunk has set the processors itself.
            with suppress(OSError):
                if frozenset(self.allowed(thread)) == self._pin:
                    self.allow(thread, before)
