"""What the system tells of the memory that this process holds: now, and at its highest."""

import mmap
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.units import show

# About 1.5 kB, more with many groups and processors; a block of this size does not come from the system apart.
_FILE_SIZE = 16_384
_KIB = 1024

EXACT = "Rss of smaps_rollup"  # walks the page tables and lags behind nothing
COUNTED = "VmRSS"  # summed from what each CPU keeps to itself, late


def resolution(cpus: int | None = None) -> int:
    """Return the bytes by which a peak may be off: since Linux 6.2 resident pages are counted per CPU, and summed late.

    Each CPU keeps up to max(32, 2 x CPUs) pages to itself: 256 KiB in all on 2 CPUs, 32 MiB on 64.
    Source: lib/percpu_counter.c, percpu_counter_batch; mm: convert mm's rss stats into percpu_counter (6.2).
    """
    count = cpus or os.cpu_count() or 1
    return max(32, 2 * count) * count * mmap.PAGESIZE


class Resident(Protocol):
    """Resident bytes of this process."""

    @property
    def source(self) -> str:
        """What the highest value is read from, as "VmHWM after clear_refs"."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be known of peaks."""
        ...

    def high(self) -> int:
        """Return the most bytes held since the process began, or since the last `clear`.

        Raises:
            MeasurementError: the system does not tell.
        """
        ...

    def now(self) -> tuple[int, str]:
        """Return the bytes held now, and what they were read from.

        Raises:
            MeasurementError: the system does not tell.
        """
        ...

    def clear(self) -> str:
        """Forget the highest value; return why that cannot be done, "" where it can."""
        ...


class ProcResident:
    """Linux: /proc/self. The present size by walking the page tables, which is exact, the peak by the kernel's mark.

    Source: proc(5), status VmHWM and VmRSS, smaps_rollup Rss, clear_refs value 5.
    """

    def __init__(self, process: str | Path = "/proc/self") -> None:
        """Read the files of a process's folder.

        Raises:
            MeasurementError: the kernel tells no peak there.
        """
        self._process = Path(process)
        self._exact = _readable(self._process / "smaps_rollup")
        _field(self._process / "status", b"VmHWM:")
        refusal = self.clear()
        self.source = "VmHWM, never cleared" if refusal else "VmHWM after clear_refs"
        late = f"the kernel's own count of resident pages is exact within {show(resolution(), 'B')} here"
        self.warnings = (late, f"{refusal}: a peak is told if it is the highest so far") if refusal else (late,)

    def high(self) -> int:
        """Return the kernel's high-water mark, and at least what is held now: the mark is counted late."""
        return max(_field(self._process / "status", b"VmHWM:"), self.now()[0])

    def now(self) -> tuple[int, str]:
        """Return what the page tables hold; where they may not be walked, the kernel's running count."""
        if self._exact:
            return _field(self._process / "smaps_rollup", b"Rss:"), EXACT
        return _field(self._process / "status", b"VmRSS:"), COUNTED

    def clear(self) -> str:
        """Reset the kernel's mark. A hardened kernel, or a process that may not be traced, refuses it."""
        try:
            (self._process / "clear_refs").write_text("5")
        except OSError as error:
            return f"the kernel does not reset peaks here ({error.strerror})"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedResident:
    """A system that counts and never clears."""

    source: str
    read_high: Callable[[], int]  # B
    read_now: Callable[[], int]  # B
    now_source: str
    warnings: tuple[str, ...] = ("this system does not reset peaks: one is told if it is the highest so far",)

    def high(self) -> int:
        """Return the most bytes held since the process began."""
        return self.read_high()

    def now(self) -> tuple[int, str]:
        """Return the bytes held now."""
        return self.read_now(), self.now_source

    def clear(self) -> str:
        """Say that it is never cleared."""
        return "this system does not reset peaks"


def resident(
    platform: str = sys.platform,
    process: str | Path = "/proc/self",
    load: Callable[[str], Any] = import_module,
) -> Resident:
    """Return what this system tells.

    Args:
        platform: as `sys.platform`.
        process: the folder under which Linux tells of this process.
        load: imports a module by name; `resource` and psutil are asked where there is no /proc.

    Raises:
        MeasurementError: the system tells nothing, with the reason.
    """
    if platform == "linux":
        return ProcResident(process)
    if platform not in ("darwin", "win32"):
        raise MeasurementError(f"memory is measured on Linux, macOS and Windows, not on {platform}")
    own = load("psutil").Process()
    if platform == "win32":
        return CountedResident(
            source="peak_wset, never cleared",
            read_high=lambda: int(own.memory_info().peak_wset),
            read_now=lambda: int(own.memory_info().rss),
            now_source="working set",
        )
    usage = load("resource")
    return CountedResident(
        source="ru_maxrss, never cleared",
        read_high=lambda: int(usage.getrusage(usage.RUSAGE_SELF).ru_maxrss),  # in bytes here, in KiB elsewhere
        read_now=lambda: int(own.memory_info().rss),
        now_source="resident size",
    )


def _field(file: Path, name: bytes) -> int:
    """Read one field, given in kB of 1024 bytes; nothing large is allocated for it.

    Raises:
        MeasurementError: the kernel gives no such file or field.
    """
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
