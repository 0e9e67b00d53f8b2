"""Windows around a user's block: figures after it, a reason wherever there is none."""

from contextlib import suppress

import pytest
from fakes.resident import FakeResident

from pytest_hwperf.meters.memory import MemoryWindows, PeakRss
from pytest_hwperf.records.errors import MeasurementError


def windows_on(peak_rss: PeakRss) -> MemoryWindows:
    return MemoryWindows(lambda: peak_rss)


@pytest.fixture
def held() -> FakeResident:
    """1000 B are held before any block, and 4000 have been."""
    held = FakeResident()
    held.put(4000)
    held.put(-3000)
    return held


def test_a_block_tells_its_peak_and_what_it_keeps(held: FakeResident) -> None:
    with windows_on(PeakRss(held)).window() as reading:
        held.put(500)
        held.put(-300)
    assert (500, 200, "") == (reading.peak_bytes, reading.retained_bytes, reading.reason)
    assert "fake peak" == reading.source


def test_the_reading_says_what_it_is_not(held: FakeResident) -> None:
    with windows_on(PeakRss(held)).window() as reading:
        held.put(1)
    used, unpinned, own = reading.warnings
    assert used.startswith("a used process: what earlier code has freed")
    assert unpinned.startswith("the allocator is not pinned")
    assert "played back" == own


def test_an_open_window_has_no_figure_but_a_reason(held: FakeResident) -> None:
    with windows_on(PeakRss(held)).window() as reading:
        assert (None, None) == (reading.peak_bytes, reading.retained_bytes)
        assert "the window is still open: read it after the block" == reading.reason


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, MeasurementError])
def test_what_a_block_raises_goes_on_and_leaves_no_figure(held: FakeResident, kind: type[BaseException]) -> None:
    peak_rss = PeakRss(held)
    with pytest.raises(kind), windows_on(peak_rss).window() as reading:
        raise kind
    assert (None, None) == (reading.peak_bytes, reading.retained_bytes)
    assert f"the block raised {kind.__name__} before its window ended" == reading.reason


def test_nested_windows_keep_their_peaks(held: FakeResident) -> None:
    """The outer one peaked at 900 before the inner one made the system forget it."""
    windows = windows_on(PeakRss(held))
    with windows.window() as outer:
        held.put(900)
        held.put(-800)
        with windows.window() as inner:
            held.put(300)
            held.put(-250)
    assert (900, 150) == (outer.peak_bytes, outer.retained_bytes)
    assert (300, 50) == (inner.peak_bytes, inner.retained_bytes)


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
