"""Opening NVIDIA boards: what is missing and what to do, and that the fake is like the real thing."""

import inspect
import sys
from collections.abc import Callable

import pytest
from fakes.clocks import HandClock
from fakes.nvml import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    NOT_SUPPORTED,
    FakeBoard,
    FakeNvml,
    FieldValue,
    NVMLError,
    Running,
)

from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.counter_check import CounterCheck, check_counters
from pytest_hwperf.meters.counters import Counters
from pytest_hwperf.meters.nvml import nvml_meter
from pytest_hwperf.meters.nvml_library import Library
from pytest_hwperf.records.errors import MeterUnavailable

COUNTER = "nvmlDeviceGetTotalEnergyConsumption"


def access_to(nvml: FakeNvml, check: Callable[[Counters], CounterCheck] | None = None) -> Access:
    def seen(_counters: Counters) -> CounterCheck:
        return CounterCheck(tick_s=0.02, spins=9)

    return Access(bindings=nvml, modules={}, check=check or seen, pause=lambda _seconds: None)


def refusal(nvml: FakeNvml, environ: dict[str, str] | None = None, **parts: Callable[[Counters], CounterCheck]) -> str:
    with pytest.raises(MeterUnavailable) as caught:
        nvml_meter(environ or {}, access=access_to(nvml, **parts))
    return str(caught.value)


def test_without_the_bindings_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(MeterUnavailable, match=r"pip install 'pytest-hwperf\[gpu\]'"):
        nvml_meter({})


def test_what_is_missing_is_reported() -> None:
    """A lost board shifts no other into its place: nothing is measured."""
    lost = FakeBoard("GPU-b", errors={"nvmlDeviceGetHandleByIndex": GPU_IS_LOST})
    library = "libnvidia-ml was not found: install NVIDIA's driver, or start the container with --gpus"
    for nvml, visible, reported in (
        (FakeNvml(broken=LIBRARY_NOT_FOUND), "0", library),
        (FakeNvml(broken=DRIVER_NOT_LOADED), "0", "NVIDIA's driver is not loaded: sudo modprobe nvidia."),
        (FakeNvml(broken=999), "0", "NVIDIA's library answers Unknown Error."),
        (FakeNvml(), "0", "NVIDIA's driver shows no board."),
        (FakeNvml(FakeBoard("GPU-a")), "-1", "CUDA_VISIBLE_DEVICES='-1' shows this process no"),
        (
            FakeNvml(FakeBoard("GPU-a"), lost),
            "0",
            "A board of this machine cannot be asked: NVIDIA's library",
        ),
    ):
        assert refusal(nvml, {"CUDA_VISIBLE_DEVICES": visible}).startswith(reported)
        assert 0 == nvml.inits


def test_boards_that_tell_neither_energy_nor_power_are_refused() -> None:
    """Whether the field is unknown or the whole call fails."""
    for call, number in (("power", NO_PERMISSION), ("nvmlDeviceGetFieldValues", NOT_SUPPORTED)):
        nvml = FakeNvml(FakeBoard("GPU-a", errors={COUNTER: NOT_SUPPORTED, call: number}))
        assert (
            f"Energy: GPU 0 answers Not Supported. Power: GPU 0 answers {NVMLError(number)}. Boards before Volta count "
            "no energy; measure on another one."
        ) == refusal(nvml)
        assert 0 == nvml.inits


def test_an_old_driver_serves_by_its_power() -> None:
    nvml = FakeNvml(FakeBoard("GPU-a", errors={COUNTER: FUNCTION_NOT_FOUND}))
    meter = nvml_meter({}, access=access_to(nvml))
    meter.close()
    assert ("nvml-power:0", 0) == (meter.source, nvml.inits)


def test_a_counter_that_was_not_seen_to_move_gets_the_slowest_tick() -> None:
    nvml = FakeNvml(FakeBoard("GPU-a"))
    access = access_to(nvml, lambda counters: CounterCheck(tick_s=0.2, spins=9, stuck=counters.registers))
    meter = nvml_meter({}, access=access)
    meter.close()
    assert (0.1, 10.0) == (meter.tick_s, meter.shortest_window_s)


def test_a_counter_that_tells_nonsense_is_refused() -> None:
    nvml = FakeNvml(FakeBoard("GPU-a"))

    def look(counters: Counters) -> CounterCheck:
        return CounterCheck(tick_s=0.02, spins=9, absurd=((counters.registers[0], 40_000.0),))

    assert "GPU 0 (0) reads 40000 W, which no board draws: its counter is not usable." == refusal(nvml, check=look)
    assert 0 == nvml.inits


def test_the_tick_of_a_board_is_seen() -> None:
    """Its counter moves every 25 ms of a clock that goes on by 1 ms with each look; 250 W are 6.25 J each time."""
    board, clock = FakeBoard("GPU-a"), HandClock(0.0)
    nvml = FakeNvml(board)

    def passing() -> float:
        clock.pass_time(0.001)
        board.millijoules = 5_000_000 + int(clock.now_s / 0.025) * 6250
        return clock.now_s

    meter = nvml_meter({}, access=access_to(nvml, lambda counters: check_counters(counters, passing)))
    meter.close()
    assert 0.025 == pytest.approx(meter.tick_s, abs=1e-9)
    assert 2.5 == pytest.approx(meter.shortest_window_s)


def test_the_library_is_let_go_of_once() -> None:
    """The bindings count who holds it: somebody else's hold stays."""
    nvml = FakeNvml(FakeBoard("GPU-a"))
    nvml.nvmlInit()
    meter = nvml_meter({}, access=access_to(nvml))
    held = nvml.inits
    meter.close()
    meter.close()
    assert (2, 1) == (held, nvml.inits)


def test_an_instance_that_is_gone_has_no_board() -> None:
    nvml = FakeNvml(FakeBoard("GPU-a", instances=["MIG-1"]))
    library = Library(nvml)
    holders = (library.board_of_mig("MIG-1"), library.board_of_mig("MIG-2"))
    library.close()
    assert ("GPU-a", "") == holders


def test_the_fake_is_like_the_bindings() -> None:
    """Same names, same arguments, same numbers; tried where the bindings are installed."""
    real = pytest.importorskip("pynvml")
    names = [name for name in dir(FakeNvml) if name.startswith(("nvml", "NVML_"))]
    for name in names:
        fake = getattr(FakeNvml, name)
        if callable(fake):
            # Old bindings hide the arguments of what they wrap.
            assert list(inspect.signature(getattr(real, name)).parameters) in (
                [word for word in inspect.signature(fake).parameters if word != "self"],
                ["args", "kwargs"],
            ), name
        else:
            assert getattr(real, name) == fake, name

    fields = {
        kind: {name for struct in vars(real) if struct.startswith(kind) for name, _ in getattr(real, struct)._fields_}
        for kind in ("c_nvmlFieldValue_t", "c_nvmlProcessInfo")  # of processes there are several layouts
    }
    assert set(FieldValue.__slots__) <= fields["c_nvmlFieldValue_t"]
    assert set(Running.__slots__) <= fields["c_nvmlProcessInfo"]
    for number in (NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST):
        assert (number, str(real.NVMLError(number))) == (NVMLError(number).value, str(NVMLError(number)))
