"""Windows of the power PMU: sums over packages, refusals with their remedy, descriptors given back."""

import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.clocks import HandClock
from fakes.power_pmu import CONFIGS, Pmu, plant_pmu, tell_paranoia
from fakes.powercap import bare_metal

from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.counters import CounterMeter
from pytest_hwperf.meters.perf import perf_meter
from pytest_hwperf.records.errors import MeterUnavailable

OTHERS = (errno.ENODEV, errno.ENOSYS, errno.EMFILE, errno.EINVAL)
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


def test_a_count_that_went_down_is_an_error(tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening) -> None:
    """The kernel never lets it: nothing is guessed."""
    plant_pmu(tmp_path)
    pmu.counts[PKG, 0] = 1000
    meter = meter_of(tmp_path)
    started = meter.start()
    pmu.counts[PKG, 0] = 17
    clock.pass_time(1.0)
    assert "energy-pkg of CPU 0 (pkg) went down" in meter.end(started).reason


def test_descriptors_are_given_back_when_one_cannot_be_opened(tmp_path: Path, pmu: Pmu) -> None:
    """The last of four is refused: one package of two would look like a measurement of the machine."""
    plant_pmu(tmp_path, cpumask="0,18")
    pmu.refusals[RAM, 18] = errno.ENODEV
    refusal(bare_metal(tmp_path), pmu)
    assert [(PKG, 0), (RAM, 0), (PKG, 18)] == list(pmu.opened.values())
    assert [] == pmu.held


NEEDS = r"^The power PMU needs CAP_PERFMON or kernel.perf_event_paranoid <= 0 \(now {}\)\."


@pytest.mark.parametrize(
    ("number", "setting", "reported"),
    [
        (errno.EACCES, "2", NEEDS.format(2) + "$"),
        (errno.EPERM, "2", NEEDS.format(2) + "$"),
        (errno.EPERM, "-1", NEEDS.format(-1) + " It is: then a container's seccomp profile .* --cap-add PERFMON.$"),
        (errno.EACCES, "", NEEDS.format("not readable: No such file or directory") + "$"),
        *((n, "2", f"^The power PMU answers {errno.errorcode[n]} when it is opened.$") for n in OTHERS),
    ],
)
def test_a_refusal_of_the_kernel_is_named_with_its_remedy(
    tmp_path: Path, pmu: Pmu, number: int, setting: str, reported: str
) -> None:
    plant_pmu(tmp_path)
    if setting:
        tell_paranoia(tmp_path, setting)
    pmu.refusals[PKG, 0] = number
    assert re.search(reported, refusal(bare_metal(tmp_path), pmu))


@pytest.mark.parametrize(
    ("planted", "parts", "reported"),
    [
        (
            False,
            {"flags": "fpu hypervisor"},
            "^The hypervisor of this virtual machine .* bare metal.$",
        ),
        (False, {}, "sudo modprobe rapl"),
        # The number of the call would be another call's.
        (True, {"architecture": "aarch64"}, "^The power PMU is read on x86-64 only, this processor is aarch64.$"),
        (True, {"system": "Darwin"}, "^The power PMU is a part of Linux, this is Darwin.$"),
    ],
)
def test_a_machine_without_the_pmu_says_why(
    tmp_path: Path, pmu: Pmu, *, planted: bool, parts: dict[str, Any], reported: str
) -> None:
    if planted:
        plant_pmu(tmp_path)
    access = bare_metal(tmp_path, **{key: value for key, value in parts.items() if key != "system"})
    assert re.search(reported, refusal(replace(access, system=parts.get("system", "Linux")), pmu))
