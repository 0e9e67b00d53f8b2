"""Clocks of this machine: the smallest step they show, what reading them costs, and CPU time of this process."""

import mmap
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple

from pytest_hwperf.host.files import read_text

if TYPE_CHECKING:
    from psutil import Process
if sys.platform != "win32":
    import resource

_READINGS = 10_000  # some milliseconds in all
_STEPS = 50  # of CPU time
_MOST_SPINS = 1_000_000  # until a counter moves; one that does not by then has no known step
_NANO = 1e-9
_THREADS = Path("/proc/self/task")
_CLOCK_OF_THREAD = 6  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPrecision:
    """Precision of a clock, as observed."""

    step_s: float | None  # smallest difference that was seen, None where it never moved
    cost_s: float  # median time from one reading to the next


def observe_clock(now_ns: Callable[[], int] = time.perf_counter_ns) -> ClockPrecision:
    """Read a clock many times in a row: the one that timings are taken with, unless another is given."""
    gaps = [after - before for before, after in pairwise([now_ns() for _ in range(_READINGS)])]
    step_ns = min((gap for gap in gaps if gap > 0), default=None)
    # A clock that moves less often than it is read has a median gap of 0: then the mean is the cost of a reading.
    cost_ns = median(gaps) or sum(gaps) / len(gaps)
    return ClockPrecision(step_s=step_ns and step_ns * _NANO, cost_s=cost_ns * _NANO)


def cpu_seconds() -> float:
    """Return user and system seconds of this process, its threads and the children it has waited for.

    getrusage(2) counts in microseconds; psutil reads clock ticks of 10 ms. The kernel accounts in nanoseconds, but what
    another thread is running at this instant is added only at its next scheduler tick: steps of 3 to 4 ms were seen.
    Sleeping threads are complete. Windows keeps no sum of children that have ended: `CPU_TIME` names what is counted.
    """
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime + sum(used_by_ended()[:2])
    return time.process_time()


CPU_TIME, CPU_TIME_WARNINGS = "rusage:self+children", tuple[str, ...]()
if sys.platform == "win32":
    CPU_TIME = "process_time:self"
    CPU_TIME_WARNINGS = ("Windows does not keep the CPU time of children that have ended",)


def used_by_ended() -> tuple[float, ...]:
    """Return CPU seconds, page faults and the peak of children that have ended; () on Windows, which forgets them."""
    if sys.platform != "win32":
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime, ended.ru_stime, ended.ru_minflt, ended.ru_maxrss
    return ()


def cpu_ns() -> int:
    """Return the CPU time of this process and its threads, for the beginning of a window; `cpu_ns_since` ends it.

    The kernel adds what a thread computes on another processor at the next tick of that processor, which may be 4 ms
    later; if the clock of the thread itself is read, it does so at once.

    Source: posix_cpu_clock_get and task_sched_runtime in the kernel.
    """
    ns_of_threads()
    return time.process_time_ns()


def cpu_ns_since(began_ns: int) -> int:
    """Return the CPU time of this process and its threads since `cpu_ns` returned `began_ns`."""
    before_ns = time.thread_time_ns()
    ns_of_threads()
    reading_ns = time.thread_time_ns() - before_ns
    return time.process_time_ns() - reading_ns - began_ns


def ns_of_threads() -> dict[int, int]:
    """Return the CPU time of each thread of this process, by its id; {} where the system does not list them."""
    found = dict[int, int]()
    if sys.platform != "linux":
        return found
    for thread in threads_here():
        with suppress(OSError):  # it has ended
            found[thread] = time.clock_gettime_ns(clock_of_thread(thread))
    return found


def clock_of_thread(thread: int) -> int:
    """Return the number by which Linux knows the CPU clock of a thread of this process, given its id."""
    return (~thread << 3) | _CLOCK_OF_THREAD


def threads_here() -> tuple[int, ...]:
    """Return the ids of this process's threads; none where the system does not list them."""
    try:
        return tuple(map(int, os.listdir(_THREADS)))  # noqa: PTH208 - ten times as fast: it is asked at each turn
    except OSError:
        return ()


def cpu_time_step(read: Callable[[], float] = cpu_seconds) -> float | None:
    """Return the smallest step in seconds by which CPU time was seen to grow while working; None where it never did."""
    steps, last, spins = list[float](), read(), 0
    while len(steps) < _STEPS and spins < _MOST_SPINS:
        now = read()
        spins += 1
        if now > last:
            steps.append(round(now - last, 9))  # seconds as floats: the difference of two is off in the last digits
            last = now
    return min(steps, default=None)


