"""Peak memory of this process, by the kernel's own high-water mark. For a fresh process only.

In a used process every peak depends on what ran before: what an earlier call freed is handed out again unseen.
Source: proc(5), /proc/pid/status VmRSS and VmHWM, /proc/pid/clear_refs value 5.
"""

import mmap
import os
from pathlib import Path

from pytest_hwperf.core.errors import MeasurementError

# About 1.5 kB, more with many groups and processors; a block of this size does not come from the system apart.
_STATUS_SIZE = 16_384


def resolution(cpus: int | None = None) -> int:
    """Return the bytes by which a peak may be off: since Linux 6.2 resident pages are counted per CPU, and summed late.

    Each CPU keeps up to max(32, 2 x CPUs) pages to itself: 256 KiB in all on 2 CPUs, 32 MiB on 64.
    Source: lib/percpu_counter.c, percpu_counter_batch; mm: convert mm's rss stats into percpu_counter (6.2).
    """
    count = cpus or os.cpu_count() or 1
    return max(32, 2 * count) * count * mmap.PAGESIZE


class MemoryMeter:
    """Notes the idle process, then tells peaks above it; in bytes."""

    def __init__(self, process: str | Path = "/proc/self") -> None:
        """Read and reset the counters under `process`."""
        self._process = Path(process)
        self._idle: int | None = None

    def idle(self) -> str:
        """Note what the process holds now and forget its peak; return why it cannot be done, "" where it can."""
        refusal = self.reset()
        self._idle = None if refusal else self._field(b"VmRSS:")
        return refusal

    def reset(self) -> str:
        """Forget the peak so far and keep the idle value; return why it cannot be done, "" where it can."""
        try:
            (self._process / "clear_refs").write_text("5")
            for field in (b"VmHWM:", b"VmRSS:"):
                self._field(field)
        except OSError as error:
            return (
                f"the kernel does not reset peaks here ({error.strerror}): memory is measured on Linux with /proc only"
            )
        except MeasurementError as error:
            return str(error)
        return ""

    def peak(self) -> int:
        """Return the bytes of the peak above the idle process, since `idle` or the last `reset`.

        Raises:
            MeasurementError: nothing was noted to count from.
        """
        return self._above_idle(b"VmHWM:")

    def retained(self) -> int:
        """Return the bytes held now above the idle process; below 0 where it has shrunk.

        Raises:
            MeasurementError: nothing was noted to count from.
        """
        return self._above_idle(b"VmRSS:")

    def _above_idle(self, name: bytes) -> int:
        if self._idle is None:
            raise MeasurementError("memory is counted from the idle process: call idle() first, and heed its reason")
        return self._field(name) - self._idle

    def _field(self, name: bytes) -> int:
        """Read one field of the status, given in kB of 1024 bytes; nothing large is allocated for it.

        Raises:
            MeasurementError: the kernel gives no such field.
        """
        descriptor = os.open(self._process / "status", os.O_RDONLY)
        try:
            status = os.read(descriptor, _STATUS_SIZE)
        finally:
            os.close(descriptor)
        for line in status.splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise MeasurementError(f"the kernel gives no {name.decode().rstrip(':')}: memory cannot be measured here")
