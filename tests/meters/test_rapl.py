"""Energy by RAPL: where counters are looked for, windows of them, and what is left out aloud."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from fakes.clocks import HandClock
from fakes.counters import finding
from fakes.powercap import (
    AMD,
    AT_REST,
    CLIENT,
    COARSE_PSYS,
    DRAM_RANGE,
    HALF_MIRRORED,
    INTEL_RANGE,
    PLAIN_CLIENT,
    SOCKETS,
    Answers,
    Layout,
    Played,
    bare_metal,
    calm,
    meter_on,
    plant,
    recording,
    refusing,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_hwperf.meters.access import SYSTEM, Files
from pytest_hwperf.meters.counter_check import CounterCheck
from pytest_hwperf.meters.counters import CounterMeter, Counters, Opening, Register
from pytest_hwperf.meters.rapl import choose_zones, find_zones, psys_meter, rapl_meter
from pytest_hwperf.meters.sources import Zone
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable

Opened = Callable[..., CounterMeter]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def meter_of(clock: HandClock) -> Iterator[Opened]:
    """Open a meter on the chosen zones of a tree; it is closed after the test."""
    opened: list[CounterMeter] = []

    def opening(root: Path, files: Files = SYSTEM) -> CounterMeter:
        zones = find_zones(str(root / "sys/devices/virtual/powercap"), files)
        chosen, _ = choose_zones(zones, lambda _zone: "")
        opened.append(meter_on(chosen, files, clock))
        return opened[-1]

    yield opening
    for meter in opened:
        meter.close()


def test_a_window_of_no_length_is_refused(tmp_path: Path, meter_of: Opened) -> None:
    plant(tmp_path, AMD)
    meter = meter_of(tmp_path)
    assert "a window of 0 s has a bound of 100 %; 500 ms needed" == meter.end(meter.start()).reason


def test_a_window_that_could_hide_a_wrap_is_refused(tmp_path: Path, clock: HandClock, meter_of: Opened) -> None:
    """65532.610987 J at 1000 W last 65.53 s; half of that is 32.77 s."""
    tree = plant(tmp_path, AMD)
    meter = meter_of(tmp_path)
    for seconds, joules in ((32.7, 5.0), (32.8, None)):
        started = meter.start()
        tree.advance("intel-rapl:0", 5_000_000)
        clock.pass_time(seconds)
        reading = meter.end(started)
        assert joules == reading.value
    assert reading.reason.startswith("the counters were not read for 32.8 s, longer than 32.8 s")


def test_the_counter_that_wraps_first_limits_the_window(tmp_path: Path, meter_of: Opened) -> None:
    """Packages last 262 s at 1 kW, their memory 65.712 s, in whole joules: half of the shorter one."""
    plant(tmp_path, SOCKETS)
    assert 32.856 == pytest.approx(meter_of(tmp_path).longest_window_s)


def test_a_text_that_is_no_number_voids_the_window(tmp_path: Path, clock: HandClock, meter_of: Opened) -> None:
    plant(tmp_path, AMD)
    answers = Answers()
    meter = meter_of(tmp_path, Files(pread=answers))
    for text in (b"", b"12a\n"):
        started = meter.start()
        answers.text = text
        clock.pass_time(1.0)
        assert f"answers {text!r}, which is no number" in meter.end(started).reason
        answers.text = None


def test_without_a_range_windows_stay_under_a_minute(tmp_path: Path, clock: HandClock, meter_of: Opened) -> None:
    tree = plant(tmp_path, AMD)
    meter = meter_of(tmp_path, refusing(errno.EACCES, "max_energy_range_uj"))
    for seconds, joules in ((59.0, 5.0), (61.0, None)):
        started = meter.start()
        tree.advance("intel-rapl:0", 5_000_000)
        clock.pass_time(seconds)
        assert joules == meter.end(started).value


def test_a_value_above_the_range_is_an_error() -> None:
    """Then the range is not the counter's, and a wrap could not be undone."""
    register = Register(id="intel-rapl:0", name="package-0", joules=1e-6, last=1000, never_idle=True)
    with pytest.raises(MeasurementError, match=r"intel-rapl:0 \(package-0\) reads 1001, above its range of 1000"):
        register.spent(5, 1001)


