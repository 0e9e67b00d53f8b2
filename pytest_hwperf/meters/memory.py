"""Memory of this process above a point in time: its peak, what is still held, and the lines of code that allocated it.

In a used process every peak depends on earlier calls: what they freed is allocated again without growth. Lines are
found by memray, which slows every allocation and takes memory itself: it runs in a process of its own, never where
memory is measured. Source: memray's documentation, `FileReader.get_high_watermark_allocation_records`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from pytest_hwperf.host.clocks import touched_by_children
from pytest_hwperf.host.memory import Resident, resident
from pytest_hwperf.host.source_files import is_own, relative, tree_around
from pytest_hwperf.records.errors import MeasurementError, install
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.profiles import HeldMemory
from pytest_hwperf.records.units import show

_ALL = "all parts"
# Bytes, which no default margin notices; a small program such as uname touches less.
_LEAST_OF_CHILDREN = 1_000_000


@dataclass(slots=True, kw_only=True, eq=False)
class Mark:
    """A point in time, and the peak since then."""

    start: int  # B held then
    high: int  # B
    hidden: int  # B: an earlier peak that could not be reset, so that nothing below it is seen; 0 for none
    why: str  # it could not be


_NESTED = "this system does not reset peaks while another window is open"


class PeakRss:
    """The high-water mark of the process, of which there is one: resetting it loses no other user's peak."""

    def __init__(self, held: Resident) -> None:
        self.held = held
        self._marks: list[Mark] = []
        self._lock = Lock()

    def begin(self) -> Mark:
        """Watch from now on, until `end`."""
        with self._lock:
            earlier = self._update()
            why = _NESTED if self.held.fills and self._marks else self.held.clear()
            now, _ = self.held.now()
            mark = Mark(start=now, high=now, hidden=earlier if why else 0, why=why)
            self._marks.append(mark)
        return mark

    def peak(self, mark: Mark) -> int:
        """Return the peak above `mark.start` since then, in B."""
        with self._lock:
            self._update()
        if mark.hidden and mark.high <= mark.hidden:
            raise MeasurementError(
                f"the peak is at most {show(max(0, mark.hidden - mark.start), 'B')}: an earlier one of this process "
                f"hides it, and {mark.why}"
            )
        return mark.high - mark.start

    def end(self, mark: Mark) -> None:
        with self._lock:
            self._marks.remove(mark)

    def _update(self) -> int:
        """Pass the peak so far on to every mark, and return it."""
        high = self.held.high()
        for mark in self._marks:
            mark.high = max(mark.high, high)
        return high


