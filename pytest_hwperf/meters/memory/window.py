"""Memory of a block of the user's code, in the process in which it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.meters.memory.meter import Mark, PeakRss

_OPEN = "the window is still open: read it after the block"
_USED = "a used process: what earlier code has freed is allocated again, and the block seems to need less"
_UNPINNED = "the allocator is not pinned: how much of what is freed goes back to the system varies"


@dataclass(slots=True)
class MemoryReading:
    """Result of one window; filled in when it ends."""

    source: str  # as `VmHWM after clear_refs`, "" where nothing can be read
    warnings: tuple[str, ...]  # limits of the figures
    reason: str  # why anything is unmeasured, "" where all is there
    peak_bytes: int | None = None  # highest above the block's beginning; None = unmeasured
    retained_bytes: int | None = None  # still held when it ended, below 0 where memory was freed


class MemoryWindows:
    """Makes windows around blocks of code; they may nest and overlap without losing peaks."""

    def __init__(self, opening: Callable[[], PeakRss]) -> None:
        self._opening = opening

    @contextmanager
    def window(self) -> Iterator[MemoryReading]:
        """Watch the block; the reading it yields is filled in when the block has ended.

        A block that raises is unmeasured, and its exception passes on: the peak of half a block means nothing.
        """
        try:
            peak_rss = self._opening()
            mark = peak_rss.begin()
        except MeasurementError as error:
            refused = str(error)
        else:
            yield from self._watched(peak_rss, mark)
            return
        yield MemoryReading("", (), refused)

    def _watched(self, peak_rss: PeakRss, mark: Mark) -> Iterator[MemoryReading]:
        reading = MemoryReading(peak_rss.held.source, (_USED, _UNPINNED, *peak_rss.held.warnings), _OPEN)
        try:
            yield reading
        except BaseException as error:
            reading.reason = f"the block raised {type(error).__name__} before its window ended"
            raise
        else:
            reading.reason = _fill(reading, peak_rss, mark)
        finally:
            peak_rss.end(mark)


def _fill(reading: MemoryReading, peak_rss: PeakRss, mark: Mark) -> str:
    """Read what can be read; return why anything cannot."""
    try:
        reading.retained_bytes = peak_rss.held.now()[0] - mark.start
        reading.peak_bytes = peak_rss.peak(mark)
    except MeasurementError as error:
        return str(error)
    return ""
