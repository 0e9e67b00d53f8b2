"""NVIDIA's management library through its own bindings, `pynvml`, with its errors turned into those of this package."""

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable

_POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT of nvml.h, mW; not the mean over a second of nvmlDeviceGetPowerUsage
_MILLI, _PERCENT = 1e-3, 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One GPU."""

    index: int  # of NVML and nvidia-smi: by PCI address
    uuid: str  # "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
    model: str  # "NVIDIA A100-SXM4-40GB"
    handle: object

    def __str__(self) -> str:
        return f"GPU {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardProcess:
    """A process that computes on a board."""

    pid: int
    memory: int | None  # B on the board; None = not reported


def open_library(bindings: Any = None) -> "Library":
    if bindings is None:
        sentence = "NVIDIA boards are read through nvidia-ml-py, which is not installed"
        require("gpu", sentence, "pynvml", error=MeterUnavailable)
        import pynvml

        bindings = pynvml
    return Library(bindings)


class Library:
    """The library, loaded until `close`."""

    def __init__(self, bindings: Any) -> None:
        self._nvml = nvml = bindings
        remedies = {
            nvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
                "libnvidia-ml was not found: install NVIDIA's driver, or start the container with --gpus all and "
                "-e NVIDIA_DRIVER_CAPABILITIES=compute,utility."
            ),
            nvml.NVML_ERROR_DRIVER_NOT_LOADED: "NVIDIA's driver is not loaded: sudo modprobe nvidia.",
        }
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise MeterUnavailable(remedies.get(error.value, f"NVIDIA's library answers {error}.")) from error
        self._is_open = True

    def close(self) -> None:
        """Release the library; closing twice does nothing."""
        if self._is_open:
            self._is_open = False
            self._nvml.nvmlShutdown()

    def boards(self) -> tuple[Board, ...]:
        try:
            return tuple(map(self._board, range(self._nvml.nvmlDeviceGetCount())))
        except self._nvml.NVMLError as error:
            raise MeterUnavailable(
                f"A board of this machine cannot be asked: NVIDIA's library answers {error}."
            ) from error

    def board_of_mig(self, mig_uuid: str) -> str:
        """Return the UUID of the board of a MIG instance, "" where there is no such instance."""
        nvml = self._nvml
        try:
            part = nvml.nvmlDeviceGetHandleByUUID(mig_uuid)
            return str(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)))
        except nvml.NVMLError:
            return ""  # CUDA does not know it either

    def millijoules(self, board: Board) -> int:
        """Return the energy of a board since its driver was loaded."""
        return int(self._answer(board, self._nvml.nvmlDeviceGetTotalEnergyConsumption))

    def watts(self, board: Board) -> float:
        values = self._answer(board, lambda handle: self._nvml.nvmlDeviceGetFieldValues(handle, [_POWER_INSTANT]))
        if values[0].nvmlReturn != self._nvml.NVML_SUCCESS:
            raise MeasurementError(f"{board} answers {self._nvml.NVMLError(values[0].nvmlReturn)}")
        return float(values[0].value.uiVal * _MILLI)

    def busy_share(self, board: Board) -> float:
        """Return the share of the latest sample period (1/6 s to 1 s by product) in which a kernel ran."""
        return float(self._answer(board, self._nvml.nvmlDeviceGetUtilizationRates).gpu * _PERCENT)

    def processes(self, board: Board) -> tuple[BoardProcess, ...] | None:
        """Return the processes that compute on a board, None where it does not report them.

        The driver knows no namespaces: in a container their numbers may be the host's, or missing.
        """
        try:
            running = self._nvml.nvmlDeviceGetComputeRunningProcesses(board.handle)
        except self._nvml.NVMLError:
            return None
        return tuple(BoardProcess(pid=process.pid, memory=process.usedGpuMemory) for process in running)

    def is_split(self, board: Board) -> bool:
        """Whether a board is split into MIG instances; one that knows no MIG is not."""
        try:
            current, _pending = self._nvml.nvmlDeviceGetMigMode(board.handle)
        except self._nvml.NVMLError:
            return False
        return bool(current == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def _board(self, index: int) -> Board:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        return Board(
            index=index,
            uuid=str(nvml.nvmlDeviceGetUUID(handle)),
            model=str(nvml.nvmlDeviceGetName(handle)),
            handle=handle,
        )

    def _answer(self, board: Board, ask: Callable[[object], Any]) -> Any:
        try:
            return ask(board.handle)
        except self._nvml.NVMLError as error:
            raise MeasurementError(f"{board} answers {error}") from error


_INDEX = re.compile(r"[0-9]{1,4}")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_BY_ADDRESS = "PCI_BUS_ID"  # the order of NVML; CUDA's own is the fastest first


def boards_of(library: Library, environ: Mapping[str, str]) -> tuple[Board, ...]:
    """Return the boards of this machine that CUDA shows to this process; at least one."""
    boards = library.boards()
    if not boards:
        raise MeterUnavailable("NVIDIA's driver shows no board.")
    return visible_boards(boards, environ, library.board_of_mig)


def visible_boards(
    boards: Sequence[Board], environ: Mapping[str, str], board_of_mig: Callable[[str], str]
) -> tuple[Board, ...]:
    """Return the boards that CUDA shows to this process, by index; each once."""
    if _VISIBLE not in environ:
        return tuple(boards)
    words = [word.strip() for word in environ[_VISIBLE].split(",")]
    chosen: dict[int, Board] = {}
    numbered = False
    for word in words:
        board = _find(word, boards, board_of_mig)
        if board is not None and board.index in chosen and "MIG-" not in word:
            raise MeterUnavailable(f"{_VISIBLE}={environ[_VISIBLE]!r} names a board twice: CUDA shows none then.")
        if board is None:
            break  # CUDA ignores whatever follows a name that it does not know
        numbered = numbered or bool(_INDEX.fullmatch(word))
        chosen[board.index] = board
    if not chosen:
        raise MeterUnavailable(
            f"{_VISIBLE}={environ[_VISIBLE]!r} shows this process no board. Unset it, or name one of "
            f"{', '.join(f'{board.index} ({board.uuid})' for board in boards)}."
        )
    models = {board.model for board in boards}
    if numbered and len(chosen) < len(boards) and environ.get(_ORDER) != _BY_ADDRESS and len(models) > 1:
        raise MeterUnavailable(
            f"{_VISIBLE}={environ[_VISIBLE]} counts the fastest board first, so that which board is meant is not known "
            f"among {', '.join(sorted(models))}. Set {_ORDER}={_BY_ADDRESS}, or name boards by UUID."
        )
    return tuple(chosen[index] for index in sorted(chosen))


def _find(word: str, boards: Sequence[Board], board_of_mig: Callable[[str], str]) -> Board | None:
    """Return the board of an index, of a UUID or its beginning, or of a MIG instance; None where CUDA knows none."""
    if _INDEX.fullmatch(word):
        return next((board for board in boards if board.index == int(word)), None)
    if word.startswith("MIG-"):
        # MIG-GPU-UUID/3/0 is the older form and names the board itself.
        uuid = word.removeprefix("MIG-").partition("/")[0] if word.startswith("MIG-GPU-") else board_of_mig(word)
        return next((board for board in boards if board.uuid == uuid), None)
    found = [board for board in boards if word.startswith("GPU-") and board.uuid.startswith(word)]
    return found[0] if len(found) == 1 else None


_LIBRARY = "libcuda.so.1"
_NONE = "no context could be made on the GPU"


def make_context(driver: Any = None) -> None:
    """Make the primary context of the first GPU, where there is none yet."""
    try:
        driver = driver or ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise MeasurementError(f"{_NONE}: {error}") from error
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for name, arguments in (
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device)),
    ):
        if code := getattr(driver, name)(*arguments):
            raise MeasurementError(f"{_NONE}: {name} answers error {code}")
