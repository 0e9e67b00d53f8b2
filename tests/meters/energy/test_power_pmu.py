"""What sysfs says of the power PMU, and the system call, tried on the clock that every kernel counts in software."""

import os
import platform
import struct
from pathlib import Path

import pytest
from fakes.power_pmu import KIND, SCALE, plant_pmu

from pytest_hwperf.meters.access import attributes, open_event
from pytest_hwperf.meters.perf import find_events, parse_cpus
from pytest_hwperf.records.errors import MeterUnavailable

_SOFTWARE, _CPU_CLOCK = 1, 0  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK: nanoseconds
_NO_PMU = 2**31 - 1

on_x86_64_linux = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="the call's number is that of x86-64 Linux"
)


def test_a_package_and_its_memory_are_found(tmp_path: Path) -> None:
    """Cores and graphics lie inside a package and psys holds packages: they are not added."""
    plant_pmu(tmp_path, events=("energy-cores", "energy-pkg", "energy-ram", "energy-gpu", "energy-psys"))
    events = find_events(str(tmp_path))
    assert [("pkg", KIND, 2, 0), ("ram", KIND, 3, 0)] == [(e.register.name, e.kind, e.config, e.cpu) for e in events]
    assert [("energy-pkg of CPU 0", SCALE, None, True), ("energy-ram of CPU 0", SCALE, None, False)] == [
        (e.register.id, e.register.joules, e.register.last, e.register.never_idle) for e in events
    ]


@pytest.mark.parametrize(
    ("cpumask", "cpus"),
    [("0", (0,)), ("0,18", (0, 18)), ("0-1", (0, 1)), ("0-1,64-65", (0, 1, 64, 65))],
)
def test_each_cpu_of_the_mask_stands_for_a_package(tmp_path: Path, cpumask: str, cpus: tuple[int, ...]) -> None:
    plant_pmu(tmp_path, cpumask=cpumask)
    assert [(cpu, name) for cpu in cpus for name in ("pkg", "ram")] == [
        (event.cpu, event.register.name) for event in find_events(str(tmp_path))
    ]


def test_a_long_mask_is_read_to_its_end(tmp_path: Path) -> None:
    """One CPU for each of 32 packages: more than the 64 bytes of a counter's file."""
    cpus = [56 * package for package in range(32)]
    plant_pmu(tmp_path, cpumask=",".join(map(str, cpus)), events=("energy-pkg",))
    assert cpus == [event.cpu for event in find_events(str(tmp_path))]


def test_a_processor_without_a_counter_of_memory_has_packages_alone(tmp_path: Path) -> None:
    plant_pmu(tmp_path, events=("energy-pkg",))
    assert ["pkg"] == [event.register.name for event in find_events(str(tmp_path))]


def test_each_event_has_its_own_scale(tmp_path: Path) -> None:
    plant_pmu(tmp_path, scales={"energy-ram": 1.5e-05})
    assert [SCALE, 1.5e-05] == [event.register.joules for event in find_events(str(tmp_path))]


def test_no_folder_is_no_event(tmp_path: Path) -> None:
    assert () == find_events(str(tmp_path))


def test_other_events_are_no_substitute(tmp_path: Path) -> None:
    plant_pmu(tmp_path, events=("energy-cores", "energy-psys"))
    with pytest.raises(MeterUnavailable, match=r"^The power PMU has no event energy-pkg, and its others"):
        find_events(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "text", "reported"),
    [
        ("type", "", "type holds '': the number of the PMU was expected"),
        ("type", "-1", "type holds '-1': the number of the PMU"),
        ("cpumask", "", "cpumask holds '': a list of CPUs was expected"),
        ("cpumask", "0,x", "cpumask holds '0,x': a list of CPUs"),
        ("events/energy-pkg", "config=0x02", "energy-pkg holds 'config=0x02': event=0x02 or the like"),
        ("events/energy-pkg", "event=0x02,umask=0x1", "energy-pkg holds 'event=0x02,umask=0x1'"),
        ("events/energy-ram.unit", "mJ", "energy-ram.unit holds 'mJ': only Joules"),
        ("events/energy-pkg.scale", "", "energy-pkg.scale holds '': the joules of one count"),
        ("events/energy-pkg.scale", "0.0", "energy-pkg.scale holds '0.0'"),
        ("events/energy-pkg.scale", "nan", "energy-pkg.scale holds 'nan'"),
        ("events/energy-pkg.scale", "inf", "energy-pkg.scale holds 'inf'"),
    ],
)
def test_a_text_that_cannot_be_used_is_shown(tmp_path: Path, file: str, text: str, reported: str) -> None:
    """A wrong scale would be a wrong figure, so that nothing is guessed."""
    (plant_pmu(tmp_path) / file).write_text(f"{text}\n")
    with pytest.raises(MeterUnavailable) as caught:
        find_events(str(tmp_path))
    assert reported in str(caught.value)


@pytest.mark.parametrize("file", ["type", "cpumask", "events/energy-pkg.scale", "events/energy-ram.unit"])
def test_a_missing_file_is_named(tmp_path: Path, file: str) -> None:
    path = plant_pmu(tmp_path) / file
    path.unlink()
    with pytest.raises(MeterUnavailable) as caught:
        find_events(str(tmp_path))
    assert f"{path} cannot be read: No such file or directory." == str(caught.value)


@pytest.mark.parametrize("text", ["0x1", "1-x", "-1", "1-2-3"])
def test_what_is_no_list_of_cpus_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        parse_cpus(text)


def test_an_empty_list_has_no_cpus() -> None:
    assert () == parse_cpus("\n")


def test_the_attributes_name_pmu_size_and_event_and_nothing_else() -> None:
    """Flags that exclude the kernel or the user would be refused by the power PMU."""
    packed = attributes(23, 2)
    assert 64 == len(packed)
    assert (23, 64, 2) == struct.unpack_from("=IIQ", packed)
    assert bytes(48) == packed[16:]


@on_x86_64_linux
def test_what_the_kernel_refuses_is_an_os_error() -> None:
    """There is no such PMU; without the right to ask, that is reported first."""
    with pytest.raises(OSError, match="perf_event_open on CPU 0"):
        open_event(_NO_PMU, 0, 0)


@on_x86_64_linux
def test_an_opened_event_counts_from_now_on() -> None:
    """CPU 0's clock goes on by itself between two readings; the descriptor is not inherited."""
    try:
        descriptor = open_event(_SOFTWARE, _CPU_CLOCK, 0)
    except OSError as error:
        pytest.skip(f"this process may not count events of a whole CPU: {error}")
    first, second = (int.from_bytes(os.read(descriptor, 8), "little") for _ in range(2))
    inherited = os.get_inheritable(descriptor)
    os.close(descriptor)
    assert 0 < first < second
    assert not inherited
    assert not Path(f"/proc/self/fd/{descriptor}").exists()
