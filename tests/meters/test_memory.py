"""Memory of this process: peaks of its parts, windows around blocks, and the lines that allocate."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from fakes.resident import FakeResident, Process

import pytest_hwperf
from pytest_hwperf.host.memory import resident
from pytest_hwperf.meters.memory import (
    AllocationSite,
    MemoryMeter,
    MemoryWindows,
    PeakRss,
    StackFrame,
    allocation_site_of,
    allocation_sites_of,
)
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


def test_without_a_peak_there_is_a_reason_and_no_number(process: Process) -> None:
    """Another system, or a kernel that does not count: never 0."""
    (process.folder / "status").unlink()
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


def windows_on(peak_rss: PeakRss) -> MemoryWindows:
    return MemoryWindows(lambda: peak_rss)


@pytest.fixture
def held() -> FakeResident:
    """1000 B are held before any block, and 4000 have been."""
    held = FakeResident()
    held.put(4000)
    held.put(-3000)
    return held


def test_a_block_tells_its_peak_what_it_keeps_and_what_it_is_not(held: FakeResident) -> None:
    with windows_on(PeakRss(held)).window() as reading:
        held.put(500)
        held.put(-300)
    assert (500, 200, "") == (reading.peak_bytes, reading.retained_bytes, reading.reason)
    assert "fake peak" == reading.source
    used, unpinned, own = reading.warnings
    assert used.startswith("a used process: what earlier code has freed")
    assert unpinned.startswith("the allocator is not pinned")
    assert "played back" == own


def test_an_open_window_has_no_figure_but_a_reason(held: FakeResident) -> None:
    with windows_on(PeakRss(held)).window() as reading:
        assert (None, None) == (reading.peak_bytes, reading.retained_bytes)
        assert "the window is still open: read it after the block" == reading.reason


def test_what_a_block_raises_goes_on_and_leaves_no_figure(held: FakeResident) -> None:
    """Also where it looks like an error of the measurement."""
    for kind in (KeyboardInterrupt, MeasurementError):
        with pytest.raises(kind), windows_on(PeakRss(held)).window() as reading:
            raise kind
        assert (None, None) == (reading.peak_bytes, reading.retained_bytes)
        assert f"the block raised {kind.__name__} before its window ended" == reading.reason


def test_an_inner_peak_is_the_outer_ones_too(held: FakeResident) -> None:
    windows = windows_on(PeakRss(held))
    with windows.window() as outer:
        held.put(100)
        with suppress(ZeroDivisionError), windows.window():
            held.put(700)
            held.put(-700)
            raise ZeroDivisionError
    assert 800 == outer.peak_bytes


def test_a_hidden_peak_is_unmeasured_and_what_is_kept_is_not() -> None:
    """Where the system clears no peaks, an earlier one at 4000 hides what stays below it."""
    held = FakeResident(refusal="this system does not reset peaks")
    held.put(4000)
    held.put(-3000)
    with windows_on(PeakRss(held)).window() as reading:
        held.put(500)
    assert (None, 500) == (reading.peak_bytes, reading.retained_bytes)
    assert reading.reason.startswith("the peak is at most 3.00 kB: an earlier one of this process hides it")


def test_a_system_that_tells_nothing_gives_its_reason() -> None:
    """The block runs all the same."""

    def refuse() -> PeakRss:
        raise MeasurementError("no memory is reported here")

    ran = []
    with MemoryWindows(refuse).window() as reading:
        ran.append(True)
    assert (None, None) == (reading.peak_bytes, reading.retained_bytes)
    assert ("", "no memory is reported here") == (reading.source, reading.reason)
    assert ran == [True]


ROOT = Path("/home/me/project")
PACKAGES = "/home/me/project/.venv/lib/python3.12/site-packages"
MINE: StackFrame = ("predict", "/home/me/project/src/model.py", 12)
TEST: StackFrame = ("test_it", "/home/me/project/tests/test_it.py", 5)
LIBRARY: StackFrame = ("dot", f"{PACKAGES}/numpy/linalg.py", 90)


@pytest.fixture
def _imported_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", str(Path(json.__file__).parents[1]), PACKAGES, "/home/me/project/src"])


SITES: tuple[tuple[list[StackFrame], AllocationSite], ...] = (
    ([MINE, TEST], AllocationSite("predict", "src/model.py", 12, "")),
    ([LIBRARY, MINE, TEST], AllocationSite("dot", "numpy/linalg.py", 90, "src/model.py:12", "predict")),
    (
        [("load", json.decoder.__file__, 3), TEST],
        AllocationSite("load", "json/decoder.py", 3, "tests/test_it.py:5", "test_it"),
    ),
    ([("run", "/elsewhere/a.py", 1)], AllocationSite("run", "/elsewhere/a.py", 1, "")),
    ([], AllocationSite("", "", 0, "")),  # a thread that runs no Python
)


@pytest.mark.usefixtures("_imported_from")
def test_a_site_is_the_innermost_line_and_the_users_own_that_led_there() -> None:
    """Files are shown relative to the tests' root, or from where they were imported."""
    assert list(SITES) == [(frames, allocation_site_of(frames, ROOT)) for frames, _ in SITES]