def seconds_suspended() -> float:
    """Return for how long this machine has been suspended since it started; 0.0 where the system does not report it."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    return 0.0


def clock_source(root: str | Path = "/") -> str | None:
    """Return the kernel's source of time, as "tsc"; None where Linux does not name it.

    Source: Documentation/timers/timekeeping.rst; "hpet" and "acpi_pm" take about a microsecond to read.
    """
    return read_text(Path(root, "sys/devices/system/clocksource/clocksource0/current_clocksource")) or None


_COMPUTED_NS = 20_000_000  # CPU time of all threads that tells which of them compute
_LOOKS = 3
_REST_S, _LONGEST_WAIT_S = 0.02, 2.0
_AT_REST = 0.1  # CPU time of a process at rest, as a share of the time


class ThreadTime(NamedTuple):
    """What one thread has spent since it began."""

    computed_ns: int
    waited_ns: int  # ready to compute, while no processor was free


def shares_of_threads(call: Callable[[], object]) -> tuple[float, ...]:
    """Call until enough CPU time is used, and that three times; return the smallest share of each thread.

    A thread that computes for `call` does so each time; one of something else in this process, such as a thread that
    an earlier test left behind, does not. () where the CPU time of threads is not known.
    """
    if not thread_times():
        return ()
    _wait_for_rest()
    looks = list[dict[str, float]]()
    for _ in range(_LOOKS):
        before, enough = thread_times(), time.process_time_ns() + _COMPUTED_NS
        while time.process_time_ns() < enough:
            call()
        spent = {thread: one.computed_ns for thread, one in times_since(before).items()}
        looks.append({thread: one / sum(spent.values()) for thread, one in spent.items()})
    return tuple(min(one.get(thread, 0.0) for one in looks) for thread in looks[-1])


def _wait_for_rest() -> None:
    """Let pools that worked before, such as when the model was fitted, stop waiting for more: they spin for a while."""
    until = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < until:
        before = time.process_time_ns()
        time.sleep(_REST_S)
        if time.process_time_ns() - before < _REST_S * 1e9 * _AT_REST:
            return


def times_since(before: Mapping[str, ThreadTime]) -> dict[str, ThreadTime]:
    """Return what each thread has spent since `before`, which `thread_times` returned."""
    none = ThreadTime(0, 0)
    return {
        thread: ThreadTime(*(now - then for now, then in zip(after, before.get(thread, none), strict=True)))
        for thread, after in thread_times().items()
    }


def thread_times() -> dict[str, ThreadTime]:
    """Return the times of each thread, the first two numbers of its schedstat; {} where there is no such file."""
    found = {}
    for file in _THREADS.glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            computed, waited, *_ = file.read_text(encoding="ascii").split()
            found[file.parent.name] = ThreadTime(int(computed), int(waited))
    return found


# Fields of /proc/PID/stat after the name, which may hold anything: proc(5), counted from `state` on.
_FAULTS, _FAULTS_OF_CHILDREN = 7, 8  # minflt, cminflt
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime


def touched_by_children(root: Path = Path("/proc")) -> int:
    """Return the bytes that children have touched since this process began: at least what they held at their peaks.

    Where the system does not list faults of those that live, their present size stands for it; Windows forgets others.

    Each page costs a fault at its first use. Their peaks themselves are not told: `ru_maxrss` of a child begins with
    what its parent held when it was started.

    Source: getrusage(2), proc(5).
    """
    faults = int(sum(used_by_ended()[2:3]))
    if sys.platform != "linux":
        return faults * mmap.PAGESIZE + sum(map(_resident_of, _descendants()))
    faults += sum(int(fields[_FAULTS]) + int(fields[_FAULTS_OF_CHILDREN]) for fields in _living(root, "self"))
    return faults * mmap.PAGESIZE


def cpu_seconds_of_living(root: Path = Path("/proc")) -> float:
    """Return the CPU seconds of children that still live, and of theirs, on Linux in ticks of the kernel (10 ms)."""
    if sys.platform != "linux":
        return sum(map(_cpu_seconds_of, _descendants()))
    ticks = sum(sum(map(int, fields[_TIMES])) for fields in _living(root, "self"))
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def cpu_seconds_of_children() -> float:
    """Return the CPU seconds of all children that this process has had: those that have ended to the microsecond."""
    return sum(used_by_ended()[:2]) + cpu_seconds_of_living()


def has_children() -> bool:
    """Whether a process that this one has started is alive."""
    if sys.platform != "linux":
        return bool(_descendants())
    return any(map(read_text, _THREADS.glob("*/children")))


def _descendants() -> "list[Process]":
    import psutil

    return list(psutil.Process().children(recursive=True))


def _cpu_seconds_of(process: "Process") -> float:
    import psutil

    with suppress(psutil.Error):  # it has ended, or is another user's
        used = process.cpu_times()
        return float(used.user + used.system)
    return 0.0


def _resident_of(process: "Process") -> int:
    import psutil

    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def clock_of(thread: Thread | None) -> Callable[[], int]:
    """Return what reads the CPU time of a thread, None = the calling one; of another one where the system tells it."""
    if sys.platform != "linux" or thread is None or thread.ident is None:
        return time.thread_time_ns
    return partial(time.clock_gettime_ns, time.pthread_getcpuclockid(thread.ident))


def interruptions(*, of_thread: bool = False) -> int | None:
    """Return how often the scheduler has interrupted this process, or the calling thread.

    None but on Linux: macOS counts waits too, and Windows nothing.
    """
    if sys.platform == "linux":
        return resource.getrusage(resource.RUSAGE_THREAD if of_thread else resource.RUSAGE_SELF).ru_nivcsw
    return None


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
