"""What this process uses: CPU seconds, and the instructions that it retires in user space, by perf events of Linux.

Both count its threads and children. Reference: perf_event_open(2).
"""

import os
import platform
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_hwperf.host.clocks import CPU_TIME, CPU_TIME_WARNINGS, cpu_seconds, cpu_seconds_of_living
from pytest_hwperf.meters.access import attributes, perf_event_open
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.errors import MeterUnavailable
from pytest_hwperf.records.run import Reading
from pytest_hwperf.records.units import show_share


class CpuTimeMeter:
    """Counts CPU seconds; blind to GPUs, and on Windows to children that have ended."""

    metric = "cpu_time"
    covers: Covered = "process"
    source = CPU_TIME
    shortest_window_s = 0.0  # exact where no other thread is running at either end
    warnings = CPU_TIME_WARNINGS

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
        after = self._read()
        used = after + self._children() - started
        if used < 0:  # a child that was counted at the start
            return Reading(value=None, reason="a child process has ended, and this system does not keep its CPU time")
        return Reading(value=used)

    def close(self) -> None:
        """Hold nothing open."""


_HARDWARE, _INSTRUCTIONS = 0, 1  # PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 1 | 2  # read_format: the times that the event was enabled and running come behind the value
USER_INSTRUCTIONS = attributes(_HARDWARE, _INSTRUCTIONS, _TIMES, _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR)
_COUNT = struct.Struct("=QQQ")  # value, ns enabled, ns running
_EACH_CPU = -1
_PARANOID = "proc/sys/kernel/perf_event_paranoid"

Open = Callable[[int], int]  # thread → descriptor
Counts = tuple[int, int, int]  # of one reading: instructions, ns enabled, ns running


class InstructionMeter:
    """Counts retired instructions of every thread that there is, and of what these start."""

    metric = "instructions"
    covers: Covered = "process"
    source = "perf:instructions:u"
    shortest_window_s = 0.0
    warnings: tuple[str, ...] = ()

    def __init__(self, descriptors: Sequence[int], read: Callable[[int, int], bytes] = os.read) -> None:
        """Read each of `descriptors`, which it closes in the end."""
        self._descriptors = descriptors
        self._read = read

    def start(self) -> Counts:
        counts = [_COUNT.unpack(self._read(one, _COUNT.size)) for one in self._descriptors]
        values, enabled, running = (sum(column) for column in zip(*counts, strict=True))
        return values, enabled, running

    def end(self, started: Counts) -> Reading:
        """Return the instructions since `started`; none where the counter was lent to others meanwhile."""
        value, enabled, running = (now - then for now, then in zip(self.start(), started, strict=True))
        if running < enabled:
            return Reading(
                value=None, reason=f"others used the counter for {show_share(1 - running / enabled)} of the window"
            )
        return Reading(value=float(value))

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


def instruction_meter(root: str = "/", open_one: Open | None = None, machine: str = "") -> InstructionMeter:
    """Open a counter for each thread of this process; it also counts the threads and processes that these start."""
    if (machine or platform.machine()) != "x86_64":
        raise MeterUnavailable("perf events are read on Linux on x86-64 only.")
    opened = list[int]()
    try:
        for thread in _threads(root):
            with suppress(ProcessLookupError):  # it has ended
                opened.append((open_one or open_counter)(thread))
    except OSError as error:
        InstructionMeter(opened).close()
        raise MeterUnavailable(_why(error, root)) from error
    if not opened:
        raise MeterUnavailable("no thread of this process can be counted.")
    return InstructionMeter(opened)


def open_counter(thread: int) -> int:
    """Open a counter of the user-space instructions of a thread and of all that it starts."""
    return perf_event_open(USER_INSTRUCTIONS, thread, _EACH_CPU)


def _threads(root: str) -> list[int]:
    """Return this process's threads; its own number where /proc is hidden."""
    try:
        return sorted(int(one.name) for one in Path(root, "proc/self/task").iterdir())
    except OSError:
        return [0]


def _why(error: OSError, root: str) -> str:
    if isinstance(error, PermissionError):
        with suppress(OSError, ValueError):
            level = int(Path(root, _PARANOID).read_text(encoding="ascii"))
            return (
                f"perf events are forbidden (perf_event_paranoid is {level}): sudo sysctl kernel.perf_event_paranoid=2"
            )
        return "perf events are forbidden here, as in many containers."
    return (
        f"this machine has no counter of instructions ({error.strerror}): hypervisors often hide it. "
        "--hwperf-instructions=callgrind counts them under Valgrind."
    )
