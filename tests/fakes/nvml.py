"""A stand-in for the module `pynvml`: its names, its arguments, its errors, and boards that draw what a test says."""

# ruff: noqa: N802, N815 - the names of functions and fields are NVIDIA's

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

UNINITIALIZED, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 3, 4, 6
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 9, 12, 13, 15
_TEXTS = {
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    9: "Driver Not Loaded",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    15: "GPU is lost",
    999: "Unknown Error",
}


class NVMLError(Exception):
    """As the bindings raise it: a number, and a text by it."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return _TEXTS[self.value]


@dataclass(slots=True)
class Running:
    """A process on a board."""

    pid: int
    usedGpuMemory: int | None


@dataclass(slots=True)
class Utilisation:
    """Percent of the latest sample period."""

    gpu: int
    memory: int


@dataclass(slots=True)
class Value:
    """The union of a field's value; only the member that the driver fills is there."""

    uiVal: int


@dataclass(slots=True)
class FieldValue:
    fieldId: int
    nvmlReturn: int
    value: Value


@dataclass(eq=False)
class FakeBoard:
    """One board; also its handle. `errors` are what a function of that name answers instead, by errno."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB"
    millijoules: int = 5_000_000
    milliwatts: int = 60_000
    busy: int = 0  # percent of the latest sample period
    mig: bool | None = False  # None: the board knows no MIG
    processes: list[Running] = field(default_factory=list)
    instances: list[str] = field(default_factory=list)  # UUIDs of MIG instances
    errors: dict[str, int] = field(default_factory=dict)

    def draw(self, joules: float) -> None:
        self.millijoules += round(joules * 1000)


class FakeNvml:
    """The module; `boards` by index. `broken` is the errno of nvmlInit."""

    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_ERROR_DRIVER_NOT_LOADED = DRIVER_NOT_LOADED
    NVML_ERROR_LIBRARY_NOT_FOUND = LIBRARY_NOT_FOUND
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_FI_DEV_POWER_INSTANT = 186

    def __init__(self, *boards: FakeBoard, broken: int = 0) -> None:
        self.boards = list(boards)
        self.broken = broken
        self.inits = 0  # the bindings count them: as many shutdowns let go of the library

    def nvmlInit(self) -> None:
        if self.broken:
            raise NVMLError(self.broken)
        self.inits += 1

    def nvmlShutdown(self) -> None:
        self._check_open()
        self.inits -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._check_open()
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeBoard:
        return self._asked(self.boards[index], "nvmlDeviceGetHandleByIndex")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> tuple[FakeBoard, str]:
        for board in self.boards:
            if uuid in board.instances:
                return board, uuid
        raise NVMLError(NOT_FOUND)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, migDevice: tuple[FakeBoard, str]) -> FakeBoard:
        return migDevice[0]

    def nvmlDeviceGetUUID(self, handle: FakeBoard) -> str:
        return self._asked(handle, "nvmlDeviceGetUUID").uuid

    def nvmlDeviceGetName(self, handle: FakeBoard) -> str:
        return self._asked(handle, "nvmlDeviceGetName").name

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: FakeBoard) -> int:
        return self._asked(handle, "nvmlDeviceGetTotalEnergyConsumption").millijoules

    def nvmlDeviceGetFieldValues(self, handle: FakeBoard, fieldIds: Sequence[int]) -> list[FieldValue]:
        """A field that a board does not know is no error of the call, but one of the field."""
        self._check_open()
        known = handle.errors.get("power", 0)
        return [
            FieldValue(
                number,
                known if number == self.NVML_FI_DEV_POWER_INSTANT else NOT_SUPPORTED,
                Value(0 if known else self._asked(handle, "nvmlDeviceGetFieldValues").milliwatts),
            )
            for number in fieldIds
        ]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeBoard) -> list[Running]:
        return list(self._asked(handle, "nvmlDeviceGetComputeRunningProcesses").processes)

    def nvmlDeviceGetUtilizationRates(self, handle: FakeBoard) -> Utilisation:
        """With MIG, the rates of a board are not supported."""
        board = self._asked(handle, "nvmlDeviceGetUtilizationRates")
        if board.mig:
            raise NVMLError(NOT_SUPPORTED)
        return Utilisation(board.busy, board.busy // 2)

    def nvmlDeviceGetMigMode(self, device: FakeBoard) -> list[int]:
        mode = self._asked(device, "nvmlDeviceGetMigMode").mig
        if mode is None:
            raise NVMLError(NOT_SUPPORTED)
        return [int(mode), int(mode)]

    def _asked(self, board: FakeBoard, function: str) -> FakeBoard:
        self._check_open()
        if number := board.errors.get(function):
            raise NVMLError(number)
        return board

    def _check_open(self) -> None:
        if not self.inits:
            raise NVMLError(UNINITIALIZED)


class FakeTorchCuda:
    """The part `torch.cuda`: `held` is the memory of each device, None where the allocator does not tell."""

    def __init__(self, *, initialised: bool = True, held: Sequence[int | None] = (1024,), present: int = 0) -> None:
        self.initialised = initialised
        self.held = held
        self.present = present
        self.waited: list[int] = []
        self.failure = ""
        self.peaks: dict[int, int] = {}  # of a device, where it has held more than it holds

    def is_initialized(self) -> bool:
        return self.initialised

    def current_device(self) -> int:
        return self.present

    def device_count(self) -> int:
        return len(self.held)

    def memory_reserved(self, device: int) -> int:
        held = self.held[device]
        if held is None:
            raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")
        return held

    def memory_allocated(self, device: int) -> int:
        return self.memory_reserved(device)

    def max_memory_allocated(self, device: int) -> int:
        return max(self.memory_reserved(device), self.peaks.get(device, 0))

    def reset_peak_memory_stats(self, device: int) -> None:
        self.peaks.pop(device, None)

    def memory_stats(self, device: int) -> dict[str, int]:
        """Tell how often memory was taken: once for each byte of it."""
        return {"allocation.all.allocated": self.memory_reserved(device)}

    def synchronize(self, device: int | None = None) -> None:
        if self.failure:
            raise RuntimeError(self.failure)
        self.waited.append(self.present if device is None else device)


@dataclass
class FakeTorch:
    cuda: FakeTorchCuda


class FakeCupy:
    """The module `cupy`, as far as one waits for its present device."""

    def __init__(self) -> None:
        self.waits = 0
        self.cuda = self

    def Device(self) -> "FakeCupy":
        return self

    def synchronize(self) -> None:
        self.waits += 1


def torch_with(cuda: FakeTorchCuda) -> Mapping[str, Any]:
    """What `sys.modules` holds once PyTorch is imported."""
    return {"torch": FakeTorch(cuda)}
