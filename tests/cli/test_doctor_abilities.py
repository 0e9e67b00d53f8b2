"""What can be measured on simulated machines, and the remedy where something cannot."""

import errno
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from fakes.patients import Sources, measurable_memory
from fakes.powercap import AMD, CLIENT, COARSE_PSYS, Layout, bare_metal, describe_processor, plant, refusing

from pytest_hwperf.cli.doctor import open_source, read_call_clock, read_cpu_time, read_memory, read_sources, read_zones
from pytest_hwperf.cli.doctor_noise import Fact
from pytest_hwperf.host.clocks import ClockPrecision
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.process import CpuTimeMeter
from pytest_hwperf.records.contracts import Meter
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable


def sources(open_one: Callable[[str], Meter], registered: Iterable[str] = ()) -> dict[str, Fact]:
    return {one.key: one for one in read_sources(open_one, registered)}


def virtual_machine(root: Path) -> Access:
    """As clouds have them, with the mark of a container runtime on top."""
    describe_processor(root, "fpu hypervisor", mark=".dockerenv")
    return Access(root=str(root), system="Linux", architecture="x86_64")


def masked_container(root: Path) -> Access:
    host = bare_metal(root)
    describe_processor(root, "fpu", mark=".dockerenv")
    return host


def dangling_links(root: Path) -> Access:
    """The class folder is there, what it leads to is not."""
    shutil.rmtree(plant(root, CLIENT).nested)
    return bare_metal(root)


def for_root_only(root: Path) -> Access:
    plant(root, CLIENT)
    return bare_metal(root, files=refusing(errno.EACCES, "energy_uj"))


def without_driver(root: Path) -> Access:
    return bare_metal(root)


def macos(root: Path) -> Access:
    return Access(root=str(root), system="Darwin", architecture="arm64")


def arm_server(root: Path) -> Access:
    return bare_metal(root, architecture="aarch64")


REMEDIES: tuple[tuple[Callable[[Path], Access], str, str], ...] = (
    (virtual_machine, "rapl", "The hypervisor of this virtual machine hides RAPL"),
    (virtual_machine, "rapl", "on a QEMU host with -accel kvm,rapl=true"),
    (virtual_machine, "perf", "The hypervisor of this virtual machine hides the power PMU"),
    (masked_container, "rapl", "-v /sys/devices/virtual/powercap:/host/powercap:ro"),
    (dangling_links, "rapl", "-e HWPERF_POWERCAP_ROOT=/host/powercap"),
    (for_root_only, "rapl", "(CVE-2020-8694)"),
    (for_root_only, "rapl", "sudo udevadm control --reload-rules"),
    (without_driver, "rapl", "sudo modprobe intel_rapl_msr"),
    (without_driver, "perf", "power PMU"),
    (macos, "rapl", "RAPL is read on Linux only, this is Darwin."),
    (arm_server, "rapl", "this one is aarch64"),
)


@pytest.mark.parametrize(("machine", "name", "remedy"), REMEDIES)
def test_a_source_that_is_missing_has_its_remedy(
    tmp_path: Path, machine: Callable[[Path], Access], name: str, remedy: str
) -> None:
    source = sources(Sources(machine(tmp_path), {}))[name]
    assert remedy in source.text == source.value["reason"]
    assert [False, None, None] == [source.value[key] for key in ("available", "label", "shortest_window_s")]


@pytest.mark.parametrize("machine", [virtual_machine, macos])
def test_the_estimate_is_there_and_is_no_measurement(tmp_path: Path, machine: Callable[[Path], Access]) -> None:
    source = sources(Sources(machine(tmp_path), {}))["estimate"]
    keys = ("available", "measured", "label", "tick_s")
    assert [True, False, "estimate:cpu-time", None] == [source.value[key] for key in keys]
    assert any("not a measurement" in note for note in source.notes)
    assert "estimate:cpu-time: no steps, windows of any length" == source.text


def test_counters_are_reported_with_tick_and_shortest_window(tmp_path: Path) -> None:
    plant(tmp_path, AMD)
    source = sources(Sources(bare_metal(tmp_path), {}))["rapl"]
    keys = ("available", "measured", "metric", "tick_s", "shortest_window_s", "reason")
    assert [True, True, "energy", 0.001, 0.5, ""] == [source.value[key] for key in keys]
    assert "rapl:package-0: moves every 1.00 ms, windows from 500 ms on" == source.text


def test_known_sources_come_first_and_the_estimate_last(tmp_path: Path) -> None:
    """Third-party sources stand between; what is not registered is listed too."""
    found = sources(Sources(macos(tmp_path), {}), ("estimate", "smart_plug", "rapl"))
    assert ["rapl", "perf", "nvml", "smart_plug", "estimate"] == list(found)
    assert "There is no smart_plug here." == found["smart_plug"].text


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MeasurementError("plug answers EIO"), "plug answers EIO"),
        (ImportError("No module named 'plug'"), "It cannot be loaded: No module named 'plug'."),
    ],
)
def test_a_source_that_breaks_is_reported_as_missing(error: Exception, reason: str) -> None:
    """A third-party library is not there, or a counter answers nonsense: the rest is still reported."""

    def open_one(_: str) -> Meter:
        raise error

    assert {reason} == {source.text for source in read_sources(open_one, ("plug",))}


