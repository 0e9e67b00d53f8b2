"""Opening RAPL on a machine: where it is looked for, what is left out aloud."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest
from fakes.counters import finding
from fakes.powercap import (
    AMD,
    AT_REST,
    CLIENT,
    COARSE_PSYS,
    HALF_MIRRORED,
    SOCKETS,
    Layout,
    bare_metal,
    calm,
    plant,
    recording,
    refusing,
)

from pytest_hwperf.meters.access import Files
from pytest_hwperf.meters.counters import CounterCheck, Counters
from pytest_hwperf.meters.rapl import psys_meter, rapl_meter
from pytest_hwperf.records.errors import MeterUnavailable


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


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO, errno.ENODATA, errno.ENOENT, errno.ENODEV])
def test_a_zone_without_a_value_is_left_out_aloud(tmp_path: Path, number: int) -> None:
    plant(tmp_path, SOCKETS)
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


@pytest.mark.parametrize(("name", "layout", "total_uj"), AT_REST)
def test_an_opened_meter_reads_the_sum_at_rest(tmp_path: Path, name: str, layout: Layout, total_uj: int) -> None:
    plant(tmp_path, layout)
    read = list[int]()

    def look(counters: Counters) -> CounterCheck:
        read.append(sum(counters.read()))
        return calm(counters)

    rapl_meter({}, access=bare_metal(tmp_path, check=look)).close()
    assert (name, [total_uj]) == (name, read)


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


@pytest.mark.parametrize(
    "more", [{}, {"intel-rapl-tpmi:0": ("psys", 101230055321, CLIENT["intel-rapl:1"][2])}], ids=["once", "two ways"]
)
def test_the_platform_counter_is_read_on_demand(tmp_path: Path, more: Layout) -> None:
    """Once, however many ways show it; where it stands still, that is no 0 J."""
    plant(tmp_path, {**CLIENT, **more})
    counters = list[Counters]()

    def look(some: Counters) -> CounterCheck:
        counters.append(some)
        return calm(some)

    meter = psys_meter({}, access=bare_metal(tmp_path, check=look))
    meter.close()
    assert ("rapl:psys", [True]) == (meter.source, [register.never_idle for register in counters[0].registers])


@pytest.mark.parametrize(
    ("layout", "files", "why"),
    [
        (COARSE_PSYS, Files(), r"intel-rapl:1 \(psys\) counts in steps of 1 J here: too coarse"),
        (AMD, Files(), "has no psys zone; ask for rapl"),
        (CLIENT, refusing(errno.EACCES, "/intel-rapl:1/energy_uj"), "CVE-2020-8694"),
        ({**CLIENT, "intel-rapl:2": CLIENT["intel-rapl:1"]}, Files(), "intel-rapl:1 and intel-rapl:2 are all called"),
    ],
)
def test_a_platform_counter_that_cannot_be_used_is_refused(
    tmp_path: Path, layout: Layout, files: Files, why: str
) -> None:
    plant(tmp_path, layout)
    with pytest.raises(MeterUnavailable, match=why):
        psys_meter({}, access=bare_metal(tmp_path, files=files))
