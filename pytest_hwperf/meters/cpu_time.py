"""CPU seconds of this process and its children."""

from collections.abc import Callable

from pytest_hwperf.host.clocks import cpu_seconds, cpu_seconds_of_living
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.run import Reading


class CpuTimeMeter:
    """Counts CPU seconds; blind to GPUs, and outside of Linux to children that still run."""

    metric = "cpu_time"
    covers: Covered = "process"
    source = "rusage:self+children"
    shortest_window_s = 0.0  # exact where no other thread is running at either end
    warnings: tuple[str, ...] = ()

    def __init__(
        self, read: Callable[[], float] = cpu_seconds, children: Callable[[], float] = cpu_seconds_of_living
    ) -> None:
        """Count what `read` and `children` return, in seconds.

        `children` takes CPU time of its own, some 0.1 ms, and is therefore called outside of the window of `read`.
        """
        self._read, self._children = read, children

    def start(self) -> float:
        before = self._children()
        return before + self._read()

    def end(self, started: float) -> Reading:
        """Return the seconds since `started`."""
        after = self._read()
        return Reading(value=after + self._children() - started)

    def close(self) -> None:
        """Hold nothing open."""
