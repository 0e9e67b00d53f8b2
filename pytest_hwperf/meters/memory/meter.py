"""Memory of this process above a point in time: its peak, and what is still held.

In a used process every peak depends on earlier calls: what they freed is allocated again without growth.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.units import show
from pytest_hwperf.host.peak_rss import Resident, resident

_BEFORE_IDLE = "memory is counted from the idle process: call idle() first, and check its reason"


@dataclass(slots=True, kw_only=True, eq=False)
class Mark:
    """A point in time, and the peak since then."""

    start: int  # B held then
    high: int  # B
    hidden: int  # B: an earlier peak that could not be reset, so that nothing below it is seen; 0 for none


class PeakRss:
    """The high-water mark of the process, of which there is one: resetting it loses no other user's peak."""

    def __init__(self, held: Resident) -> None:
        """Read and clear `held`."""
        self.held = held
        self._marks: list[Mark] = []
        self._lock = Lock()

    def begin(self) -> Mark:
        """Watch from now on, until `end`.

        Raises:
            MeasurementError: the system does not report memory.
        """
        with self._lock:
            earlier = self._update()
            hidden = earlier if self.held.clear() else 0
            now, _ = self.held.now()
            mark = Mark(start=now, high=now, hidden=hidden)
            self._marks.append(mark)
        return mark

    def peak(self, mark: Mark) -> int:
        """Return the peak above `mark.start` since then, in B.

        Raises:
            MeasurementError: an earlier peak hides it and cannot be reset here; or the system does not report memory.
        """
        with self._lock:
            self._update()
        if mark.hidden and mark.high <= mark.hidden:
            raise MeasurementError(
                f"the peak is at most {show(max(0, mark.hidden - mark.start), 'B')}: an earlier one of this process "
                f"hides it, and {self.held.clear()}"
            )
        return mark.high - mark.start

    def end(self, mark: Mark) -> None:
        """Stop watching."""
        with self._lock:
            self._marks.remove(mark)

    def _update(self) -> int:
        """Pass the peak so far on to every mark, and return it."""
        high = self.held.high()
        for mark in self._marks:
            mark.high = max(mark.high, high)
        return high


class MemoryMeter:
    """Peaks above the idle process, in B."""

    def __init__(self, opening: Callable[[], PeakRss] = lambda: PeakRss(resident())) -> None:
        """Use the high-water mark that `opening` returns, at the first use: it may raise MeasurementError."""
        self._opening = opening
        self._peak_rss: PeakRss | None = None
        self._idle: int | None = None
        self._mark: Mark | None = None

    @property
    def source(self) -> str:
        """What peaks are read from; "" before a successful `idle`."""
        return self._peak_rss.held.source if self._peak_rss else ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limits of the peaks; () before a successful `idle`."""
        return self._peak_rss.held.warnings if self._peak_rss else ()

    def idle(self) -> str:
        """Note the present size as that of the idle process and reset the peak; return why memory is unknown, or "".

        A system that resets no peaks is no reason: there, a peak is reported if it is the highest so far.
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
        """Reset the peak and keep the idle value; return why it cannot be done, "" where it can."""
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
        """Return the peak above the idle process, since `idle` or the last `reset`.

        Raises:
            MeasurementError: `idle` has not succeeded, or an earlier peak hides it.
        """
        peak_rss, mark, idle = self._noted()
        return peak_rss.peak(mark) + mark.start - idle

    def retained(self) -> int:
        """Return the bytes held now above the idle process; below 0 where it has shrunk.

        Raises:
            MeasurementError: `idle` has not succeeded.
        """
        peak_rss, _, idle = self._noted()
        return peak_rss.held.now()[0] - idle

    def now(self) -> tuple[int, str]:
        """Return the bytes held now, and their source.

        Raises:
            MeasurementError: `idle` has not succeeded.
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
