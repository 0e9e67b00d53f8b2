"""CPU seconds of this process and its children."""

import resource
from collections.abc import Callable

from pytest_hwperf.core.records import Reading


def cpu_seconds() -> float:
    """Return user and system seconds of this process, its threads and the children it has waited for.

    The kernel accounts in nanoseconds, but what another thread is running at this instant is added only at its next
    scheduler tick: steps of 3 to 4 ms were seen. Sleeping threads are complete.

    Source: getrusage(2), RUSAGE_SELF and RUSAGE_CHILDREN.
    """
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class CpuTimeMeter:
    """Counts CPU seconds; blind to GPUs and to children that still run."""

    metric = "cpu_time"
    source = "rusage:self+children"
    shortest_window_s = 0.0  # exact where no other thread is running at either end
    warnings: tuple[str, ...] = ()

    def __init__(self, read: Callable[[], float] = cpu_seconds) -> None:
        """Count what `read` returns, in seconds."""
        self._read = read

    def start(self) -> float:
        """Return the seconds so far."""
        return self._read()

    def end(self, started: float) -> Reading:
        """Return the seconds since `started`."""
        return Reading(value=self._read() - started)

    def close(self) -> None:
        """Hold nothing open."""
