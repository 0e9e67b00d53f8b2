"""Lines of code that allocate memory, by memray: those that hold most of it at the peak.

memray slows every allocation and takes memory itself: it runs in a process of its own, never where memory is measured.
Source: memray's documentation, `FileReader.get_high_watermark_allocation_records`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from pytest_hwperf.host.source_files import is_own, relative
from pytest_hwperf.records.errors import MeasurementError, install
from pytest_hwperf.records.profiles import HeldMemory

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
    own = next((one for one in frames if is_own(one[1], root)), None)
    if own is None or own == frames[0]:
        return AllocationSite(function, relative(file, root), line, "")
    return AllocationSite(function, relative(file, root), line, f"{relative(own[1], root)}:{own[2]}", own[0])
