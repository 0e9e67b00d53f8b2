"""Utilisation of NVIDIA boards: the share of time in which a kernel ran, as their driver averages it by itself.

It is read at the end of each window, between timed calls: no thread reads it while calls are timed. A window is longer
than the longest period that a driver averages over, so that values of successive windows share nothing.

Reference: NVML, nvmlDeviceGetUtilizationRates and nvmlUtilization_t.
"""

from collections.abc import Mapping, Sequence

from pytest_hwperf.host.nvidia import uses_cuda
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.nvml_library import Board, Library, boards_of
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.records.metrics import BOARD_UTILISATION
from pytest_hwperf.records.run import Reading
from pytest_hwperf.records.units import show

_PERIOD_S = 1.0  # the longest: between 1/6 s and 1 s, by product
_NO_GPU = "this process uses no GPU"


class UtilisationMeter:
    """Mean share of busy time of whole boards, whichever process kept them busy."""

    metric = BOARD_UTILISATION
    covers: Covered = "boards"
    shortest_window_s = _PERIOD_S

    def __init__(self, library: Library, boards: Sequence[Board], access: Access) -> None:
        self.source = f"nvml:{'+'.join(str(board.index) for board in boards)}"
        self.warnings = tuple(_doubts(library, boards, access.pid))
        self._library = library
        self._boards = boards
        self._clock = access.clock

    def start(self) -> float:
        """Return the time at the beginning of a window."""
        return self._clock()

    def end(self, started: float) -> Reading:
        """Return the share of the latest period of the driver, all of which lies after `started`."""
        lasted = self._clock() - started
        if lasted < _PERIOD_S:
            return Reading(value=None, reason=f"a window of {show(lasted, 's')}; {show(_PERIOD_S, 's')} needed")
        try:
            shares = [self._library.busy_share(board) for board in self._boards]
        except MeasurementError as error:
            return Reading(value=None, reason=f"{error} when asked for its utilisation")
        return Reading(value=sum(shares) / len(shares))

    def close(self) -> None:
        """Close the library; closing twice does nothing."""
        self._library.close()


def utilisation_meter(environ: Mapping[str, str], *, on_gpu: bool, access: Access | None = None) -> UtilisationMeter:
    """Open the boards that this process uses."""
    access = access or Access()
    known = on_gpu or uses_cuda(access.modules)
    try:
        library = access.library()
    except MeterUnavailable as reason:
        raise (reason if known else MeterUnavailable(_NO_GPU)) from reason
    try:
        boards = _used(library, boards_of(library, environ), access.pid, known=known)
    except MeterUnavailable:
        library.close()
        raise
    return UtilisationMeter(library, boards, access)


def _used(library: Library, boards: Sequence[Board], pid: int, *, known: bool) -> Sequence[Board]:
    """Return the boards that name this process, else the only one.

    In a container the driver may know this process by another number.
    """
    own = [board for board in boards if any(one.pid == pid for one in library.processes(board) or ())]
    if own or (known and len(boards) == 1):
        return own or boards
    if not known:
        raise MeterUnavailable(_NO_GPU)
    raise MeterUnavailable(
        f"none of {len(boards)} boards names this process, as in a container, so that the one it uses is not known: "
        "name it in CUDA_VISIBLE_DEVICES"
    )


def _doubts(library: Library, boards: Sequence[Board], pid: int) -> list[str]:
    found = []
    for board in boards:
        processes = library.processes(board)
        others = [str(one.pid) for one in processes or () if one.pid != pid]
        if processes is None or others:
            shared = f"was shared with process {', '.join(others)}" if others else "does not report its processes"
            found.append(f"{board} {shared}: its utilisation is the whole board's")
    return found
