"""What every source that counts energy does alike: RAPL, perf and NVML, each opened as a run opens it."""

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
from fakes.clocks import HandClock
from fakes.counters import finding
from fakes.nvml import GPU_IS_LOST, FakeBoard, FakeNvml
from fakes.power_pmu import Pmu, plant_pmu
from fakes.powercap import DRAM_RANGE, INTEL_RANGE, Answers, bare_metal, plant

from pytest_hwperf.meters.access import Files
from pytest_hwperf.meters.counter_check import CounterCheck
from pytest_hwperf.meters.counters import CounterMeter, Counters
from pytest_hwperf.meters.nvml import nvml_meter
from pytest_hwperf.meters.perf import perf_meter
from pytest_hwperf.meters.rapl import rapl_meter
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.records.units import show


class Place(Protocol):
    """A machine with two packages and their memory, or with two boards."""

    open: Callable[..., CounterMeter]  # the source
    ids: tuple[str, ...]  # of its registers: a package or board, its memory, and those of the second one
    names: tuple[str, ...]  # the same, with their domains
    lost: str  # why a reading fails
    label: str
    shortest_s: float  # of a window, at a tick of 1 ms

    def parts(self) -> dict[str, Any]:
        """Return how the source is looked at."""

    def draw(self, first: float, second: float = 0.0, memory: float = 0.0) -> float:
        """Let both count so many joules on, and the memory of each; return the joules of all."""

    def fail(self, *, failing: bool) -> None:
        """Let readings fail, or not any more."""

    def held(self) -> int:
        """Return how much is held open."""


class RaplPlace:
    open = staticmethod(rapl_meter)
    ids = ("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1", "intel-rapl:1:0")
    names = ("intel-rapl:0 (package-0)", "intel-rapl:0:0 (dram)", "intel-rapl:1 (package-1)", "intel-rapl:1:0 (dram)")
    lost = "intel-rapl:0 (package-0) answers EIO"
    label, shortest_s = "rapl:package-0+dram+package-1+dram", 0.5

    def __init__(self, root: Path) -> None:
        package, dram = ("package-0", 1000, INTEL_RANGE), ("dram", 5, DRAM_RANGE)
        self.tree = plant(root, dict(zip(self.ids, (package, dram, ("package-1", *package[1:]), dram), strict=True)))
        self.answers = Answers()

    def parts(self) -> dict[str, Any]:
        return {"files": Files(pread=self.answers)}

    def draw(self, first: float, second: float = 0.0, memory: float = 0.0) -> float:
        for zone, joules in zip(self.ids, (first, memory, second, memory), strict=True):
            self.tree.advance(zone, round(joules * 1e6))
        return first + second + 2 * memory

    def fail(self, *, failing: bool) -> None:
        self.answers.errno = errno.EIO if failing else None

    def held(self) -> int:
        found = 0
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # that of the list itself
                found += descriptor.readlink().is_relative_to(self.tree.root.resolve())
        return found


class PerfPlace:
    open = staticmethod(perf_meter)
    ids = ("energy-pkg of CPU 0", "energy-ram of CPU 0", "energy-pkg of CPU 18", "energy-ram of CPU 18")
    names = tuple(f"{register} ({register[7:10]})" for register in ids)
    lost = "energy-pkg of CPU 0 (pkg) answers EIO"
    label, shortest_s = "perf:pkg+ram+pkg+ram", 0.5

    def __init__(self, root: Path) -> None:
        plant_pmu(root, cpumask="0,18")
        self.pmu = Pmu()

    def parts(self) -> dict[str, Any]:
        return dict(self.pmu.calls)

    def draw(self, first: float, second: float = 0.0, memory: float = 0.0) -> float:
        for cpu, joules in ((0, first), (18, second)):
            self.pmu.draw("energy-pkg", joules, cpu=cpu)
            self.pmu.draw("energy-ram", memory, cpu=cpu)
        return first + second + 2 * memory

    def fail(self, *, failing: bool) -> None:
        self.pmu.errno = errno.EIO if failing else None

    def held(self) -> int:
        return len(self.pmu.held)


