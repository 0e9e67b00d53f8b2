"""Memory of this process: the highest it rose above a point in time, and what it still holds above it.

In a used process every peak depends on what ran before: what an earlier call freed is handed out again unseen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.units import show
from pytest_hwperf.host.resident import Resident, resident, resolution

__all__ = ["Mark", "MemoryMeter", "PeakRss", "resolution"]

_BEFORE_IDLE = "memory is counted from the idle process: call idle() first, and heed its reason"


@dataclass(slots=True, kw_only=True, eq=False)
class Mark:
    """A point in time, and the highest that the process has risen since."""

    start: int  # B held then
    high: int  # B
    hidden: int  # B: an earlier peak that could not be forgotten, so that nothing below it is seen; 0 for none


class PeakRss:
    """The process's one high-water mark, shared by all who reset it: no one's reset loses another's peak."""

    def __init__(self, held: Resident) -> None:
        """Read and clear `held`."""
        self.held = held
        self._marks: list[Mark] = []
        self._lock = Lock()

    def begin(self) -> Mark:
        """Begin to watch from here; `end` it.

        Raises:
            MeasurementError: the system does not tell what is held.
        """
        with self._lock:
            earlier = self._fold()
            hidden = earlier if self.held.clear() else 0
            now, _ = self.held.now()
            mark = Mark(start=now, high=now, hidden=hidden)
            self._marks.append(mark)
        return mark

    def peak(self, mark: Mark) -> int:
        """Return the bytes by which the process has been above `mark.start` at the highest since.

        Raises:
            MeasurementError: an earlier peak hides it, and cannot be cleared here; or the system does not tell.
        """
        with self._lock:
            self._fold()
        if mark.hidden and mark.high <= mark.hidden:
            raise MeasurementError(
                f"the peak is at most {show(max(0, mark.hidden - mark.start), 'B')}: an earlier one of this process "
                f"hides it, and {self.held.clear()}"
            )
        return mark.high - mark.start

    def end(self, mark: Mark) -> None:
        """Watch no longer."""
        with self._lock:
            self._marks.remove(mark)

    def _fold(self) -> int:
        """Give the peak so far to everyone who watches, and return it."""
        high = self.held.high()
        for mark in self._marks:
            mark.high = max(mark.high, high)
        return high


class MemoryMeter:
    """Notes the idle process, then tells peaks above it; in bytes."""

    def __init__(self, process: str | Path = "/proc/self", *, opening: Callable[[], PeakRss] | None = None) -> None:
        """Watch the high-water mark that `opening` gives, else one of its own; on Linux, of the folder `process`."""
        self._opening = opening or (lambda: PeakRss(resident(process=process)))
        self._peak_rss: PeakRss | None = None
        self._idle: int | None = None
        self._mark: Mark | None = None

    @property
    def source(self) -> str:
        """What peaks are read from; "" before a successful `idle`."""
        return self._peak_rss.held.source if self._peak_rss else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be known of peaks; () before a successful `idle`."""
        return self._peak_rss.held.warnings if self._peak_rss else ()

    def idle(self) -> str:
        """Note what the process holds now and forget its peak so far; return why nothing can be told, "" where it can.

        A system that clears no peaks is no reason: there, a peak is told if it is the highest so far.
        """
        self._idle = None
        try:
            mark = self._opened().begin()
        except MeasurementError as error:
            return str(error)
        self._watch(mark)
        self._idle = mark.start
        return ""

    def reset(self) -> str:
        """Forget the peak so far and keep the idle value; return why it cannot be done, "" where it can."""
        try:
            peak_rss = self._opened()
            mark = peak_rss.begin()
        except MeasurementError as error:
            return str(error)
        if mark.hidden:
            peak_rss.end(mark)
            return peak_rss.held.clear()
        self._watch(mark)
        return ""

    def peak(self) -> int:
        """Return the bytes of the peak above the idle process, since `idle` or the last `reset`.

        Raises:
            MeasurementError: nothing was noted to count from, or an earlier peak hides it.
        """
        peak_rss, mark, idle = self._noted()
        return peak_rss.peak(mark) + mark.start - idle

    def retained(self) -> int:
        """Return the bytes held now above the idle process; below 0 where it has shrunk.

        Raises:
            MeasurementError: nothing was noted to count from.
        """
        peak_rss, _, idle = self._noted()
        return peak_rss.held.now()[0] - idle

    def now(self) -> tuple[int, str]:
        """Return the bytes held now, and what they were read from.

        Raises:
            MeasurementError: nothing was noted to count from.
        """
        peak_rss, _, _ = self._noted()
        return peak_rss.held.now()

    def _opened(self) -> PeakRss:
        if self._peak_rss is None:
            self._peak_rss = self._opening()
        return self._peak_rss

    def _watch(self, mark: Mark) -> None:
        if self._peak_rss is not None and self._mark is not None:
            self._peak_rss.end(self._mark)
        self._mark = mark

    def _noted(self) -> tuple[PeakRss, Mark, int]:
        if self._peak_rss is None or self._mark is None or self._idle is None:
            raise MeasurementError(_BEFORE_IDLE)
        return self._peak_rss, self._mark, self._idle
