"""GPUs: which boards CUDA shows, the memory that this process takes on them, and how busy they are."""

import ctypes
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from fakes.clocks import HandClock
from fakes.nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    FakeBoard,
    FakeNvml,
    FakeTorchCuda,
    Running,
    torch_with,
)

from pytest_hwperf.host.nvidia import synchronise, uses_cuda
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.gpu import BY_DRIVER, BY_TORCH, GpuMemory, UtilisationMeter, utilisation_meter
from pytest_hwperf.meters.nvml_library import Board, make_context, visible_boards
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.records.run import Reading

UUIDS = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
    "GPU-89a00000-0000-0000-0000-000000000001",
    "GPU-11111111-2222-3333-4444-555555555555",
)
INSTANCE = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"


def boards(*models: str) -> tuple[Board, ...]:
    return tuple(
        Board(index=index, uuid=UUIDS[index], model=model, handle=object()) for index, model in enumerate(models)
    )


THREE = boards("A100", "A100", "A100")
MIXED = boards("T4", "A100", "A100")


def holder(instance: str) -> str:
    return UUIDS[2] if instance == INSTANCE else ""


def indices(boards: tuple[Board, ...], environ: Mapping[str, str]) -> list[int]:
    return [board.index for board in visible_boards(boards, environ, holder)]


def test_the_boards_are_those_that_cuda_shows() -> None:
    """Whatever follows an unknown or ambiguous name is hidden."""
    shown = {
        "1": [1],
        "2,0": [0, 2],
        " 0 , 2 ": [0, 2],
        "0,2,-1,1": [0, 2],
        "0,7,1": [0],
        "0,nonsense,1": [0],
        UUIDS[1]: [1],
        "GPU-893,GPU-1": [0, 2],
        "0,GPU-89,1": [0],
        "1,GPU-8932f937": [0, 1],
        INSTANCE: [2],
        f"MIG-{UUIDS[1]}/3/0": [1],
    }
    assert shown == {text: indices(THREE, {"CUDA_VISIBLE_DEVICES": text}) for text in shown}
    assert [0, 1, 2] == indices(THREE, {})


def test_a_text_that_shows_no_board_is_refused_with_what_to_write() -> None:
    """Empty, unknown, the beginning of two names, too long for a number, or digits of another script."""
    unknown = ("7", "NoDevFiles", "GPU-89", "GPU-9", "MIG-gone,0", f"MIG-{UUIDS[1]}0/3/0", "9" * 5000, "\u0661")
    remedy = f"Unset it, or name one of 0 ({UUIDS[0]}), 1 ({UUIDS[1]}), 2"
    for text in ("", "-1", *unknown):
        told = re.escape(f"CUDA_VISIBLE_DEVICES={text!r} shows this process no board. {remedy}")
        with pytest.raises(MeterUnavailable, match=f"^{told}"):
            visible_boards(THREE, {"CUDA_VISIBLE_DEVICES": text}, holder)


def test_a_number_among_unequal_boards_is_refused() -> None:
    """CUDA's 0 is the fastest board, NVML's the first by address: the energy would be another board's."""
    with pytest.raises(MeterUnavailable, match=r"among A100, T4\. Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name boards by"):
        visible_boards(MIXED, {"CUDA_VISIBLE_DEVICES": "0"}, holder)