class NvmlPlace:
    open = staticmethod(nvml_meter)
    ids = ("GPU 0", "", "GPU 1", "")
    names = ("GPU 0 (0)", "", "GPU 1 (1)", "")
    lost = "GPU 0 answers GPU is lost"
    label, shortest_s = "nvml:0+1", 2.0

    def __init__(self, _root: Path) -> None:
        self.nvml = FakeNvml(FakeBoard("GPU-a"), FakeBoard("GPU-b"))

    def parts(self) -> dict[str, Any]:
        return {"bindings": self.nvml, "modules": {}, "pause": lambda _seconds: None}

    def draw(self, first: float, second: float = 0.0, memory: float = 0.0) -> float:
        """A board counts its memory with it."""
        self.nvml.boards[0].draw(first + memory)
        self.nvml.boards[1].draw(second + memory)
        return first + second + 2 * memory

    def fail(self, *, failing: bool) -> None:
        self.nvml.boards[0].errors = {"nvmlDeviceGetTotalEnergyConsumption": GPU_IS_LOST} if failing else {}

    def held(self) -> int:
        return self.nvml.inits


class Opened:
    """A place, its clock, and meters on it, which are closed after the test."""

    def __init__(self, place: Place, root: Path) -> None:
        self.place = place
        self.clock = HandClock()
        self.meters: list[CounterMeter] = []
        self._root = root

    def meter(self, *, refused: tuple[str, ...] = (), flags: str = "fpu", **parts: Any) -> CounterMeter:
        usual = {**self.place.parts(), "clock": self.clock, "suspended": lambda: 0.0}
        access = bare_metal(self._root, flags=flags, **(usual | parts))
        self.meters.append(self.place.open({}, refused=refused, access=access))
        return self.meters[-1]

    def refusal(self, **parts: Any) -> str:
        with pytest.raises(MeterUnavailable) as caught:
            self.meter(**parts)
        return str(caught.value)


