"""CPU seconds of this process and its children."""

from collections.abc import Callable

from pytest_hwperf.core.contracts import Covered
from pytest_hwperf.core.records import Reading
from pytest_hwperf.host.children import cpu_seconds_of_living
from pytest_hwperf.host.clocks import cpu_seconds


class CpuTimeMeter:
    """Counts CPU seconds; blind to GPUs, and outside of Linux to children that still run."""

    metric = "cpu_time"
    covers: Covered = "process"
    source = "rusage:self+children"
    shortest_window_s = 0.0  # exact where no other thread is running at either end
    warnings: tuple[str, ...] = ()

    def __init__(self, read: Callable[[], float] = lambda: cpu_seconds() + cpu_seconds_of_living()) -> None:
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