@settings(max_examples=50)
@given(
    unit_nj=st.sampled_from([61035, 15300, 15258, 1_000_000]),
    start=st.integers(min_value=0, max_value=2**32 - 1),
    steps=st.lists(st.integers(min_value=0, max_value=2**31), min_size=1, max_size=8),
)
def test_wraps_are_undone_within_one_unit(unit_nj: int, start: int, steps: list[int]) -> None:
    """The true counter has 2^32 steps of one unit; each window holds one wrap at most and is off by a unit at most."""
    last = (2**32 - 1) * unit_nj // 1000
    register = Register(id="intel-rapl:0", name="package-0", joules=1e-6, last=last, never_idle=True)
    counts = start
    for step in steps:
        before, after = ((value % 2**32) * unit_nj // 1000 for value in (counts, counts + step))
        counts += step
        assert abs(register.spent(before, after) - step * unit_nj / 1000) <= unit_nj / 1000 + 1


def test_a_power_that_nothing_draws_is_refused(tmp_path: Path, clock: HandClock, meter_of: Opened) -> None:
    """A counter that was reset, which would be 64.5 kJ as a wrap."""
    tree = plant(tmp_path, {"intel-rapl:0": ("package-0", 1_000_000_000, AMD["intel-rapl:0"][2])})
    meter = meter_of(tmp_path)
    started = meter.start()
    (tree.zone("intel-rapl:0") / "energy_uj").write_text("0\n")
    clock.pass_time(1.0)
    expected = "intel-rapl:0 (package-0) reads 64533 W, above 2000 W: wrong unit, or it was reset"
    reading = meter.end(started)
    assert (None, expected) == (reading.value, reading.reason)


@settings(max_examples=30)
@given(data=st.data())
def test_many_counters_add_up_to_the_truth(data: st.DataObject) -> None:
    """Any ranges, starts and steps below a wrap, in any order of zones: every window's sum is exact."""
    ranges = data.draw(st.lists(st.integers(min_value=10**9, max_value=INTEL_RANGE), min_size=1, max_size=8))
    zones = [Zone(path=f"/x/intel-rapl:{n:x}", name=f"package-{n}", max_uj=uj) for n, uj in enumerate(ranges)]
    played = Played(zones, [data.draw(st.integers(min_value=0, max_value=uj)) for uj in ranges])
    clock = HandClock()
    meter = meter_on(data.draw(st.permutations(zones)), Files(open=played.open, pread=played.pread), clock)
    with closing(meter):
        for _ in range(data.draw(st.integers(min_value=1, max_value=5))):
            started, truth_uj = meter.start(), 0
            for zone in zones:
                step_uj = data.draw(st.integers(min_value=1, max_value=999_000_000))
                played.grow(zone.path, step_uj)
                truth_uj += step_uj
            clock.pass_time(0.5)
            assert truth_uj / 1_000_000 == pytest.approx(meter.end(started).value, abs=1e-7)


def test_counts_are_read_at_the_midpoint(tmp_path: Path, meter_of: Opened, clock: HandClock) -> None:
    """A reading takes time: it is dated between the clock before and after."""
    plant(tmp_path, AMD)

    def slow(descriptor: int, count: int, offset: int) -> bytes:
        clock.pass_time(0.004)
        return os.pread(descriptor, count, offset)

    meter = meter_of(tmp_path, Files(pread=slow))
    begun_s = clock.now_s
    counts = meter.start()
    assert isinstance(counts, Opening)
    assert begun_s + 0.002 == pytest.approx(counts.instant.at_s)


def test_rapl_meter_reads_the_usual_places(tmp_path: Path) -> None:
    """The devices first; the class folder where only that is there."""
    plant(tmp_path, CLIENT)
    meter = rapl_meter({}, access=bare_metal(tmp_path))
    with suppress(OSError):
        meter.close()
    assert ("rapl:package-0", (), 0.5) == (meter.source, meter.warnings, meter.shortest_window_s)


def test_the_class_folder_serves_where_it_alone_leads_to_zones(tmp_path: Path) -> None:
    tree = plant(tmp_path, AMD)
    elsewhere = tmp_path / "sys/devices/pci/powercap"
    elsewhere.parent.mkdir()
    tree.nested.rename(elsewhere)
    for link in tree.flat.iterdir():
        target = str(link.readlink()).replace("virtual", "pci")
        link.unlink()
        link.symlink_to(target)
    meter = rapl_meter({}, access=bare_metal(tmp_path))
    meter.close()
    assert "rapl:package-0" == meter.source


def test_the_environment_variable_replaces_the_usual_places(tmp_path: Path) -> None:
    """A container mounts the host's tree somewhere else."""
    plant(tmp_path, CLIENT)
    other = plant(tmp_path / "host", SOCKETS)
    meter = rapl_meter({"HWPERF_POWERCAP_ROOT": str(other.nested)}, access=bare_metal(tmp_path))
    meter.close()
    assert 8 == len(meter.domains)


def test_a_zone_without_a_value_is_left_out_aloud(tmp_path: Path) -> None:
    plant(tmp_path, SOCKETS)
    for number in (errno.EINVAL, errno.EIO, errno.ENODATA, errno.ENOENT, errno.ENODEV):
        files = refusing(number, "intel-rapl:3:0/energy_uj")
        meter = rapl_meter({}, access=bare_metal(tmp_path, files=files))
        meter.close()
        assert "rapl:package-0+package-1+dram+package-2+dram+package-3+dram" == meter.source
        assert [f"intel-rapl:3:0 (dram) answers {errno.errorcode[number]}"] == [
            warning.partition(": the firmware gives no value")[0] for warning in meter.warnings
        ]


def test_the_twin_serves_where_root_alone_reads_the_first(tmp_path: Path) -> None:
    plant(tmp_path, CLIENT)
    meter = rapl_meter({}, access=bare_metal(tmp_path, files=refusing(errno.EACCES, "/intel-rapl:0/energy_uj")))
    meter.close()
    assert ("rapl:package-0", ()) == (meter.source, meter.warnings)


def test_constraints_and_power_files_are_never_opened(tmp_path: Path) -> None:
    """Reading them answers errors on some machines, and nothing here needs them."""
    tree, paths = plant(tmp_path, CLIENT), list[str]()
    meter = rapl_meter({}, access=bare_metal(tmp_path, files=Files(open=recording(paths))))
    meter.close()
    assert {"name", "max_energy_range_uj", "energy_uj"} == {Path(path).name for path in paths}
    assert str(tree.zone("intel-rapl:1") / "energy_uj") not in paths


def test_an_opened_meter_reads_the_sum_at_rest(tmp_path: Path) -> None:
    read = list[int]()

    def look(counters: Counters) -> CounterCheck:
        read.append(sum(counters.read()))
        return calm(counters)

    for name, layout, _ in AT_REST:
        plant(tmp_path / name, layout)
        rapl_meter({}, access=bare_metal(tmp_path / name, check=look)).close()
    assert [(name, total_uj) for name, _, total_uj in AT_REST] == [
        (name, found) for (name, _, _), found in zip(AT_REST, read, strict=True)
    ]


def test_memory_beside_the_packages_is_added(tmp_path: Path) -> None:
    """Once, however many ways show it; where it cannot be read, that is said; without a package it is no substitute."""
    beside = ("dram", 4_000_000, DRAM_RANGE)
    layout: Layout = {**PLAIN_CLIENT, "intel-rapl:1": beside, "intel-rapl-mmio:1": beside}
    plant(tmp_path, layout)
    meter = rapl_meter({}, access=bare_metal(tmp_path))
    meter.close()
    assert ("rapl:package-0+dram", ()) == (meter.source, meter.warnings)
    meter = rapl_meter({}, access=bare_metal(tmp_path, files=refusing(errno.EIO, "/intel-rapl:1/energy_uj")))
    meter.close()
    assert "rapl:package-0" == meter.source
    assert meter.warnings[0].startswith("intel-rapl:1 (dram) answers EIO")
    plant(tmp_path / "alone", {"intel-rapl:1": beside})
    with pytest.raises(MeterUnavailable, match="holds no package zone"):
        rapl_meter({}, access=bare_metal(tmp_path / "alone"))


def test_the_memory_of_a_package_that_is_left_out_goes_with_it(tmp_path: Path) -> None:
    """It would look like the next package's."""
    plant(tmp_path, SOCKETS)
    meter = rapl_meter({}, access=bare_metal(tmp_path, check=finding(stuck=("intel-rapl:3",))))
    meter.close()
    assert "rapl:package-1+dram+package-2+dram+package-3+dram" == meter.source


def test_memory_beside_a_package_that_only_its_twin_tells_is_added(tmp_path: Path) -> None:
    layout = {**HALF_MIRRORED}
    del layout["intel-rapl-mmio:0:0"]
    plant(tmp_path, layout)
    host = bare_metal(tmp_path, files=refusing(errno.EIO, "/intel-rapl:0/energy_uj"))
    meter = rapl_meter({}, access=host)
    meter.close()
    assert "rapl:package-0+dram+package-1+dram" == meter.source


def test_the_platform_counter_is_read_on_demand(tmp_path: Path) -> None:
    """Once, however many ways show it; where it stands still, that is no 0 J."""
    plant(tmp_path, {**CLIENT, "intel-rapl-tpmi:0": ("psys", 101230055321, CLIENT["intel-rapl:1"][2])})
    counters = list[Counters]()

    def look(some: Counters) -> CounterCheck:
        counters.append(some)
        return calm(some)

    meter = psys_meter({}, access=bare_metal(tmp_path, check=look))
    meter.close()
    assert ("rapl:psys", [True]) == (meter.source, [register.never_idle for register in counters[0].registers])


def test_a_platform_counter_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    twice = {**CLIENT, "intel-rapl:2": CLIENT["intel-rapl:1"]}
    machines: tuple[tuple[Layout, Files, str], ...] = (
        (COARSE_PSYS, Files(), r"intel-rapl:1 \(psys\) counts in steps of 1 J here: too coarse"),
        (AMD, Files(), "has no psys zone; ask for rapl"),
        (CLIENT, refusing(errno.EACCES, "/intel-rapl:1/energy_uj"), "CVE-2020-8694"),
        (twice, Files(), "intel-rapl:1 and intel-rapl:2 are all called"),
    )
    for number, (layout, files, why) in enumerate(machines):
        root = plant(tmp_path / str(number), layout).root
        with pytest.raises(MeterUnavailable, match=why):
            psys_meter({}, access=bare_metal(root, files=files))