def test_every_meter_that_was_opened_is_closed() -> None:
    closed = list[str]()

    class Closing(CpuTimeMeter):
        def close(self) -> None:
            closed.append(self.source)

    found = read_sources(lambda _: Closing(), ())
    assert len(found) == len(closed)
    assert {"cpu_time"} == {source.value["metric"] for source in found}


def test_this_installation_opens_its_own_sources_and_no_others() -> None:
    meter = open_source("estimate", {})
    meter.close()
    assert "estimate:cpu-time" == meter.source
    with pytest.raises(MeterUnavailable, match="has no such source"):
        open_source("steam_engine", {})


@pytest.mark.parametrize(
    ("layout", "roles"),
    [
        (
            CLIENT,
            {
                "intel-rapl:0": "added up",
                "intel-rapl:0:0": "never added: it lies inside its package",
                "intel-rapl:0:1": "never added: it lies inside its package",
                "intel-rapl:1": "never added: it includes packages",
                "intel-rapl-mmio:0": "not added: it repeats another zone",
            },
        ),
        (COARSE_PSYS, {"intel-rapl:0": "added up", "intel-rapl:1": "refused: it counts in steps of 1 J"}),
        ({"intel-rapl:0": ("board", 5, 1000)}, {"intel-rapl:0": "not added: it is not known what it counts"}),
        ({}, {}),
    ],
    ids=["client", "coarse psys", "unknown", "none"],
)
def test_every_zone_is_listed_with_its_role(tmp_path: Path, layout: Layout, roles: dict[str, str]) -> None:
    if layout:
        plant(tmp_path, layout)
    assert roles == {zone.key: zone.value["role"] for zone in read_zones(bare_metal(tmp_path), {})}


def test_a_zone_that_answers_nothing_is_listed_too(tmp_path: Path) -> None:
    """An errno has its name, an odd text stands there itself."""
    tree = plant(tmp_path, AMD)
    (tree.zone("intel-rapl:0:0") / "energy_uj").write_text("soon\n")
    zones = read_zones(bare_metal(tmp_path, files=refusing(errno.EIO, "intel-rapl:0/energy_uj")), {})
    assert [
        "package-0, answers EIO: not added: it gives no value",
        "core, answers 'soon', which is no number: never added: it lies inside its package",
    ] == [zone.text for zone in zones]


def test_memory_is_reported_with_its_sources(tmp_path: Path) -> None:
    measurable_memory(tmp_path)
    memory = read_memory(bare_metal(tmp_path))
    assert [True, True] == [memory.value[key] for key in ("available", "resettable")]
    assert "peaks by VmHWM after clear_refs, the size at one moment by Rss of smaps_rollup" == memory.text
    assert memory.value["resolution_bytes"] > 0


def test_peaks_that_cannot_be_reset_are_reported(tmp_path: Path) -> None:
    """A hardened kernel: the file is there and refuses."""
    measurable_memory(tmp_path)
    (tmp_path / "proc/self/clear_refs").mkdir()
    memory = read_memory(bare_metal(tmp_path)).value
    assert [True, False, "VmHWM, never cleared"] == [memory[key] for key in ("available", "resettable", "peak_source")]


@pytest.mark.parametrize("system", ["Linux", "Plan9"])
def test_memory_that_cannot_be_read_says_why(tmp_path: Path, system: str) -> None:
    memory = read_memory(Access(root=str(tmp_path), system=system))
    assert [False, None, None] == [memory.value[key] for key in ("available", "peak_source", "resolution_bytes")]
    assert memory.text == memory.value["reason"] != ""


def test_macos_counts_in_its_own_way(tmp_path: Path) -> None:
    memory = read_memory(macos(tmp_path)).value
    assert [True, False, None] == [memory[key] for key in ("available", "resettable", "resolution_bytes")]
    assert "ru_maxrss, never cleared" == memory["peak_source"]


def test_cpu_time_is_reported_by_its_step() -> None:
    assert "in steps of 1.00 µs while one thread works" == read_cpu_time(1e-6).text


def test_cpu_time_that_stands_still_is_no_ability() -> None:
    found = read_cpu_time(None)
    assert ({"available": False, "step_s": None}, "did not move") == (found.value, found.text)


def test_the_clock_is_reported_with_what_it_is_good_for() -> None:
    """Calls below 20 µs share a reading of it."""
    found = read_call_clock(ClockPrecision(step_s=40e-9, cost_s=51e-9), None)
    assert found.value["available"]
    assert "perf_counter: steps of 40.0 ns, 51.0 ns a reading; calls below 20.0 µs are timed in batches" == found.text


@pytest.mark.parametrize(("step_s", "available"), [(1e-6, True), (1.1e-6, False), (15.6e-3, False), (None, False)])
def test_a_coarse_clock_times_no_calls(step_s: float | None, available: bool) -> None:
    """More than a twentieth of 20 µs."""
    assert available is read_call_clock(ClockPrecision(step_s=step_s, cost_s=1e-6), None).value["available"]


def test_a_clock_has_the_kernels_name_where_it_tells_one() -> None:
    clock = read_call_clock(ClockPrecision(step_s=None, cost_s=1.2e-6), "hpet")
    assert clock.text.startswith("perf_counter (hpet): did not move, 1.20 µs a reading;")
