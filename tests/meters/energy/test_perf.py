"""Windows of the power PMU: sums over packages, refusals with their remedy, descriptors given back."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.clocks import HandClock
from fakes.power_pmu import CONFIGS, Pmu, plant_pmu, tell_paranoia
from fakes.powercap import bare_metal

from pytest_hwperf.meters.counter_check import CounterCheck
from pytest_hwperf.meters.counters import CounterMeter, Counters, Traits
from pytest_hwperf.meters.perf import find_events, perf_counters, perf_meter
from pytest_hwperf.meters.powercap import SystemAccess
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable

PKG, RAM = CONFIGS["energy-pkg"], CONFIGS["energy-ram"]
SEEN = CounterCheck(tick_s=0.001, spins=3)
Opening = Callable[..., CounterMeter]


def seen(_counters: Counters) -> CounterCheck:
    return SEEN


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
        counters = perf_counters(find_events(str(root)), pmu.calls)
        traits = Traits(kind="perf", tick_s=0.001, shortest_window_s=0.5)
        opened.append(CounterMeter(counters, traits, clock=clock, suspended=lambda: 0.0))
        return opened[-1]

    yield opening
    for meter in opened:
        meter.close()


def refusal(access: SystemAccess, pmu: Pmu, check: Callable[[Counters], CounterCheck] = seen) -> str:
    with pytest.raises(MeterUnavailable) as caught:
        perf_meter({}, access=access, calls=pmu.calls, check=check)
    return str(caught.value)


def test_a_window_is_the_sum_of_packages_and_memory(
    tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening
) -> None:
    """Two packages of 30 and 20 J with memories of 3 and 2 J make 55 J."""
    plant_pmu(tmp_path, cpumask="0,18")
    meter = meter_of(tmp_path)
    started = meter.start()
    pmu.draw("energy-pkg", 30.0)
    pmu.draw("energy-pkg", 20.0, cpu=18)
    pmu.draw("energy-ram", 3.0)
    pmu.draw("energy-ram", 2.0, cpu=18)
    clock.pass_time(1.0)
    reading = meter.end(started)
    assert 55.0 == pytest.approx(reading.value, abs=1e-8)
    assert "perf:pkg+ram+pkg+ram" == meter.source


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


def test_memory_may_stand_still_and_a_package_may_not(
    tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening
) -> None:
    plant_pmu(tmp_path, cpumask="0-1")
    meter = meter_of(tmp_path)
    first = meter.start()
    pmu.draw("energy-pkg", 5.0)
    clock.pass_time(1.0)
    stuck = meter.end(first)
    pmu.draw("energy-pkg", 2.0, cpu=1)
    assert (None, "energy-pkg of CPU 1 (pkg) did not move in 1.00 s: it counts nothing here") == (
        stuck.value,
        stuck.reason,
    )
    assert 7.0 == pytest.approx(meter.end(first).value, abs=1e-8)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENODEV, errno.EINVAL])
@pytest.mark.parametrize("at", ["start", "end"])
def test_an_error_voids_the_window(
    tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening, number: int, at: str
) -> None:
    plant_pmu(tmp_path)
    meter = meter_of(tmp_path)
    pmu.errno = number if at == "start" else None
    started = meter.start()
    pmu.errno = number if at == "end" else None
    pmu.draw("energy-pkg", 5.0)
    clock.pass_time(1.0)
    reading = meter.end(started)
    assert reading.value is None
    assert reading.reason.startswith(f"energy-pkg of CPU 0 (pkg) answers {errno.errorcode[number]}")


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


def test_the_reading_after_an_error_is_whole_again(
    tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening
) -> None:
    plant_pmu(tmp_path)
    meter = meter_of(tmp_path)
    pmu.errno = errno.EIO
    meter.end(meter.start())
    pmu.errno = None
    started = meter.start()
    pmu.draw("energy-pkg", 5.0)
    clock.pass_time(1.0)
    assert 5.0 == pytest.approx(meter.end(started).value, abs=1e-8)


def test_a_count_that_went_down_is_an_error(tmp_path: Path, pmu: Pmu, clock: HandClock, meter_of: Opening) -> None:
    """The kernel never lets it: nothing is guessed."""
    plant_pmu(tmp_path)
    pmu.counts[PKG, 0] = 1000
    meter = meter_of(tmp_path)
    started = meter.start()
    pmu.counts[PKG, 0] = 17
    clock.pass_time(1.0)
    assert "energy-pkg of CPU 0 (pkg) went down" in meter.end(started).reason


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_a_refused_permission_gives_the_remedy(tmp_path: Path, pmu: Pmu, number: int) -> None:
    plant_pmu(tmp_path)
    tell_paranoia(tmp_path, "2")
    pmu.refusals[PKG, 0] = number
    assert "The power PMU needs CAP_PERFMON or kernel.perf_event_paranoid <= 0 (now 2)." == refusal(
        bare_metal(tmp_path), pmu
    )


def test_a_permission_that_the_setting_gives_is_refused_by_something_else(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path)
    tell_paranoia(tmp_path, "-1")
    pmu.refusals[PKG, 0] = errno.EPERM
    assert refusal(bare_metal(tmp_path), pmu).endswith(
        "<= 0 (now -1). It is: then a container's seccomp profile forbids the call; start it with --cap-add PERFMON."
    )


def test_a_setting_that_cannot_be_read_is_not_guessed(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path)
    pmu.refusals[PKG, 0] = errno.EACCES
    assert refusal(bare_metal(tmp_path), pmu).endswith("<= 0 (now not readable: No such file or directory).")


@pytest.mark.parametrize("number", [errno.ENODEV, errno.ENOSYS, errno.EMFILE, errno.EINVAL])
def test_another_refusal_is_named(tmp_path: Path, pmu: Pmu, number: int) -> None:
    plant_pmu(tmp_path)
    pmu.refusals[PKG, 0] = number
    assert f"The power PMU answers {errno.errorcode[number]} when it is opened." == refusal(bare_metal(tmp_path), pmu)


def test_descriptors_are_given_back_when_one_cannot_be_opened(tmp_path: Path, pmu: Pmu) -> None:
    """The last of four is refused: one package of two would look like a measurement of the machine."""
    plant_pmu(tmp_path, cpumask="0,18")
    pmu.refusals[RAM, 18] = errno.ENODEV
    refusal(bare_metal(tmp_path), pmu)
    assert [(PKG, 0), (RAM, 0), (PKG, 18)] == list(pmu.opened.values())
    assert [] == pmu.held


def test_closing_twice_does_nothing(tmp_path: Path, pmu: Pmu, meter_of: Opening) -> None:
    plant_pmu(tmp_path)
    meter = meter_of(tmp_path)
    held = pmu.held
    meter.close()
    meter.close()
    assert ([(PKG, 0), (RAM, 0)], []) == (held, pmu.held)


def test_perf_meter_opens_what_the_machine_has(tmp_path: Path, pmu: Pmu) -> None:
    """With a tick of 1 ms, windows of 0.5 s; why better sources were refused in one line each."""
    plant_pmu(tmp_path)
    meter = perf_meter(
        {}, refused=("rapl: only root\n  sudo so",), access=bare_metal(tmp_path), calls=pmu.calls, check=seen
    )
    meter.close()
    assert ("perf:pkg+ram", 0.001, 0.5) == (meter.source, meter.tick_s, meter.shortest_window_s)
    assert ("better source refused: rapl: only root",) == meter.warnings


def test_a_slow_counter_takes_windows_of_100_ticks(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path)
    meter = perf_meter(
        {}, access=bare_metal(tmp_path), calls=pmu.calls, check=lambda _: CounterCheck(tick_s=0.01, spins=3)
    )
    meter.close()
    assert 1.0 == pytest.approx(meter.shortest_window_s)


def test_noisy_firmware_takes_windows_of_a_second(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path)
    meter = perf_meter({}, access=bare_metal(tmp_path, flags="fpu sgx"), calls=pmu.calls, check=seen)
    meter.close()
    assert 1.0 == meter.shortest_window_s
    assert meter.warnings[0].startswith("this processor has SGX")


def calibrating(*looks: tuple[tuple[int, ...], tuple[int, ...]]) -> Callable[[Counters], CounterCheck]:
    """See at each look which positions are stuck and which absurd, and nothing odd after the last."""
    coming = iter(looks)

    def look(counters: Counters) -> CounterCheck:
        stuck, absurd = next(coming, ((), ()))
        found = counters.registers
        return CounterCheck(
            seconds=0.2,
            tick_s=0.001,
            spins=3,
            stuck=tuple(found[position] for position in stuck),
            absurd=tuple((found[position], 3763.0) for position in absurd),
        )

    return look


def test_an_event_that_tells_nonsense_is_left_out_aloud(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path, cpumask="0,18")
    meter = perf_meter({}, access=bare_metal(tmp_path), calls=pmu.calls, check=calibrating(((1,), (3,))))
    held = pmu.held
    meter.close()
    assert "perf:pkg+pkg" == meter.source
    assert (
        "energy-ram of CPU 0 (ram) did not move in 200 ms: it is left out.",
        "energy-ram of CPU 18 (ram) reads 3763 W, above 2000 W: wrong unit; it is left out.",
    ) == meter.warnings
    assert [(PKG, 0), (PKG, 18)] == held
    assert [] == pmu.held


def test_memory_alone_is_no_substitute(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path)
    text = refusal(bare_metal(tmp_path), pmu, calibrating(((0,), ())))
    assert "energy-pkg of CPU 0 (pkg) did not move in 200 ms: it is left out. Nothing is left to read." == text
    assert [] == pmu.held


def test_events_that_open_and_do_not_answer_are_no_source(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path)

    def failing(_counters: Counters) -> CounterCheck:
        raise MeasurementError("energy-pkg of CPU 0 (pkg) answers EIO")

    assert "The counters could be opened and not be read: energy-pkg of CPU 0 (pkg) answers EIO." == refusal(
        bare_metal(tmp_path), pmu, failing
    )
    assert [] == pmu.held


def test_a_hypervisor_that_hides_the_pmu_is_reported(tmp_path: Path, pmu: Pmu) -> None:
    text = refusal(bare_metal(tmp_path, flags="fpu hypervisor"), pmu)
    assert text.startswith("The hypervisor of this virtual machine hides the power PMU")
    assert text.endswith("Measure on bare metal.")


def test_a_kernel_without_the_pmu_is_told_how_to_load_it(tmp_path: Path, pmu: Pmu) -> None:
    assert "sudo modprobe rapl" in refusal(bare_metal(tmp_path), pmu)


def test_another_processor_has_no_such_call(tmp_path: Path, pmu: Pmu) -> None:
    """The number of the call would be another call's."""
    plant_pmu(tmp_path)
    assert "The power PMU is read on x86-64 only, this processor is aarch64." == refusal(
        bare_metal(tmp_path, architecture="aarch64"), pmu
    )


def test_another_system_has_no_pmu(tmp_path: Path, pmu: Pmu) -> None:
    plant_pmu(tmp_path)
    assert "The power PMU is a part of Linux, this is Darwin." == refusal(
        SystemAccess(root=str(tmp_path), system="Darwin", architecture="x86_64"), pmu
    )


def test_this_machine_is_looked_at_by_default() -> None:
    """Either it has the events, or it says why not."""
    try:
        meter = perf_meter({})
    except MeterUnavailable as reason:
        reported = str(reason)
    else:
        reported = meter.source
        meter.close()
    assert "power PMU" in reported or reported.startswith("perf:pkg")
