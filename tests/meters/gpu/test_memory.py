"""Memory on GPUs: PyTorch's own peak, else what the driver counts above the context; absent where neither tells."""

import ctypes
from collections.abc import Sequence
from typing import Any

import pytest
from fakes.nvml import DRIVER_NOT_LOADED, NO_PERMISSION, FakeBoard, FakeNvml, FakeTorchCuda, Running, torch_with

from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.gpu import BY_DRIVER, BY_TORCH, GpuMemory
from pytest_hwperf.meters.nvml_library import make_context
from pytest_hwperf.records.errors import MeasurementError

OWN, MB = 4000, 1_000_000
CONTEXT = 300 * MB


class FakeDriver:
    """Makes the context of this process on a board, whose memory the driver then counts."""

    def __init__(self, board: FakeBoard, problem: str = "") -> None:
        self.board = board
        self.problem = problem

    def make_context(self) -> None:
        if self.problem:
            raise MeasurementError(self.problem)
        self.hold(CONTEXT)

    def hold(self, amount: int | None) -> None:
        self.board.processes = [Running(7, 900 * MB), Running(OWN, amount)]


def looking(nvml: FakeNvml, driver: FakeDriver, *, pid: int = OWN) -> GpuMemory:
    access = Access(bindings=nvml, modules={}, environ={}, pid=pid, make_context=driver.make_context)
    return GpuMemory(by_driver=True, access=access)


def found(memory: GpuMemory, driver: FakeDriver, held: Sequence[int | None]) -> tuple[int, str] | None:
    """Begin, and note after each of these amounts beside the context."""
    memory.begin()
    for amount in held:
        driver.hold(None if amount is None else CONTEXT + amount)
        memory.note()
    return memory.peak()


def test_the_driver_counts_the_most_between_calls_above_the_context() -> None:
    board = FakeBoard("GPU-a")
    nvml, driver = FakeNvml(board), FakeDriver(board)
    assert (80 * MB, BY_DRIVER) == found(looking(nvml, driver), driver, [50 * MB, 80 * MB, 60 * MB])
    assert 0 == nvml.inits


@pytest.mark.parametrize(
    ("pid", "held", "reason"),
    [
        (5, 0, "does not name this process, .* --pid=host"),
        (OWN, None, "does not report the memory of single processes"),
    ],
)
def test_what_the_driver_does_not_tell_is_no_zero(pid: int, held: int | None, reason: str) -> None:
    board = FakeBoard("GPU-a")
    driver = FakeDriver(board)
    with pytest.raises(MeasurementError, match=reason):
        found(looking(FakeNvml(board), driver, pid=pid), driver, [held])


@pytest.mark.parametrize(
    ("parts", "broken", "problem", "reason"),
    [
        ({}, DRIVER_NOT_LOADED, "", "driver is not loaded"),
        ({}, 0, "no context could be made", "^no context could be made$"),
        ({"errors": {"nvmlDeviceGetComputeRunningProcesses": NO_PERMISSION}}, 0, "", "does not name this process"),
    ],
)
def test_the_first_problem_is_the_reason(parts: dict[str, Any], broken: int, problem: str, reason: str) -> None:
    board = FakeBoard("GPU-a", **parts)
    nvml, driver = FakeNvml(board, broken=broken), FakeDriver(board, problem)
    with pytest.raises(MeasurementError, match=reason):
        found(looking(nvml, driver), driver, [MB])
    assert 0 == nvml.inits


def of_torch(cuda: FakeTorchCuda | None) -> GpuMemory:
    return GpuMemory(by_driver=False, access=Access(modules=torch_with(cuda) if cuda else {}))


def test_pytorch_keeps_the_peak_itself() -> None:
    """Of both boards; what a fixture has trained there before, and what it still holds, is no part of it."""
    cuda = FakeTorchCuda(held=[20 * MB, 5 * MB])
    cuda.peaks[0] = 700 * MB
    memory = of_torch(cuda)
    memory.begin()
    cuda.peaks[0] = 90 * MB
    memory.note()
    assert (70 * MB, BY_TORCH) == memory.peak()


def test_without_a_gpu_there_is_none() -> None:
    for cuda in (None, FakeTorchCuda(initialised=False)):
        memory = of_torch(cuda)
        memory.begin()
        memory.note()
        assert memory.peak() is None


def test_a_custom_allocator_does_not_tell() -> None:
    memory = of_torch(FakeTorchCuda(held=[None]))
    memory.begin()
    with pytest.raises(MeasurementError, match="allocator does not report its memory: CUDAPluggableAllocator"):
        memory.peak()


class FakeCuda:
    """The driver's library: what it is asked for, and which function fails."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def ask(*_arguments: object) -> int:
            self.asked.append(name)
            return 100 * (name == self.failing)

        return ask


def test_the_context_is_the_one_that_every_runtime_shares() -> None:
    cuda = FakeCuda()
    make_context(cuda)
    assert ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"] == cuda.asked


def test_a_driver_that_makes_no_context_says_which_step_failed() -> None:
    with pytest.raises(MeasurementError, match="no context could be made on the GPU: cuInit answers error 100"):
        make_context(FakeCuda("cuInit"))


def test_without_the_drivers_library_there_is_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(MeasurementError, match=r"on the GPU: libcuda.so.1: cannot open shared object file"):
        make_context()
