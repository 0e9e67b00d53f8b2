"""Peak and retained memory above the idle process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.resident import FakeResident, Process

from pytest_hwperf.host.memory import resident
from pytest_hwperf.meters.memory import MemoryMeter, PeakRss
from pytest_hwperf.records.errors import MeasurementError

# Each answer in bytes: peak of a call that keeps nothing, what is left, peak after a reset, what a kept block leaves.
_CODE = """
from pytest_hwperf.meters.memory import MemoryMeter
meter = MemoryMeter()
meter.enter("a")
bytearray(b"1") * (64 << 20)
print(meter.peak("a"), meter.retained("a"))
meter.enter("b")
print(meter.peak("b"))
kept = bytearray(b"1") * (8 << 20)
print(meter.peak("b"), meter.retained("b"))
"""
_MIB = 2**20


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def meter_of(process: Process) -> MemoryMeter:
    return MemoryMeter(lambda: PeakRss(resident("linux", process.folder)), children=int)


def test_peak_and_retained_are_counted_from_where_a_part_begins(process: Process) -> None:
    """1000 kB then, 5000 kB at the peak, 1200 kB now."""
    meter = meter_of(process)
    meter.enter("call")
    process.show(peak_kb=5000, now_kb=1200)
    assert (4000 * 1024, 200 * 1024) == (meter.peak("call"), meter.retained("call"))


def test_a_part_that_goes_on_later_counts_what_it_held_before(process: Process) -> None:
    """A part takes 200 kB, nobody 5000, and the part 300 more, with 100 in passing."""
    meter = meter_of(process)
    meter.enter("imports")
    process.show(peak_kb=1200, now_kb=1200)
    meter.enter("")
    process.show(peak_kb=6200, now_kb=6200)
    meter.enter("imports")
    process.show(peak_kb=6600, now_kb=6500)
    assert (600 * 1024, 500 * 1024) == (meter.peak("imports"), meter.retained("imports"))
    assert 600 * 1024 == meter.peak()


def test_a_process_that_shrank_retains_less_than_nothing(process: Process) -> None:
    meter = meter_of(process)
    meter.enter("call")
    process.show(peak_kb=1000, now_kb=900)
    assert -100 * 1024 == meter.retained("call")


@pytest.mark.parametrize("missing", ["status", "VmHWM"])
def test_without_a_peak_there_is_a_reason_and_no_number(process: Process, missing: str) -> None:
    """Another system, or a kernel that does not count: never 0."""
    status = process.folder / "status"
    if missing == "status":
        status.unlink()
    else:
        status.write_text(status.read_text().replace(missing, "Vm"))
    meter = meter_of(process)
    meter.enter("call")
    assert "memory cannot be measured here" in meter.reason
    for read in (meter.peak, meter.now):
        with pytest.raises(MeasurementError, match="memory cannot be measured here"):
            read()
    assert ("", ()) == (meter.source, meter.warnings)


def test_source_and_warnings_are_those_of_what_is_read() -> None:
    meter = MemoryMeter(lambda: PeakRss(FakeResident()))
    assert ("fake peak", ("played back",)) == (meter.source, meter.warnings)
    assert (0, "fake size") == meter.now()


def test_a_reset_loses_nobody_elses_peak() -> None:
    """100 at the peak of one, then another begins, rises by 30 and ends: each is given its own."""
    held = FakeResident()
    peak_rss = PeakRss(held)
    outer = peak_rss.begin()
    held.put(100)
    held.put(-60)
    inner = peak_rss.begin()
    held.put(30)
    held.put(-30)
    assert (100, 30) == (peak_rss.peak(outer), peak_rss.peak(inner))
    peak_rss.end(inner)
    held.put(90)
    assert 130 == peak_rss.peak(outer)


def test_what_has_ended_hears_of_no_later_peak() -> None:
    """Windows may overlap: the first ends while the second goes on."""
    held = FakeResident()
    peak_rss = PeakRss(held)
    first, second = peak_rss.begin(), peak_rss.begin()
    held.put(10)
    assert 10 == peak_rss.peak(first)
    peak_rss.end(first)
    held.put(40)
    assert 50 == peak_rss.peak(second)
    assert 10 == first.high


@pytest.mark.live
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's high-water mark is Linux's")
def test_a_fresh_process_measures_what_it_takes() -> None:
    """64 MiB that are freed at once, then 8 MiB that are kept, with the allocator pinned; within half a MiB."""
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    ended = subprocess.run([sys.executable, "-c", _CODE], env=environment, check=True, capture_output=True, text=True)
    first, left, cleared, second, kept = (int(word) / _MIB for word in ended.stdout.split())
    assert [64, 0, 0, 8, 8] == pytest.approx([first, left, cleared, second, kept], abs=0.5)
