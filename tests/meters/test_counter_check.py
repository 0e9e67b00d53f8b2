"""Counters that show one register are told from counters of their own, and counted once."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes.counters import Load, PassingClock, SteadyCounters
from fakes.powercap import DRAM_RANGE, INTEL_RANGE, Layout, bare_metal, plant

from pytest_hwperf.meters.access import Files
from pytest_hwperf.meters.counter_check import CounterCheck, check_counters
from pytest_hwperf.meters.counters import Register
from pytest_hwperf.meters.rapl import find_zones, rapl_meter, repeating


def looked_at(*loads: Load) -> CounterCheck:
    clock = PassingClock(20e-6)
    return check_counters(SteadyCounters(lambda: clock.now_s, loads), clock)


class Played:
    """Counters that show these readings, one after the other; each takes a tenth of a millisecond."""

    def __init__(self, readings: Sequence[Sequence[int]]) -> None:
        names = [f"package-{number}" for number in range(len(readings[0]))]
        self.registers = tuple(Register(id=name, name=name, joules=1e-6, last=None, never_idle=True) for name in names)
        self._readings = readings
        self._read = 0

    def read(self) -> tuple[int, ...]:
        reading = self._readings[min(self._read, len(self._readings) - 1)]
        self._read += 1
        return tuple(reading)

    def close(self) -> None: ...

    def clock(self) -> float:
        return self._read * 1e-4


def mirrors_of(readings: Sequence[Sequence[int]]) -> list[tuple[str, str]]:
    counters = Played(readings)
    seen = check_counters(counters, counters.clock)
    return [(copy.name, first.name) for copy, first in seen.mirrors]


def test_counters_that_go_through_the_same_counts_are_one() -> None:
    """Codecarbon #1274: two dies whose zones read the register of their package."""
    seen = looked_at(
        Load(watts=68.0, start=5_000_000, name="package-0-die-0"),
        Load(watts=68.0, start=5_000_000, name="package-0-die-1"),
        Load(watts=51.0, start=5_000_000, name="package-1"),
    )
    said = "fake:1 (package-0-die-1) shows the counts of fake:0 (package-0-die-0): both read one register, "
    assert {"fake:1": f"{said}which is counted once."} == seen.copies()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Load(watts=68.0, start=5_000_001), id="the same load, another start"),
        pytest.param(Load(watts=67.9, start=5_000_000), id="a load that differs by 0.15 %"),
        pytest.param(Load(watts=68.0, start=5_000_000, tick_s=0.003), id="another step"),
    ],
)
def test_packages_with_nearly_the_same_load_are_two(other: Load) -> None:
    assert {} == looked_at(Load(watts=68.0, start=5_000_000), other).copies()


def test_counters_that_stand_still_are_not_one() -> None:
    """Idle memory of two packages, both at 0."""
    idle = Load(watts=0.0, never_idle=False, name="dram")
    assert {} == looked_at(Load(watts=68.0), idle, idle).copies()


def test_a_register_that_moves_on_within_a_reading_is_still_one() -> None:
    """The second zone is read a little later, or the file is written a little later: every step shows that."""
    ahead = [reading for n in range(0, 2500, 25) for reading in ((n, n), (n, n + 25))]
    behind = [reading for n in range(25, 2500, 25) for reading in ((n, n - 25), (n, n))]
    one = [("package-1", "package-0")]
    assert one == mirrors_of(ahead)
    assert one == mirrors_of(behind)
    assert [] == mirrors_of([(n, n + 50) for n in range(0, 2500, 25)])


def test_each_register_of_several_is_counted_once() -> None:
    """Zones 0 and 2 are one register, zones 1 and 3 another one."""
    readings = [(n, 7 + 3 * n, n, 7 + 3 * n) for n in range(2500)]
    assert [("package-2", "package-0"), ("package-3", "package-1")] == mirrors_of(readings)
    assert [("package-1", "package-0"), ("package-2", "package-0")] == mirrors_of([(n, n, n) for n in range(2500)])


def playing(watts: dict[str, float]) -> Files:
    """Files of zones that each draw a power as time passes with every reading, by the id of the zone."""
    clock = PassingClock(10e-6)
    real = Files()
    zones = dict[int, str]()

    def opener(path: str, flags: int) -> int:
        descriptor = real.open(path, flags)
        zones.pop(descriptor, None)
        if path.endswith("/energy_uj"):
            zones[descriptor] = Path(path).parent.name
        return descriptor

    def reader(descriptor: int, count: int, offset: int) -> bytes:
        if descriptor not in zones:
            return real.pread(descriptor, count, offset)
        steps = int(clock() / 0.001)
        return b"%d\n" % (1_000_000 + round(steps * 1000 * watts[zones[descriptor]]))

    return Files(open=opener, pread=reader)


DIES: Layout = {
    "intel-rapl:0": ("package-0-die-0", 5, INTEL_RANGE),
    "intel-rapl:0:0": ("dram", 5, DRAM_RANGE),
    "intel-rapl:1": ("package-0-die-1", 5, INTEL_RANGE),
    "intel-rapl:1:0": ("dram", 5, DRAM_RANGE),
}


def test_a_repeated_package_is_left_out_aloud_and_its_own_memory_is_not(tmp_path: Path) -> None:
    plant(tmp_path, DIES)
    watts = {"intel-rapl:0": 30.0, "intel-rapl:0:0": 4.0, "intel-rapl:1": 30.0, "intel-rapl:1:0": 7.0}
    host = bare_metal(tmp_path, files=playing(watts), check=check_counters)
    meter = rapl_meter({}, access=host)
    meter.close()
    assert "rapl:package-0-die-0+dram+dram" == meter.source
    (warning,) = meter.warnings
    assert warning.startswith("intel-rapl:1 (package-0-die-1) shows the counts of intel-rapl:0 (package-0-die-0): ")


def test_zones_that_repeat_another_are_named(tmp_path: Path) -> None:
    """As `hwperf doctor` does; of one zone, or of zones that cannot be opened, there is none."""
    plant(tmp_path, DIES)
    watts = dict.fromkeys(DIES, 30.0) | {"intel-rapl:1": 20.0}
    host = bare_metal(tmp_path, files=playing(watts), check=check_counters)
    zones = find_zones(str(tmp_path / "sys/devices/virtual/powercap"))
    assert ["intel-rapl:0:0", "intel-rapl:1:0"] == [zone.id for zone in repeating(zones, host)]
    assert [] == repeating(zones[:1], host)
    for zone in zones:
        Path(zone.path, "energy_uj").unlink()
    assert [] == repeating(zones, host)
