"""Memory that this process takes on GPUs: by PyTorch's own allocator, else as NVIDIA's driver reports it.

PyTorch keeps the peak itself, to the byte. The driver tells what a process holds now, its context of some hundred MB
included: a context is made before the model is loaded, and what is held above it is read between calls. ONNX Runtime's
arena does not shrink, so that what is held after a call is the most that the call has held.

Reference: torch.cuda.max_memory_allocated; NVML, nvmlDeviceGetComputeRunningProcesses and nvmlProcessInfo_t.
"""

from collections.abc import Callable

from pytest_hwperf.host.nvidia import forget_peak, memory_peak, uses_cuda
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.nvml_library import BoardProcess, boards_of
from pytest_hwperf.records.errors import HwperfError, MeasurementError

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
