"""Windows over NVIDIA boards: sums, refusals, neighbours, and the wait for what is still running."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from fakes.clocks import HandClock
from fakes.nvml import (
    NO_PERMISSION,
    NOT_SUPPORTED,
    FakeBoard,
    FakeNvml,
    FakeTorchCuda,
    Running,
    torch_with,
)

from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.counter_check import CounterCheck
from pytest_hwperf.meters.nvml import BoardMeter, in_use, nvml_meter

OWN = 4000
Opening = Callable[..., BoardMeter]
COUNTER = "nvmlDeviceGetTotalEnergyConsumption"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def nvml() -> FakeNvml:
    return FakeNvml(FakeBoard("GPU-a"), FakeBoard("GPU-b"))


def access_to(nvml: FakeNvml, clock: HandClock, **parts: Any) -> Access:
    """This process beside those boards, whose counters move every 20 ms; pauses pass no time."""
    usual: dict[str, Any] = {
        "modules": {},
        "pid": OWN,
        "pause": lambda _seconds: None,
        "wait": lambda ended, _seconds: ended.wait(),  # a thread that has no turn until it is ended
        "check": lambda _counters: CounterCheck(tick_s=0.02, spins=9),
    }
    return Access(bindings=nvml, clock=clock, suspended=lambda: 0.0, **(usual | parts))


@pytest.fixture
def meter_of(nvml: FakeNvml, clock: HandClock) -> Iterator[Opening]:
    """Open a meter on the boards; it is closed after the test."""
    opened: list[BoardMeter] = []

    def opening(environ: Mapping[str, str] | None = None, **parts: Any) -> BoardMeter:
        opened.append(nvml_meter(environ or {}, access=access_to(nvml, clock, **parts), beside=True))
        return opened[-1]

    yield opening
    for meter in opened:
        meter.close()


def test_a_board_that_cuda_hides_adds_nothing(nvml: FakeNvml, clock: HandClock, meter_of: Opening) -> None:
    meter = meter_of({"CUDA_VISIBLE_DEVICES": "1"})
    started = meter.start()
    nvml.boards[0].draw(400.0)
    nvml.boards[1].draw(100.0)
    clock.pass_time(2.5)
    reading = meter.end(started)
    assert ("gpu_energy", "nvml:1", ("1",)) == (meter.metric, meter.source, meter.domains)
    assert 100.0 == pytest.approx(reading.value)
    assert reading.share is None  # of the machine's CPU time: that is not what boards work with


def test_counts_of_64_bits_keep_every_one(nvml: FakeNvml, clock: HandClock, meter_of: Opening) -> None:
    nvml.boards[0].millijoules = 2**63
    meter = meter_of({"CUDA_VISIBLE_DEVICES": "0"})
    started = meter.start()
    nvml.boards[0].millijoules += 123_457
    clock.pass_time(2.5)
    assert 123.457 == pytest.approx(meter.end(started).value, abs=1e-9)


def test_what_is_still_running_is_waited_for_at_both_ends(clock: HandClock, meter_of: Opening) -> None:
    """Work that a call has only handed over would be counted in the next window, or in none; failed, in neither."""
    cuda = FakeTorchCuda()
    meter = meter_of(modules=torch_with(cuda))
    started = meter.start()
    before = len(cuda.waited)
    clock.pass_time(2.5)
    meter.end(started)
    assert (1, 2) == (before, len(cuda.waited))
    cuda.failure = "CUDA error: out of memory"
    reading = meter.end(started)
    assert (None, "torch could not be waited for: CUDA error: out of memory") == (reading.value, reading.reason)


def test_windows_begin_anywhere_between_two_ticks(meter_of: Opening) -> None:
    """Up to a tick of 20 ms is waited before a window, and nothing in it or behind it."""
    waits, draws = list[float](), iter((0.0, 0.5, 0.75))
    meter = meter_of(pause=waits.append, draw=lambda: next(draws))
    for _ in range(3):
        meter.end(meter.start())
    assert [0.0, 0.01, 0.015] == pytest.approx(waits)


def test_other_processes_are_named_with_their_memory(nvml: FakeNvml, meter_of: Opening) -> None:
    """This process is no neighbour; one that came during a window is named, and stays named when it has gone."""
    nvml.boards[0].processes = [Running(OWN, 500_000_000), Running(77, 1_200_000_000)]
    meter = meter_of()
    started = meter.start()
    nvml.boards[0].processes = []
    nvml.boards[1].processes = [Running(78, None)]
    meter.end(started)
    nvml.boards[1].processes = []
    meter.end(meter.start())
    assert {
        "GPU 0 was shared with process 77 (1.20 GB): its energy is the whole board's",
        "GPU 1 was shared with process 78 (memory not reported): its energy is the whole board's",
    } == set(meter.warnings)


def test_a_process_that_grows_is_named_once_and_nobody_else_is_no_warning(nvml: FakeNvml, meter_of: Opening) -> None:
    nvml.boards[0].processes = [Running(OWN, 500_000_000)]
    meter = meter_of()
    meter.end(meter.start())
    assert () == meter.warnings
    for held in (1_000_000_000, 2_000_000_000):
        nvml.boards[0].processes = [Running(77, held)]
        meter.end(meter.start())
    assert 1 == len(meter.warnings)


def test_a_board_that_tells_no_processes_says_so(nvml: FakeNvml, meter_of: Opening) -> None:
    nvml.boards[1].errors["nvmlDeviceGetComputeRunningProcesses"] = NO_PERMISSION
    assert ("GPU 1 does not report which processes use it: its energy is the whole board's",) == meter_of().warnings


def test_a_split_board_says_that_it_counts_as_a_whole(nvml: FakeNvml, meter_of: Opening) -> None:
    """An instance is asked for; the counter is that of the board around it. A board without MIG is not split."""
    nvml.boards[0].mig = None
    nvml.boards[1].mig = True
    nvml.boards[1].instances = ["MIG-1"]
    meter = meter_of({"CUDA_VISIBLE_DEVICES": "MIG-1"})
    assert "nvml:1" == meter.source
    assert (
        "GPU 1 is split by MIG: its energy is the whole board's, that of other instances included",
    ) == meter.warnings
    assert () == meter_of({"CUDA_VISIBLE_DEVICES": "0"}).warnings


def test_boards_without_a_counter_are_read_by_their_power(nvml: FakeNvml, clock: HandClock, meter_of: Opening) -> None:
    """One of two has none, so that both are read so: 300 W and 60 W over 11 s, looked at every 0.2 s."""
    nvml.boards[0].errors[COUNTER] = NOT_SUPPORTED
    nvml.boards[0].milliwatts = 300_000
    meter = meter_of()
    started = meter.start()
    for _ in range(55):
        clock.pass_time(0.2)
        meter.start()
    assert 3960.0 == pytest.approx(meter.end(started).value, abs=1e-5)
    assert ("nvml-power:0+1", "gpu_energy") == (meter.source, meter.metric)
    assert (0.1, 10.0) == (meter.tick_s, meter.shortest_window_s)
    assert ("GPU 0 answers Not Supported when asked for its energy: its instant power is added up",) == meter.warnings


def test_power_that_was_not_read_for_long_voids_the_window_and_not_the_next(
    nvml: FakeNvml, clock: HandClock, meter_of: Opening
) -> None:
    """Ten seconds in which the thread had no turn are no measurement, however long the window."""
    nvml.boards[0].errors[COUNTER] = NOT_SUPPORTED
    meter = meter_of({"CUDA_VISIBLE_DEVICES": "0"})
    started = meter.start()
    clock.pass_time(11.0)
    assert "the power of the boards was not read for 11.0 s" == meter.end(started).reason
    assert not isinstance(meter.start(), str)


def test_a_board_that_this_process_computes_on_is_in_use(nvml: FakeNvml, clock: HandClock) -> None:
    """A container's own process has another number for the driver: torch that has begun is enough."""
    nvml.boards[1].processes = [Running(77, 1), Running(OWN, 1)]
    assert in_use({}, access=access_to(nvml, clock))
    assert not in_use({"CUDA_VISIBLE_DEVICES": "0"}, access=access_to(nvml, clock))
    assert not in_use({"CUDA_VISIBLE_DEVICES": ""}, access=access_to(nvml, clock))
    assert not in_use({}, access=access_to(FakeNvml(broken=12), clock))
    nvml.boards[1].errors["nvmlDeviceGetComputeRunningProcesses"] = NO_PERMISSION
    assert not in_use({}, access=access_to(nvml, clock, modules=torch_with(FakeTorchCuda(initialised=False))))
    assert in_use({}, access=access_to(nvml, clock, modules=torch_with(FakeTorchCuda())))
    assert 0 == nvml.inits


def test_boards_that_are_asked_for_by_name_are_the_energy_and_say_what_is_missing(
    nvml: FakeNvml, clock: HandClock
) -> None:
    meter = nvml_meter({}, access=access_to(nvml, clock))
    meter.close()
    assert "energy" == meter.metric
    assert "boards only: the processor's energy is not in it" in meter.warnings
