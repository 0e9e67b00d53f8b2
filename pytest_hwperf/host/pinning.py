"""Keep threads on processors: Linux can, macOS cannot, and Windows only for a whole process, which is too much."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.host.clocks import threads_here
from pytest_hwperf.host.files import read_text
from pytest_hwperf.records.units import counted


def processors(thread: int = 0) -> tuple[int, ...]:
    """Return the processors that a thread may run on, by number; none where the platform does not say."""
    return tuple(sorted(os.sched_getaffinity(thread))) if hasattr(os, "sched_getaffinity") else ()


def cores_first(numbers: Sequence[int], root: str | Path = "/") -> tuple[int, ...]:
    """Return processors in an order in which neighbours are on different cores, as far as Linux tells.

    Threads of a pool are put on neighbours: two of them on one core would slow each other down.
    """
    seats = Counter[str]()  # processors of a core, by those that it has

    def seat(number: int) -> int:
        core = read_text(Path(root, f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"))
        seats[core or str(number)] += 1
        return seats[core or str(number)]

    return tuple(sorted(numbers, key=seat))


def _allow(thread: int, numbers: Iterable[int]) -> None:
    if not hasattr(os, "sched_setaffinity"):
        raise OSError(errno.ENOTSUP, "this system does not pin threads")
    os.sched_setaffinity(thread, numbers)


@dataclass(slots=True)
class CpuPin:
    """Keeps a thread on one processor for a while, those of its pool on one each, and leaves all others alone.

    References:
        sched_setaffinity(2): a process id of 0 is the calling thread, that of a thread another one; threads that a
        thread starts inherit its processors.
    """

    allowed: Callable[[int], Collection[int]] = processors  # returns the processors of a thread, 0 = the calling one
    allow: Callable[[int, Iterable[int]], None] = _allow  # sets them
    threads: Callable[[], Iterable[int]] = threads_here  # returns the ids of all threads of this process
    thread: int = 0  # id of the one to keep, 0 = the calling one
    _before: frozenset[int] = frozenset()  # processors to go back to
    _older: frozenset[int] = frozenset()  # threads that were there before
    _pinned: dict[int, int] = field(default_factory=dict)  # thread → its processor; empty: not pinned

    def pin(self, numbers: Sequence[int], pool: Sequence[int] = ()) -> str:
        """Stay on the first processor until `release`, threads of a pool on the next; return why not, "" where it can.

        A thread of the pool that has processors of its own keeps them, and no other one is put there.
        """
        self._before, self._older = frozenset(self.allowed(self.thread)), frozenset(self.threads())
        if not self._before.issuperset(numbers):
            return f"may run on processors {', '.join(map(str, sorted(self._before))) or 'unknown'} only"
        try:
            own = {thread: of for thread in pool if (of := frozenset(self.allowed(thread))) != self._before}
            seats = [number for number in numbers if not any(number in of for of in own.values())]
            threads = [self.thread, *(thread for thread in pool if thread not in own)]
            if len(threads) > len(seats):
                return f"more than {counted(len(numbers), 'thread')} compute"
            for thread, number in zip(threads, seats, strict=False):
                self.allow(thread, {number})
                self._pinned[thread] = number
        except OSError as error:
            self.release()
            return f"cannot choose its processor ({error.strerror})"
        return ""

    def release(self) -> None:
        """Let all run where they were allowed to before, and threads that have inherited the pin meanwhile."""
        pinned, self._pinned = self._pinned, {}
        if not pinned:
            return
        seats = [frozenset({number}) for number in pinned.values()]
        for thread in (*pinned, *(thread for thread in self.threads() if thread not in self._older)):
            # A thread that has ended meanwhile is no loss; a cpuset that has shrunk has set the processors itself.
            with suppress(OSError):
                if frozenset(self.allowed(thread)) in seats:
                    self.allow(thread, self._before)
