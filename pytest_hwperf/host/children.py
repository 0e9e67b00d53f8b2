"""What the processes have used that this one has started: those that have ended, and on Linux those that live."""

import mmap
import os
import resource
from collections.abc import Iterator
from pathlib import Path

# Fields of /proc/PID/stat after the name, which may hold anything: proc(5), counted from `state` on.
_FAULTS, _FAULTS_OF_CHILDREN = 7, 8  # minflt, cminflt
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime


def touched_by_children(root: Path = Path("/proc")) -> int:
    """Return the bytes that children have touched since this process began: at least what they held at their peaks.

    Each page costs a fault at its first use. Their peaks themselves are not told: `ru_maxrss` of a child begins with
    what its parent held when it was started.

    Source: getrusage(2), proc(5).
    """
    faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    faults += sum(int(fields[_FAULTS]) + int(fields[_FAULTS_OF_CHILDREN]) for fields in _living(root, "self"))
    return faults * mmap.PAGESIZE


def cpu_seconds_of_living(root: Path = Path("/proc")) -> float:
    """Return the CPU seconds of children that still live, and of theirs, in ticks of the kernel (10 ms)."""
    ticks = sum(sum(map(int, fields[_TIMES])) for fields in _living(root, "self"))
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def cpu_seconds_of_children() -> float:
    """Return the CPU seconds of all children that this process has had: those that have ended to the microsecond."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + cpu_seconds_of_living()


def _living(root: Path, process: str) -> Iterator[list[bytes]]:
    """Yield the fields of each descendant; one that ends meanwhile is left out, for its parent has its figures."""
    for file in (root / process / "task").glob("*/children"):
        try:
            children = file.read_bytes().split()
        except OSError:  # its thread has ended
            continue
        for child in map(os.fsdecode, children):
            try:
                fields = (root / child / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            yield fields
            yield from _living(root, child)