class MemoryMeter:
    """Peaks of the parts of which a process consists, in B; what is nobody's part counts in none of them."""

    def __init__(
        self,
        opening: Callable[[], PeakRss] = lambda: PeakRss(resident()),
        children: Callable[[], int] = touched_by_children,
    ) -> None:
        """Use the high-water mark that `opening` returns; `children` tells how much those of this process touched."""
        self.reason = self.source = ""  # why memory is unknown, else what peaks are read from
        self.warnings: tuple[str, ...] = ()
        self.peak_rss: PeakRss | None = None
        self._children = children
        self._part = ""
        self._mark: Mark | None = None
        self._touched = 0  # by children, when the part began
        self._why = ""  # a peak could not be reset
        self._held, self._by_children = Counter[str](), Counter[str]()
        self._high, self._hidden = Counter[str](), Counter[str]()
        try:
            self.peak_rss = opening()
        except MeasurementError as error:
            self.reason = str(error)
        else:
            self.source, self.warnings = self.peak_rss.held.source, self.peak_rss.held.warnings

    def enter(self, part: str) -> None:
        """Count for `part` from now on; for "" nothing is counted."""
        if self.peak_rss is None:
            return
        if self._mark is not None:
            self._close(self.peak_rss, self._mark)
        self._part, self._mark = part, None
        if part:
            self._mark, self._touched = self.peak_rss.begin(), self._children()

    def peak(self, *parts: str) -> int:
        """Return the peak of `parts`, each above what the ones before it hold; without any, that of all parts."""
        if self.peak_rss is None:
            raise MeasurementError(self.reason)
        self.enter(self._part)
        keys = parts or (_ALL,)
        self._check_children(parts or tuple(self._by_children))
        held = [sum(self._held[part] for part in keys[:place]) for place in range(len(keys))]
        high = max(before + self._high[key] for before, key in zip(held, keys, strict=True))
        hidden = max(before + self._hidden[key] for before, key in zip(held, keys, strict=True))
        if hidden > high:
            raise MeasurementError(
                f"the peak is at most {show(hidden, 'B')}: an earlier one of this process hides it, and {self._why}"
            )
        return high

    def retained(self, *parts: str) -> int:
        """Return the bytes that `parts` hold now; below 0 where they have freed what was held before."""
        self.enter(self._part)
        return sum(self._held[part] for part in parts)

    def now(self) -> tuple[int, str]:
        """Return the bytes that the process holds now, and their source."""
        if self.peak_rss is None:
            raise MeasurementError(self.reason)
        return self.peak_rss.held.now()

    def _close(self, peak_rss: PeakRss, mark: Mark) -> None:
        """Add what the part took since it began to what it took before."""
        taken = peak_rss.held.now()[0] - mark.start
        try:
            high, hidden = peak_rss.peak(mark), 0
        except MeasurementError:
            high, hidden = max(taken, 0), mark.hidden - mark.start
        peak_rss.end(mark)
        self._why = mark.why or self._why
        for key, before in ((_ALL, self._held.total()), (self._part, self._held[self._part])):
            self._high[key] = max(self._high[key], before + high)
            self._hidden[key] = max(self._hidden[key], before + hidden)
        self._held[self._part] += taken
        self._by_children[self._part] += max(0, self._children() - self._touched)  # ended ones may be forgotten

    def _check_children(self, parts: Sequence[str]) -> None:
        touched = sum(self._by_children[part] for part in parts)
        if touched > _LEAST_OF_CHILDREN:
            raise MeasurementError(str(state("memory of children")))


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


StackFrame = tuple[str, str, int]  # function, file, line

MISSING = f"{install('memray')} and the lines that hold this memory are named here"

_MOST_SITES = 50
_LEAST_SHARE = 0.001  # of all that is held: less explains nothing


class AllocationSite(NamedTuple):
    """A line of Python that holds memory."""

    function: str  # "" where no Python was running
    file: str  # relative to the tests' root where it lies there, else to where it was imported from
    line: int
    called_at: str  # FILE:LINE of the tests' own code that called it, "" where it is the same or none
    caller: str = ""  # the function that stands there


def allocation_sites_of(work: Callable[[], object], root: Path, record: Path) -> list[HeldMemory]:
    """Run `work` under memray; return up to fifty sites that hold most at the peak, the largest first."""
    try:
        import memray
    except ImportError as error:
        raise MeasurementError(MISSING) from error
    with ExitStack() as stack:
        try:
            stack.enter_context(memray.Tracker(record))
        except RuntimeError as error:
            raise MeasurementError(f"memray cannot watch a fresh process: {error}") from error
        work()
    sizes, counts = Counter[AllocationSite](), Counter[AllocationSite]()
    with memray.FileReader(record) as reader:
        for allocated in reader.get_high_watermark_allocation_records(merge_threads=True):
            site = allocation_site_of(allocated.stack_trace(), root)
            sizes[site] += allocated.size
            counts[site] += allocated.n_allocations
    least = _LEAST_SHARE * sizes.total()
    return [
        HeldMemory(**site._asdict(), size=size, allocations=counts[site])
        for site, size in sizes.most_common(_MOST_SITES)
        if size >= least
    ]


def allocation_site_of(frames: Sequence[StackFrame], root: Path) -> AllocationSite:
    """Return the innermost of `frames`, and the innermost in the user's own code if that is another."""
    if not frames:
        return AllocationSite("", "", 0, "")
    function, file, line = frames[0]
    tree = tree_around(root)
    own = next((one for one in frames if is_own(one[1], tree)), None)
    if own is None or own == frames[0]:
        return AllocationSite(function, relative(file, root), line, "")
    return AllocationSite(function, relative(file, root), line, f"{relative(own[1], root)}:{own[2]}", own[0])
