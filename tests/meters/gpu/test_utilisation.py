"""Utilisation of boards, read from the driver at the ends of windows: whose it is, and when there is none."""

from typing import Any

import pytest
from fakes.clocks import HandClock
from fakes.nvml import GPU_IS_LOST, LIBRARY_NOT_FOUND, FakeBoard, FakeNvml, FakeTorchCuda, Running, torch_with

from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.gpu import UtilisationMeter, utilisation_meter
from pytest_hwperf.records.errors import MeterUnavailable
from pytest_hwperf.records.run import Reading

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


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"mig": True}, "GPU 0 answers Not Supported when asked for its utilisation"),
        ({"errors": {"nvmlDeviceGetUtilizationRates": GPU_IS_LOST}}, "GPU 0 answers GPU is lost when asked for"),
    ],
)
def test_what_the_driver_refuses_is_no_zero(parts: dict[str, Any], reason: str) -> None:
    clock = HandClock()
    reading = window(opened(FakeNvml(board("a", OWN, **parts)), clock=clock), clock, 2)
    assert reading.value is None
    assert reading.reason.startswith(reason)


@pytest.mark.parametrize("known", [{"on_gpu": True}, {"modules": TORCH}], ids=["a scenario on a GPU", "PyTorch"])
def test_the_only_board_is_the_one_that_is_used(known: dict[str, Any]) -> None:
    """In a container the driver names this process by another number."""
    meter = opened(FakeNvml(board("a", 12)), **known)
    assert ("GPU 0 was shared with process 12: its utilisation is the whole board's",) == meter.warnings


def test_a_board_that_hides_its_processes_is_doubted() -> None:
    hidden = board("a", errors={"nvmlDeviceGetComputeRunningProcesses": 4})
    (doubt,) = opened(FakeNvml(hidden), on_gpu=True).warnings
    assert "GPU 0 does not report its processes: its utilisation is the whole board's" == doubt


@pytest.mark.parametrize(
    ("nvml", "on_gpu", "reason"),
    [
        (FakeNvml(board("a"), board("b")), True, "none of 2 boards names this process, .* CUDA_VISIBLE_DEVICES"),
        (FakeNvml(board("a")), False, "^this process uses no GPU$"),
        (FakeNvml(broken=LIBRARY_NOT_FOUND), False, "^this process uses no GPU$"),
        (FakeNvml(broken=LIBRARY_NOT_FOUND), True, "libnvidia-ml was not found"),
        (FakeNvml(), True, "shows no board"),
    ],
)
def test_without_a_board_of_this_process_there_is_none(nvml: FakeNvml, *, on_gpu: bool, reason: str) -> None:
    with pytest.raises(MeterUnavailable, match=reason):
        opened(nvml, on_gpu=on_gpu)
    assert 0 == nvml.inits