@pytest.fixture(params=[RaplPlace, PerfPlace, NvmlPlace], ids=["rapl", "perf", "nvml"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(request.param(tmp_path), tmp_path)
    yield opened
    for meter in opened.meters:
        meter.close()


processors = pytest.mark.parametrize("source", [RaplPlace, PerfPlace], ids=["rapl", "perf"], indirect=True)


def test_a_window_is_the_sum_of_all_registers(source: Opened) -> None:
    """Two packages of 30 and 20 J with memories of 3 J make 56 J."""
    meter = source.meter()
    started = meter.start()
    joules = source.place.draw(30.0, 20.0, 3.0)
    source.clock.pass_time(2.5)
    assert (56.0, 56.0) == pytest.approx((joules, meter.end(started).value), abs=1e-6)
    assert (source.place.label, source.place.shortest_s) == (meter.source, meter.shortest_window_s)


def test_what_always_draws_power_may_not_stand_still(source: Opened) -> None:
    """An idle package or board draws power too: 0 J is no measurement. Memory may stand still."""
    meter = source.meter()
    started = meter.start()
    source.place.draw(5.0)
    source.clock.pass_time(2.5)
    stuck = meter.end(started)
    source.place.draw(0.0, 2.0)
    expected = f"{source.place.names[2]} did not move in 2.50 s: it counts nothing here"
    assert (None, expected) == (stuck.value, stuck.reason)
    assert 7.0 == pytest.approx(meter.end(started).value, abs=1e-6)


def test_windows_may_nest(source: Opened) -> None:
    meter = source.meter()
    outer = meter.start()
    source.place.draw(1.0, 1.0)
    source.clock.pass_time(2.5)
    inner = meter.start()
    source.place.draw(2.0, 1.0)
    source.clock.pass_time(2.5)
    assert (3.0, 5.0) == pytest.approx((meter.end(inner).value, meter.end(outer).value), abs=1e-6)


def test_a_short_window_is_refused_with_its_bound(source: Opened) -> None:
    """One tick of 1 ms in 12 ms is 8.3 %."""
    meter = source.meter()
    started = meter.start()
    source.place.draw(1.0, 1.0)
    source.clock.pass_time(0.012)
    reading = meter.end(started)
    needed = show(meter.shortest_window_s, "s")
    assert (None, f"a window of 12.0 ms has a bound of 8.3 %; {needed} needed") == (reading.value, reading.reason)


@pytest.mark.parametrize("at", ["start", "end"])
def test_an_error_voids_the_window(source: Opened, at: str) -> None:
    """At whichever end: no number, and what failed is named with its answer. The next window is whole again."""
    meter = source.meter()
    source.place.fail(failing=at == "start")
    started = meter.start()
    source.place.fail(failing=at == "end")
    source.place.draw(5.0, 5.0)
    source.clock.pass_time(2.5)
    reading = meter.end(started)
    source.place.fail(failing=False)
    started = meter.start()
    source.place.draw(5.0, 4.0)
    source.clock.pass_time(2.5)
    assert (None, source.place.lost) == (reading.value, reading.reason)
    assert 9.0 == pytest.approx(meter.end(started).value, abs=1e-6)


def test_closing_twice_does_nothing(source: Opened) -> None:
    meter = source.meter()
    held = source.place.held()
    meter.close()
    meter.close()
    assert held > 0
    assert 0 == source.place.held()


def test_why_better_sources_were_refused_is_kept(source: Opened) -> None:
    """In one line each."""
    meter = source.meter(refused=("better: only root\n  sudo so",))
    assert "better source refused: better: only root" == meter.warnings[0]


def test_windows_hold_a_hundred_ticks(source: Opened) -> None:
    meter = source.meter(check=finding(tick_s=0.03))
    assert (0.03, 3.0) == pytest.approx((meter.tick_s, meter.shortest_window_s))


def test_nothing_is_held_by_a_source_that_is_refused(source: Opened) -> None:
    """Every register reads 3763 W, which nothing draws."""
    assert "reads 3763 W" in source.refusal(check=finding(absurd=source.place.ids))
    assert 0 == source.place.held()


@pytest.mark.parametrize("opener", [rapl_meter, perf_meter, nvml_meter])
def test_this_machine_is_looked_at_by_default(opener: Callable[..., CounterMeter]) -> None:
    """Either it has counters, or it says why not."""
    try:
        meter = opener({})
    except MeterUnavailable as reason:
        reported = str(reason)
    else:
        reported = meter.source
        meter.close()
    assert reported


@processors
def test_a_register_that_reports_nonsense_is_left_out_aloud(source: Opened) -> None:
    _, stuck, _, absurd = source.place.ids
    meter = source.meter(check=finding(stuck=(stuck,), absurd=(absurd,)))
    assert 2 == len(meter.domains) == source.place.held()
    assert (
        f"{source.place.names[1]} did not move in 200 ms: it is left out.",
        f"{source.place.names[3]} reads 3763 W, above 2000 W: wrong unit; it is left out.",
    ) == meter.warnings


@processors
def test_memory_alone_is_no_substitute(source: Opened) -> None:
    text = source.refusal(check=finding(stuck=(source.place.ids[0], source.place.ids[2])))
    assert text.startswith(f"{source.place.names[0]} did not move in 200 ms: it is left out.")
    assert text.endswith("it is left out. Nothing is left to read.")
    assert 0 == source.place.held()


@processors
def test_counters_that_fail_while_they_are_watched_are_no_source(source: Opened) -> None:
    """They could be opened."""

    def failing(_counters: Counters) -> CounterCheck:
        raise MeasurementError("it answers EIO")

    assert "The counters could be opened and not be read: it answers EIO." == source.refusal(check=failing)
    assert 0 == source.place.held()


@processors
def test_a_counter_that_hardly_moves_is_refused(source: Opened) -> None:
    """Every 0.3 s: windows of 30 s, five of them, for each test."""
    text = source.refusal(check=finding(tick_s=0.3))
    assert "The counters move every 300 ms only: a window exact within 1 % would take 30.0 s, more than 10.0 s." == text
    assert 0 == source.place.held()


@processors
def test_noise_against_side_channels_asks_for_longer_windows(source: Opened) -> None:
    meter = source.meter(flags="fpu sgx")
    assert 1.0 == meter.shortest_window_s
    assert meter.warnings[0].startswith("this processor has SGX")
