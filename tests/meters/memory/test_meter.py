"""Peak and retained memory above the idle process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.resident import FakeResident, Process

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.host.peak_rss import resident
from pytest_hwperf.meters.memory.meter import MemoryMeter, PeakRss

# Each answer in bytes: peak of a call that keeps nothing, what is left, peak after a reset, what a kept block leaves.
_CODE = """
from pytest_hwperf.meters.memory.meter import MemoryMeter
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


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def meter_of(process: Process) -> MemoryMeter:
    return MemoryMeter(lambda: PeakRss(resident("linux", process.folder)))


def test_peak_and_retained_are_counted_from_the_idle_process(process: Process) -> None:
    """1000 kB idle, 5000 kB at the peak, 1200 kB now."""
    meter = meter_of(process)

    assert meter.idle() == ""
    process.show(peak_kb=5000, now_kb=1200)
    assert (4000 * 1024, 200 * 1024) == (meter.peak(), meter.retained())


def test_a_reset_keeps_the_idle_value(process: Process) -> None:
    """The process holds 200 kB more than idle when the peak is forgotten, and 300 kB more at the next one."""
    meter = meter_of(process)
    meter.idle()
    process.show(peak_kb=1200, now_kb=1200)

    assert meter.reset() == ""
    process.show(peak_kb=1300, now_kb=1100)
    assert (300 * 1024, 100 * 1024) == (meter.peak(), meter.retained())


def test_a_process_that_shrank_retains_less_than_nothing(process: Process) -> None:
    meter = meter_of(process)
    meter.idle()
    process.show(peak_kb=1000, now_kb=900)

    assert -100 * 1024 == meter.retained()


@pytest.mark.parametrize("missing", ["status", "VmHWM"])
def test_without_a_peak_there_is_a_reason_and_no_number(process: Process, missing: str) -> None:
    """Another system, or a kernel that does not count: never 0."""
    status = process.folder / "status"
    if missing == "status":
        status.unlink()
    else:
        status.write_text(status.read_text().replace(missing, "Vm"))
    meter = meter_of(process)

    assert "memory cannot be measured here" in meter.idle()
    assert "memory cannot be measured here" in meter.reset()
    for measure_memory in (meter.peak, meter.retained, meter.now):
        with pytest.raises(MeasurementError, match="call idle"):
            measure_memory()
    assert ("", ()) == (meter.source, meter.warnings)


def test_a_refusal_forgets_an_earlier_idle_value(process: Process) -> None:
    meter = meter_of(process)
    meter.idle()
    (process.folder / "status").unlink()

    assert meter.idle()
    with pytest.raises(MeasurementError, match="check its reason"):
        meter.peak()


def test_source_and_warnings_are_those_of_what_is_read() -> None:
    meter = MemoryMeter(opening=lambda: PeakRss(FakeResident()))

    assert ("", ("fake peak", ("played back",))) == (meter.idle(), (meter.source, meter.warnings))
    assert (0, "fake size") == meter.now()


def test_without_resets_a_peak_is_reported_if_it_is_the_highest_so_far() -> None:
    """500 before; idle at 100, then 400 and 700: 600 above idle, and a reset that is refused keeps counting."""
    held = FakeResident(refusal="not here")
    held.put(500)
    held.put(-400)
    meter = MemoryMeter(opening=lambda: PeakRss(held))

    assert "" == meter.idle()
    held.put(300)
    with pytest.raises(MeasurementError, match="the peak is at most 400 B: an earlier one of this process hides it"):
        meter.peak()
    held.put(300)
    held.put(-650)
    assert "not here" == meter.reset()
    assert (600, -50) == (meter.peak(), meter.retained())


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