def test_unequal_boards_are_chosen_by_what_cannot_be_mistaken() -> None:
    """By address, by UUID, or all of them in whatever order."""
    assert [0] == indices(MIXED, {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert [0] == indices(MIXED, {"CUDA_VISIBLE_DEVICES": UUIDS[0]})
    assert [0, 1, 2] == indices(MIXED, {"CUDA_VISIBLE_DEVICES": "2,1,0"}) == indices(MIXED, {})


def test_a_board_that_is_named_twice_is_refused() -> None:
    """CUDA shows no device then."""
    with pytest.raises(MeterUnavailable, match="names a board twice: CUDA shows none then"):
        visible_boards(THREE, {"CUDA_VISIBLE_DEVICES": "1,1"}, holder)


def test_torch_is_waited_for_on_the_devices_that_hold_memory() -> None:
    """Device 1 is unused, and waiting for it would start it up; device 3 does not tell."""
    cuda = FakeTorchCuda(held=(0, 0, 4096, None), present=0)
    synchronise(torch_with(cuda))
    assert [0, 2, 3] == cuda.waited


def test_torch_that_has_not_begun_is_left_alone() -> None:
    cuda = FakeTorchCuda(initialised=False)
    modules = torch_with(cuda)
    synchronise(modules)
    assert ([], False) == (cuda.waited, uses_cuda(modules))
    assert uses_cuda(torch_with(FakeTorchCuda()))


def test_nothing_is_imported() -> None:
    """A module that is not there, or was barred with None, is nobody's work."""
    modules = {"torch": None}
    synchronise(modules)
    assert ({"torch": None}, False) == (modules, uses_cuda(modules))
    assert not uses_cuda({})


def test_work_that_failed_is_reported_in_one_line() -> None:
    cuda = FakeTorchCuda()
    cuda.failure = "CUDA error: an illegal memory access was encountered\nCompile with TORCH_USE_CUDA_DSA"
    with pytest.raises(MeasurementError) as caught:
        synchronise(torch_with(cuda))
    assert "torch could not be waited for: CUDA error: an illegal memory access was encountered" == str(caught.value)


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


def test_what_the_driver_does_not_tell_is_no_zero() -> None:
    """The first problem is the reason."""
    hidden = {"nvmlDeviceGetComputeRunningProcesses": NO_PERMISSION}
    cases: tuple[tuple[FakeBoard, int, str, int, int | None, str], ...] = (
        (FakeBoard("GPU-a"), 0, "", 5, 0, "does not name this process, .* --pid=host"),
        (FakeBoard("GPU-a"), 0, "", OWN, None, "does not report the memory of single processes"),
        (FakeBoard("GPU-a"), DRIVER_NOT_LOADED, "", OWN, MB, "driver is not loaded"),
        (FakeBoard("GPU-a"), 0, "no context could be made", OWN, MB, "^no context could be made$"),
        (FakeBoard("GPU-a", errors=hidden), 0, "", OWN, MB, "does not name this process"),
    )
    for board, broken, problem, pid, held, reason in cases:
        nvml, driver = FakeNvml(board, broken=broken), FakeDriver(board, problem)
        with pytest.raises(MeasurementError, match=reason):
            found(looking(nvml, driver, pid=pid), driver, [held])
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


OWN = 4000
TORCH = torch_with(FakeTorchCuda())


def board(name: str, *pids: int, **parts: Any) -> FakeBoard:
    return FakeBoard(f"GPU-{name}", processes=[Running(pid, 1 << 30) for pid in pids], **parts)


def opened(nvml: FakeNvml, *, on_gpu: bool = False, clock: HandClock | None = None, **parts: Any) -> UtilisationMeter:
    usual: dict[str, Any] = {"bindings": nvml, "pid": OWN, "clock": clock or HandClock(), "modules": {}}
    return utilisation_meter({}, on_gpu=on_gpu, access=Access(**(usual | parts)))


def window(meter: UtilisationMeter, clock: HandClock, seconds: float) -> Reading:
    started = meter.start()
    clock.pass_time(seconds)
    return meter.end(started)


def test_the_boards_that_name_this_process_are_read() -> None:
    """A mean of both; the third is busy with something else."""
    clock = HandClock()
    nvml = FakeNvml(board("a", OWN, busy=90), board("b", OWN, busy=50), board("c", 7, busy=100))
    meter = opened(nvml, clock=clock)
    assert ("gpu_utilisation", "nvml:0+1", ()) == (meter.metric, meter.source, meter.warnings)
    assert 0.7 == pytest.approx(window(meter, clock, 1.25).value)
    meter.close()
    meter.close()
    assert 0 == nvml.inits


def test_a_window_shorter_than_the_drivers_period_holds_what_was_before_it() -> None:
    clock = HandClock()
    reading = window(opened(FakeNvml(board("a", OWN)), clock=clock), clock, 0.5)
    assert (None, "a window of 500 ms; 1.00 s needed") == (reading.value, reading.reason)


def test_what_the_driver_refuses_is_no_zero() -> None:
    clock, lost = HandClock(), {"nvmlDeviceGetUtilizationRates": GPU_IS_LOST}
    for broken, answer in ((board("a", OWN, mig=True), "Not Supported"), (board("a", OWN, errors=lost), "GPU is lost")):
        reading = window(opened(FakeNvml(broken), clock=clock), clock, 2)
        assert reading.value is None
        assert reading.reason.startswith(f"GPU 0 answers {answer} when asked for its utilisation")


def test_the_only_board_is_the_one_that_is_used() -> None:
    """By a scenario on a GPU, or PyTorch: in a container the driver names this process by another number."""
    warning = "GPU 0 was shared with process 12: its utilisation is the whole board's"
    assert (warning,) == opened(FakeNvml(board("a", 12)), on_gpu=True).warnings
    assert (warning,) == opened(FakeNvml(board("a", 12)), modules=TORCH).warnings


def test_a_board_that_hides_its_processes_is_doubted() -> None:
    hidden = board("a", errors={"nvmlDeviceGetComputeRunningProcesses": 4})
    (doubt,) = opened(FakeNvml(hidden), on_gpu=True).warnings
    assert "GPU 0 does not report its processes: its utilisation is the whole board's" == doubt


def test_without_a_board_of_this_process_there_is_none() -> None:
    for nvml, on_gpu, reason in (
        (FakeNvml(board("a"), board("b")), True, "none of 2 boards names this process, .* CUDA_VISIBLE_DEVICES"),
        (FakeNvml(board("a")), False, "^this process uses no GPU$"),
        (FakeNvml(broken=LIBRARY_NOT_FOUND), False, "^this process uses no GPU$"),
        (FakeNvml(broken=LIBRARY_NOT_FOUND), True, "libnvidia-ml was not found"),
        (FakeNvml(), True, "shows no board"),
    ):
        with pytest.raises(MeterUnavailable, match=reason):
            opened(nvml, on_gpu=on_gpu)
        assert 0 == nvml.inits