def test_the_plugins_own_lines_are_not_the_users() -> None:
    """In its own repository they lie below the root too."""
    root = Path(pytest_hwperf.__file__).parents[1]
    frames = [LIBRARY, ("work", f"{root}/pytest_hwperf/plugin/worker.py", 1), ("t", f"{root}/tests/a.py", 5)]
    assert "tests/a.py:5" == allocation_site_of(frames, root).called_at


@pytest.mark.live
def test_the_largest_block_is_named_first(tmp_path: Path) -> None:
    pytest.importorskip("memray", reason="the extra memray is not installed")
    kept = []

    def large() -> None:
        kept.append(bytearray(32 << 20))

    def small() -> None:
        kept.extend(bytearray(4 << 20) for _ in range(2))

    def work() -> None:
        large()
        small()

    first, second, *_ = allocation_sites_of(work, Path(__file__).parent, tmp_path / "record")
    assert ("large", "test_memory.py", 1) == (first.function, first.file, first.allocations)
    assert 32 << 20 == pytest.approx(first.size, rel=0.01)
    assert ("small", 2) == (second.function.rpartition(".")[2].replace("<genexpr>", "small"), second.allocations)


@pytest.mark.live
def test_memray_at_work_already_is_a_reason(tmp_path: Path) -> None:
    """Two trackers cannot watch one process."""
    memray = pytest.importorskip("memray", reason="the extra memray is not installed")
    with memray.Tracker(tmp_path / "outer"), pytest.raises(MeasurementError, match="memray cannot watch"):
        allocation_sites_of(list, tmp_path, tmp_path / "inner")


def test_what_was_installed_within_the_root_is_not_the_users_own(tmp_path: Path) -> None:
    for folder in ("env/lib/python3.12/site-packages/pkg", "usr/lib/python3/dist-packages/pkg"):
        frames = [("load", str(tmp_path / folder / "mod.py"), 3), ("test_it", str(tmp_path / "test_a.py"), 5)]
        assert "test_a.py:5" == allocation_site_of(frames, tmp_path).called_at


def test_the_interpreters_own_files_are_not_the_users_even_below_the_root() -> None:
    """Containers run with / as the root."""
    decoder = json.decoder.__file__
    frames = [("decode", decoder, 353), ("test_it", "/work/test_a.py", 5)]
    assert allocation_site_of(frames, Path("/")).called_at.endswith("test_a.py:5")


def test_without_memray_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "memray", None)
    with pytest.raises(MeasurementError, match=r"^pip install 'pytest-hwperf\[memray\]'"):
        allocation_sites_of(list, tmp_path, tmp_path / "record")
