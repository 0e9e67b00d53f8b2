"""Memory that this process takes on GPUs, and utilisation of NVIDIA boards.

PyTorch keeps the peak itself, to the byte. The driver tells what a process holds now, its context of some hundred MB
included: a context is made before the model is loaded, and what is held above it is read between calls. ONNX Runtime's
arena does not shrink, so that what is held after a call is the most that the call has held.

Utilisation is the share of time in which a kernel ran, as the driver averages it by itself. It is read at the end of
each window, between timed calls: no thread reads it while calls are timed. A window is longer than the longest period
that a driver averages over, so that values of successive windows share nothing.

Reference: torch.cuda.max_memory_allocated; NVML, nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_t and
nvmlDeviceGetUtilizationRates.
"""

from collections.abc import Callable, Mapping, Sequence

from pytest_hwperf.host.nvidia import forget_peak, memory_peak, uses_cuda
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.nvml_library import Board, BoardProcess, Library, boards_of
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.errors import HwperfError, MeasurementError, MeterUnavailable
from pytest_hwperf.records.metrics import BOARD_UTILISATION
from pytest_hwperf.records.run import Reading
from pytest_hwperf.records.units import show

BY_TORCH = "torch.cuda.max_memory_allocated"
BY_DRIVER = "nvml, above the context of the process, read between calls"


class GpuMemory:
    """The most bytes that this process has taken on GPUs since it began to look."""

    def __init__(self, *, by_driver: bool, access: Access | None = None) -> None:
        self._access = access or Access()
        self._idle = self._most = 0  # B
        self._by_driver = by_driver
        self._processes: Callable[[], list[BoardProcess]] = list  # on all boards, as the driver lists them
        self._close: Callable[[], object] = list
        self._problem = ""
        if by_driver:
            self._noting(self._open)

    def begin(self) -> None:
        """Note what is held before anything is loaded; nothing is asked where no GPU is to be used."""
        if self._by_driver:
            self._noting(self._begin_with_context)
        elif uses_cuda(self._access.modules):
            self._noting(self._begin_with_torch)

    def note(self) -> None:
        """Read what is held now, between two calls."""
        if self._by_driver:
            self._noting(self._read)

    def peak(self) -> tuple[int, str] | None:
        """Return the most bytes above those held before, and what they are from; None where no GPU is used."""
        self._close()
        if self._problem:
            raise MeasurementError(self._problem)
        if self._by_driver:
            return self._most - self._idle, BY_DRIVER
        if not uses_cuda(self._access.modules):
            return None
        return memory_peak(self._access.modules) - self._idle, BY_TORCH

    def _noting(self, step: Callable[[], None]) -> None:
        """Take a step; after one that has failed, no other."""
        if self._problem:
            return
        try:
            step()
        except HwperfError as error:
            self._problem = str(error)

    def _open(self) -> None:
        library = self._access.library()
        self._close = library.close
        boards = boards_of(library, self._access.environ)
        self._processes = lambda: [one for board in boards for one in library.processes(board) or ()]

    def _begin_with_context(self) -> None:
        self._access.make_context()
        self._read()
        self._idle = self._most

    def _begin_with_torch(self) -> None:
        self._idle = forget_peak(self._access.modules)

    def _read(self) -> None:
        own = [one.memory for one in self._processes() if one.pid == self._access.pid]
        if not own:
            raise MeasurementError(
                "NVIDIA's driver does not name this process, which it knows by another number in a container: start "
                "the container with --pid=host"
            )
        known = [memory for memory in own if memory is not None]
        if len(known) < len(own):
            raise MeasurementError("NVIDIA's driver does not report the memory of single processes here")
        self._most = max(self._most, sum(known))


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
