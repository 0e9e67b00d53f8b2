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
from typing import Any, Protocol

from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.units import show

# About 1.5 kB, more with many groups and processors; small enough to come from memory that is held already.
_FILE_SIZE = 16_384
_KIB = 1024

EXACT = "Rss of smaps_rollup"  # walks the page tables, so that it never lags behind
COUNTED = "VmRSS"  # summed late from a count on each CPU


def resolution(cpus: int | None = None) -> int:
    """Return the bytes by which a peak may be off: since Linux 6.2 resident pages are counted per CPU, and summed late.

    Each CPU counts up to max(32, 2 x CPUs) pages before it adds them: 256 KiB in all on 2 CPUs, 32 MiB on 64.
    Source: lib/percpu_counter.c, percpu_counter_batch; mm: convert mm's rss stats into percpu_counter (6.2).
    """
    count = cpus or os.cpu_count() or 1
    return max(32, 2 * count) * count * mmap.PAGESIZE


class Resident(Protocol):
    """Resident memory of this process, in B; whatever the system does not report raises MeasurementError."""

    @property
    def source(self) -> str:
        """What peaks are read from, as "VmHWM after clear_refs"."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limits of the peaks, for the report."""

    def high(self) -> int:
        """Return the most bytes held since the process began, or since the last `clear`."""

    def now(self) -> tuple[int, str]:
        """Return the bytes held now, and what they were read from."""

    def clear(self) -> str:
        """Reset the peak; return why that cannot be done, "" where it can."""
        ...


class ProcResident:
    """Linux: the current size by walking the page tables, which is exact, the peak by the kernel's high-water mark.

    Source: proc(5), status VmHWM and VmRSS, smaps_rollup Rss, clear_refs value 5.
    """

    def __init__(self, process: str | Path = "/proc/self") -> None:
        self._process = Path(process)
        self._exact = _readable(self._process / "smaps_rollup")
        _field(self._process / "status", b"VmHWM:")
        refusal = self.clear()
        self.source = "VmHWM, never cleared" if refusal else "VmHWM after clear_refs"
        late = f"the kernel's own count of resident pages is exact within {show(resolution(), 'B')} here"
        self.warnings = (late, f"{refusal}: a peak is reported if it is the highest so far") if refusal else (late,)

    def high(self) -> int:
        """Return the kernel's high-water mark, but at least the current size: the mark is counted late."""
        return max(_field(self._process / "status", b"VmHWM:"), self.now()[0])

    def now(self) -> tuple[int, str]:
        """Return the size by the page tables; where they may not be walked, by the kernel's running count."""
        if self._exact:
            return _field(self._process / "smaps_rollup", b"Rss:"), EXACT
        return _field(self._process / "status", b"VmRSS:"), COUNTED

    def clear(self) -> str:
        """Reset the high-water mark. A hardened kernel refuses it, or one that does not let this process be traced."""
        try:
            (self._process / "clear_refs").write_text("5")
        except OSError as error:
            return f"the kernel does not reset peaks here ({error.strerror})"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresettableResident:
    """A system that counts a peak and never resets it."""

    source: str
    read_high: Callable[[], int]  # B
    read_now: Callable[[], int]  # B
    now_source: str
    warnings: tuple[str, ...] = ("this system does not reset peaks: one is reported if it is the highest so far",)

    def high(self) -> int:
        """Return the most bytes held since the process began."""
        return self.read_high()

    def now(self) -> tuple[int, str]:
        """Return the bytes held now."""
        return self.read_now(), self.now_source

    def clear(self) -> str:
        return "this system does not reset peaks"


def resident(
    platform: str = sys.platform,
    process: str | Path = "/proc/self",
    load: Callable[[str], Any] = import_module,
) -> Resident:
    """Return the resident memory of this process."""
    if platform == "linux":
        return ProcResident(process)
    if platform not in ("darwin", "win32"):
        raise MeasurementError(f"memory is measured on Linux, macOS and Windows, not on {platform}")
    own = load("psutil").Process()

    def size() -> int:
        return int(own.memory_info().rss)

    if platform == "win32":
        return UnresettableResident(
            source="peak_wset, never cleared",
            read_high=lambda: int(own.memory_info().peak_wset),
            read_now=size,
            now_source="working set",
        )
    usage = load("resource")
    return UnresettableResident(
        source="ru_maxrss, never cleared",
        read_high=lambda: int(usage.getrusage(usage.RUSAGE_SELF).ru_maxrss),  # in bytes here, in KiB elsewhere
        read_now=size,
        now_source="resident size",
    )


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


def _readable(file: Path) -> bool:
    try:
        _field(file, b"Rss:")
    except MeasurementError:
        return False
    return True
