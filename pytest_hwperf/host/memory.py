"""Resident memory of this process, now and at its peak, as the operating system reports it."""

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from platform import libc_ver
from typing import Any

from pytest_hwperf.host.memory_files import unmapped_bytes
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.records.units import show

# About 1.5 kB, more with many groups and processors; small enough to come from memory that is held already.
_FILE_SIZE = 16_384
_KIB = 1024
_MOST_FILLED = 1 << 30  # bytes that are taken in all to reach an earlier peak
_FILLED_WITHIN = 1_000_000  # bytes, which no default margin notices

EXACT = "Rss of smaps_rollup"  # walks the page tables, so that it never lags behind
COUNTED = "VmRSS"  # summed late from a count on each CPU


def resolution(cpus: int | None = None) -> int:
    """Return the bytes by which a peak may be off: since Linux 6.2 resident pages are counted per CPU, and summed late.

    Each CPU counts up to max(32, 2 x CPUs) pages before it adds them: 256 KiB in all on 2 CPUs, 32 MiB on 64.
    Source: lib/percpu_counter.c, percpu_counter_batch; mm: convert mm's rss stats into percpu_counter (6.2).
    """
    count = cpus or os.cpu_count() or 1
    return max(32, 2 * count) * count * mmap.PAGESIZE


@dataclass(frozen=True, kw_only=True)
class Resident:
    """Resident memory of this process, in B; whatever the system does not report raises MeasurementError."""

    source: str  # what peaks are read from
    high: Callable[[], int]  # the most that was held since the process began, or since the last `clear`
    now: Callable[[], tuple[int, str]]  # what is held now, and what that was read from
    clear: Callable[[], str]  # resets the peak, and says why that cannot be done, "" where it can
    warnings: tuple[str, ...]  # limits of the peaks, for the report
    fills: bool = False  # whether `clear` takes memory, which would count for whoever watches meanwhile


def resident(
    platform: str = sys.platform, process: str | Path = "/proc/self", load: Callable[[str], Any] = import_module
) -> Resident:
    """Return the resident memory of this process."""
    if platform == "linux":
        return _of_linux(Path(process))
    if platform not in ("darwin", "win32"):
        raise MeasurementError(f"memory is measured on Linux, macOS and Windows, not on {platform}")
    own, usage = load("psutil").Process(), load("resource") if platform == "darwin" else None

    def high() -> int:  # of macOS in bytes, of other systems in KiB
        return int(usage.getrusage(usage.RUSAGE_SELF).ru_maxrss if usage else own.memory_info().peak_wset)

    fillings = list[mmap.mmap]()

    def clear() -> str:
        """Hold as much as was ever held, since this system does not reset its mark: what is held more then moves it."""
        missing = high() - int(own.memory_info().rss)
        if sum(map(len, fillings)) + missing > _MOST_FILLED:
            return f"this system does not reset peaks, and to fill memory up to it takes {show(missing, 'B')}"
        if missing > 0:
            try:
                fillings.append(mmap.mmap(-1, missing))
            except OSError as error:
                return f"this system does not reset peaks, and memory cannot be filled up to it ({error.strerror})"
            for page in range(0, missing, mmap.PAGESIZE):
                fillings[-1][page] = 1
        if high() - int(own.memory_info().rss) > _FILLED_WITHIN:
            return "this system does not reset peaks, and what fills memory up to it does not stay there"
        return ""

    unit = "resident size" if usage else "working set"
    return Resident(
        source="ru_maxrss, filled before" if usage else "peak_wset, filled before",
        high=high,
        now=lambda: (int(own.memory_info().rss), unit),
        clear=clear,
        fills=True,
        warnings=() if usage else ("Windows does not tell what child processes that have ended held",),
    )


def _of_linux(process: Path) -> Resident:
    """Return the current size by walking the page tables, which is exact, and the kernel's high-water mark as the peak.

    Files in memory that end with this process are added to both: to the mark as much as they held at each moment at
    which somebody asked. The peak is then at least what is reported.

    Source: proc(5), status VmHWM and VmRSS, smaps_rollup Rss, clear_refs value 5.
    """
    status, rollup = process / "status", process / "smaps_rollup"
    _field(status, b"VmHWM:")
    try:
        _field(rollup, b"Rss:")
        may_walk = True
    except MeasurementError:
        may_walk = False

    least_in_files = [0]  # B since the mark was cleared

    def pages() -> int:
        return _field(rollup, b"Rss:") if may_walk else _field(status, b"VmRSS:")

    def in_files() -> int:
        size = unmapped_bytes(process)
        least_in_files[0] = min(least_in_files[0], size)
        return size

    def now() -> tuple[int, str]:
        return pages() + in_files(), EXACT if may_walk else COUNTED

    def high() -> int:
        present = now()[0]  # the mark is counted late
        return max(_field(status, b"VmHWM:") + least_in_files[0], present)

    def clear() -> str:
        try:
            (process / "clear_refs").write_text("5")
        except OSError as error:  # a hardened kernel, or one that does not let this process be traced
            return f"the kernel does not reset peaks here ({error.strerror})"
        least_in_files[0] = unmapped_bytes(process)
        return ""

    refusal = clear()
    late = f"the kernel's own count of resident pages is exact within {show(resolution(), 'B')} here"
    return Resident(
        source="VmHWM, never cleared" if refusal else "VmHWM after clear_refs",
        high=high,
        now=now,
        clear=clear,
        warnings=(late, f"{refusal}: a peak is reported if it is the highest so far") if refusal else (late,),
    )


def executable_page(code: bytes) -> mmap.mmap:
    """Return a page of this process that begins with machine code, which can be called at its address.

    Raises:
        MeterUnavailable: Windows, which has no such pages by `mmap`.
    """
    if sys.platform == "win32":
        raise MeterUnavailable("Valgrind does not run on Windows")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return page


def give_back_free() -> None:
    """Give the system what the allocator keeps for later, where it is glibc's: what is taken from now on is then seen.

    Imports leave megabytes behind that are free and still resident. What fits into them does not add to what is held.

    References:
        malloc_trim(3): whole free pages are given back, in the middle of the heap too.
    """
    if libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def _field(file: Path, name: bytes) -> int:
    """Read one field, which is in kB of 1024 bytes; nothing large is allocated for it."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            content = os.read(descriptor, _FILE_SIZE)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise MeasurementError(f"{file} cannot be read ({error.strerror}): memory cannot be measured here") from error
    for line in content.splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * _KIB
    raise MeasurementError(f"the kernel gives no {name.decode().rstrip(':')}: memory cannot be measured here")
