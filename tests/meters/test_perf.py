"""Energy by Linux's power PMU: what sysfs says of it, windows, and refusals with their remedy."""

import errno
import os
import platform
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.clocks import HandClock
from fakes.power_pmu import CONFIGS, KIND, SCALE, Pmu, plant_pmu, tell_paranoia
from fakes.powercap import bare_metal

from pytest_hwperf.meters.access import Access, attributes, open_event
from pytest_hwperf.meters.counters import CounterMeter
from pytest_hwperf.meters.perf import find_events, parse_cpus, perf_meter
from pytest_hwperf.records.errors import MeterUnavailable

PKG, RAM = CONFIGS["energy-pkg"], CONFIGS["energy-ram"]
Opening = Callable[..., CounterMeter]


@pytest.fixture
def pmu() -> Pmu:
    return Pmu()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def meter_of(pmu: Pmu, clock: HandClock) -> Iterator[Opening]:
    """Open a meter on the events under a root, with a clock that is moved by hand; it is closed after the test."""
    opened: list[CounterMeter] = []

    def opening(root: Path) -> CounterMeter:
        access = bare_metal(root, **pmu.calls, clock=clock, suspended=lambda: 0.0)
        opened.append(perf_meter({}, access=access))
        return opened[-1]

    yield opening
    for meter in opened:
        meter.close()


def refusal(access: Access, pmu: Pmu) -> str:
    with pytest.raises(MeterUnavailable) as caught:
        perf_meter({}, access=replace(access, **pmu.calls))
    return str(caught.value)


def test_each_event_counts_in_its_own_unit(tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening) -> None:
    plant_pmu(tmp_path, scales={"energy-ram": 0.5})
    meter = meter_of(tmp_path)
    started = meter.start()
    pmu.draw("energy-pkg", 10.0)
    pmu.draw("energy-ram", 4.0, scale=0.5)
    clock.pass_time(1.0)
    assert 14.0 == pytest.approx(meter.end(started).value, abs=1e-8)


def test_counts_of_64_bits_keep_every_one(tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening) -> None:
    """Above 2^63 and far beyond what a float holds: 4296 counts are 1 µJ, to within a count."""
    plant_pmu(tmp_path, events=("energy-pkg",))
    meter = meter_of(tmp_path)
    pmu.counts[PKG, 0] = 2**64 - 5000
    started = meter.start()
    pmu.counts[PKG, 0] += 4295
    clock.pass_time(1.0)
    assert 4295 * 2.3283064365386963e-10 == meter.end(started).value


def test_an_event_in_error_gives_no_bytes_and_no_count(
    tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening
) -> None:
    """The kernel answers such a reading with the end of the file, which would be 0 as a number."""
    plant_pmu(tmp_path)
    meter = meter_of(tmp_path)
    started = meter.start()
    pmu.answer = b""
    clock.pass_time(1.0)
    reading = meter.end(started)
    assert (None, "energy-pkg of CPU 0 (pkg) answers 0 bytes, and a count has 8") == (reading.value, reading.reason)


def test_descriptors_are_given_back_when_one_cannot_be_opened(tmp_path: Path, pmu: Pmu) -> None:
    """The last of four is refused: one package of two would look like a measurement of the machine."""
    plant_pmu(tmp_path, cpumask="0,18")
    pmu.refusals[RAM, 18] = errno.ENODEV
    refusal(bare_metal(tmp_path), pmu)
    assert [(PKG, 0), (RAM, 0), (PKG, 18)] == list(pmu.opened.values())
    assert [] == pmu.held


NEEDS = r"^The power PMU needs CAP_PERFMON or kernel.perf_event_paranoid <= 0 \(now {}\)\."


def test_a_refusal_of_the_kernel_is_named_with_its_remedy(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path)
    host = bare_metal(tmp_path)
    for number, setting, reported in (
        (errno.EACCES, "", NEEDS.format("not readable: No such file or directory") + "$"),
        (errno.EACCES, "2", NEEDS.format(2) + "$"),
        (errno.EPERM, "1", NEEDS.format(1) + "$"),
        (errno.EPERM, "0", NEEDS.format(0) + " It is: then a container's seccomp profile .* --cap-add PERFMON.$"),
        (errno.ENODEV, "2", "^The power PMU answers ENODEV when it is opened.$"),
    ):
        if setting:
            tell_paranoia(tmp_path, setting)
        pmu.refusals[PKG, 0] = number
        assert re.search(reported, refusal(host, pmu))


def test_a_machine_without_the_pmu_says_why(tmp_path: Path, pmu: Pmu) -> None:
    """On another processor the number of the call would be another call's."""
    hidden = bare_metal(tmp_path, flags="fpu hypervisor")
    assert re.search("^The hypervisor of this virtual machine .* bare metal.$", refusal(hidden, pmu))
    access = bare_metal(tmp_path)
    assert "sudo modprobe rapl" in refusal(access, pmu)
    plant_pmu(tmp_path)
    other, mac = replace(access, architecture="aarch64"), replace(access, system="Darwin")
    assert "The power PMU is read on x86-64 only, this processor is aarch64." == refusal(other, pmu)
    assert "The power PMU is a part of Linux, this is Darwin." == refusal(mac, pmu)


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


def test_each_cpu_of_the_mask_stands_for_a_package(tmp_path: Path) -> None:
    plant_pmu(tmp_path, cpumask="0-1,64")
    assert [(cpu, name) for cpu in (0, 1, 64) for name in ("pkg", "ram")] == [
        (event.cpu, event.register.name) for event in find_events(str(tmp_path))
    ]


def test_a_long_mask_is_read_to_its_end_and_without_a_counter_of_memory_packages_are_alone(tmp_path: Path) -> None:
    """One CPU for each of 32 packages: more than the 64 bytes of a counter's file."""
    cpus = [56 * package for package in range(32)]
    plant_pmu(tmp_path, cpumask=",".join(map(str, cpus)), events=("energy-pkg",))
    assert [(cpu, "pkg") for cpu in cpus] == [(event.cpu, event.register.name) for event in find_events(str(tmp_path))]


def test_other_events_are_no_substitute(tmp_path: Path) -> None:
    plant_pmu(tmp_path, events=("energy-cores", "energy-psys"))
    with pytest.raises(MeterUnavailable, match=r"^The power PMU has no event energy-pkg, and its others"):
        find_events(str(tmp_path))


UNUSABLE = (
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
)


def test_a_text_that_cannot_be_used_is_shown_and_a_missing_file_named(tmp_path: Path) -> None:
    """A wrong scale would be a wrong figure, so that nothing is guessed."""
    folder = plant_pmu(tmp_path)
    for file, text, reported in UNUSABLE:
        before = (folder / file).read_text()
        (folder / file).write_text(f"{text}\n")
        with pytest.raises(MeterUnavailable, match=re.escape(reported)):
            find_events(str(tmp_path))
        (folder / file).write_text(before)
    for file in ("type", "cpumask", "events/energy-pkg.scale", "events/energy-ram.unit"):
        path = (folder / file).rename(tmp_path / "away")
        with pytest.raises(MeterUnavailable, match=f"^{folder / file} cannot be read: No such file or directory.$"):
            find_events(str(tmp_path))
        path.rename(folder / file)


def test_what_is_no_list_of_cpus_is_refused() -> None:
    for text in ("0x1", "1-x", "-1", "1-2-3"):
        with pytest.raises(ValueError, match="invalid literal"):
            parse_cpus(text)


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
