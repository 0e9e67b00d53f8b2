"""Peak and retained memory above the idle process."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.meters.memory import MemoryMeter, resolution

# Each answer in bytes: peak of a call that keeps nothing, what is left, peak after a reset, what a kept block leaves.
_WEIGH = """
from pytest_hwperf.meters.memory import MemoryMeter, resolution
meter = MemoryMeter()
assert meter.idle() == ""
bytearray(b"1") * (64 << 20)
print(meter.peak(), meter.retained())
assert meter.reset() == ""
print(meter.peak())
kept = bytearray(b"1") * (8 << 20)
print(meter.peak(), meter.retained())
"""
_MIB = 2**20


class Process:
    """A process's folder in a fake /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.show(peak_kb=1000, now_kb=1000)
        (folder / "clear_refs").touch()

    def show(self, *, peak_kb: int, now_kb: int) -> None:
        (self.folder / "status").write_text(
            f"Name:\tpython\nVmPeak:\t  99999 kB\nVmHWM:\t{peak_kb:>8} kB\nVmRSS:\t{now_kb:>8} kB\nThreads:\t1\n"
        )


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def test_peak_and_retained_are_counted_from_the_idle_process(process: Process) -> None:
    """1000 kB idle, 5000 kB at the peak, 1200 kB now."""
    meter = MemoryMeter(process.folder)

    assert meter.idle() == ""
    process.show(peak_kb=5000, now_kb=1200)
    assert (4000 * 1024, 200 * 1024) == (meter.peak(), meter.retained())


def test_five_is_what_clears_the_peak(process: Process) -> None:
    """Other numbers clear referenced bits and leave the peak."""
    MemoryMeter(process.folder).idle()

    assert (process.folder / "clear_refs").read_text() == "5"


def test_a_reset_keeps_the_idle_value(process: Process) -> None:
    """The process holds 200 kB more than idle when the peak is forgotten, and 300 kB more at the next one."""
    meter = MemoryMeter(process.folder)
    meter.idle()
    process.show(peak_kb=1200, now_kb=1200)

    assert meter.reset() == ""
    process.show(peak_kb=1300, now_kb=1100)
    assert (300 * 1024, 100 * 1024) == (meter.peak(), meter.retained())


def test_a_process_that_shrank_retains_less_than_nothing(process: Process) -> None:
    meter = MemoryMeter(process.folder)
    meter.idle()
    process.show(peak_kb=1000, now_kb=900)

    assert -100 * 1024 == meter.retained()


def test_fields_stand_behind_many_groups(process: Process) -> None:
    """A user of a thousand groups makes the file longer than a page."""
    status = process.folder / "status"
    status.write_text(f"Name:\tpython\nGroups:\t{' '.join(map(str, range(100_000, 101_000)))}\n{status.read_text()}")
    meter = MemoryMeter(process.folder)

    assert (meter.idle(), meter.peak()) == ("", 0)


@pytest.mark.parametrize("missing", ["clear_refs", "status"])
def test_without_the_kernels_files_there_is_a_reason_and_no_number(process: Process, missing: str) -> None:
    """Another system, or a kernel that refuses: never 0."""
    file = process.folder / missing
    file.unlink()
    file.mkdir()
    meter = MemoryMeter(process.folder)

    assert "the kernel does not reset peaks here" in meter.idle()
    for weigh in (meter.peak, meter.retained):
        with pytest.raises(MeasurementError, match="call idle"):
            weigh()


@pytest.mark.parametrize("field", ["VmHWM", "VmRSS"])
def test_a_field_that_is_not_told_is_a_reason(process: Process, field: str) -> None:
    status = process.folder / "status"
    status.write_text(status.read_text().replace(field, "Vm"))

    assert f"the kernel gives no {field}: memory cannot be measured here" == MemoryMeter(process.folder).idle()


def test_a_refusal_forgets_an_earlier_idle_value(process: Process) -> None:
    meter = MemoryMeter(process.folder)
    meter.idle()
    (process.folder / "clear_refs").unlink()
    (process.folder / "clear_refs").mkdir()

    assert meter.idle()
    with pytest.raises(MeasurementError, match="heed its reason"):
        meter.peak()


@pytest.mark.live
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's high-water mark is Linux's")
def test_a_fresh_process_weighs_what_it_takes() -> None:
    """64 MiB that are freed at once, then 8 MiB that are kept, with the allocator pinned; within 1 MiB."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    ended = subprocess.run([sys.executable, "-c", _WEIGH], env=environment, check=True, capture_output=True, text=True)
    first, left, cleared, second, kept = (int(word) / _MIB for word in ended.stdout.split())

    assert [64, 0, 0, 8, 8] == pytest.approx([first, left, cleared, second, kept], abs=1)


@pytest.mark.parametrize(("cpus", "pages"), [(1, 32), (2, 64), (16, 512), (64, 8192)])
def test_a_peak_is_exact_within_what_the_cpus_keep_to_themselves(cpus: int, pages: int) -> None:
    """max(32, 2 x CPUs) pages on each CPU."""
    assert resolution(cpus) == pages * mmap.PAGESIZE
