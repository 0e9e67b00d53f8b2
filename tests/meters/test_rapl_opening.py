"""Opening RAPL on a machine: where it is looked for, what is left out aloud."""

import errno
from contextlib import suppress
from pathlib import Path

import pytest
from fakes.powercap import AMD, CLIENT, SOCKETS, bare_metal, calm, plant, recording, refusing

from pytest_hwperf.core.errors import MeterUnavailable
from pytest_hwperf.meters.diagnosis import Host
from pytest_hwperf.meters.powercap import Files
from pytest_hwperf.meters.rapl import rapl_meter


def test_rapl_meter_reads_the_usual_places(tmp_path: Path) -> None:
    """The devices first; the class folder where only that is there."""
    plant(tmp_path, CLIENT)
    meter = rapl_meter({}, host=bare_metal(tmp_path), calibrated=calm)

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
    meter = rapl_meter({}, host=bare_metal(tmp_path), calibrated=calm)
    meter.close()

    assert "rapl:package-0" == meter.source


def test_the_environment_variable_replaces_the_usual_places(tmp_path: Path) -> None:
    """A container mounts the host's tree somewhere else."""
    plant(tmp_path, CLIENT)
    other = plant(tmp_path / "host", SOCKETS)
    meter = rapl_meter({"HWPERF_POWERCAP_ROOT": str(other.nested)}, host=bare_metal(tmp_path), calibrated=calm)
    meter.close()

    assert 8 == len(meter.domains)


def test_noise_against_side_channels_asks_for_longer_windows(tmp_path: Path) -> None:
    plant(tmp_path, AMD)
    meter = rapl_meter({}, host=bare_metal(tmp_path, flags="fpu sgx"), calibrated=calm)
    meter.close()

    assert 1.0 == meter.shortest_window_s
    assert meter.warnings[0].startswith("this processor has SGX")


def test_why_better_sources_were_refused_is_kept(tmp_path: Path) -> None:
    plant(tmp_path, AMD)
    meter = rapl_meter({}, refused=("better: not here",), host=bare_metal(tmp_path), calibrated=calm)
    meter.close()

    assert ("better: not here",) == meter.warnings


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO, errno.ENODATA, errno.ENOENT, errno.ENODEV])
def test_a_zone_without_a_value_is_left_out_aloud(tmp_path: Path, number: int) -> None:
    plant(tmp_path, SOCKETS)
    files = refusing(number, "intel-rapl:3:0/energy_uj")
    meter = rapl_meter({}, host=bare_metal(tmp_path, files=files), calibrated=calm)
    meter.close()

    assert "rapl:package-0+package-1+dram+package-2+dram+package-3+dram" == meter.source
    assert [f"intel-rapl:3:0 (dram) answers {errno.errorcode[number]}"] == [
        warning.partition(": the firmware gives no value")[0] for warning in meter.warnings
    ]


def test_the_twin_serves_where_root_alone_reads_the_first(tmp_path: Path) -> None:
    plant(tmp_path, CLIENT)
    meter = rapl_meter(
        {}, host=bare_metal(tmp_path, files=refusing(errno.EACCES, "/intel-rapl:0/energy_uj")), calibrated=calm
    )
    meter.close()

    assert ("rapl:package-0", ()) == (meter.source, meter.warnings)


def test_this_machine_is_looked_at_by_default(tmp_path: Path) -> None:
    """Either it has counters, or it says why not."""
    with suppress(MeterUnavailable):
        rapl_meter({"HWPERF_POWERCAP_ROOT": str(plant(tmp_path, AMD).nested)}).close()
    assert Host().root == "/"


def test_constraints_and_power_files_are_never_opened(tmp_path: Path) -> None:
    """Reading them answers errors on some machines, and nothing here needs them."""
    tree, paths = plant(tmp_path, CLIENT), list[str]()
    meter = rapl_meter({}, host=bare_metal(tmp_path, files=Files(open=recording(paths))), calibrated=calm)
    meter.close()

    assert {"name", "max_energy_range_uj", "energy_uj"} == {Path(path).name for path in paths}
    assert str(tree.zone("intel-rapl:1") / "energy_uj") not in paths


def test_unreadable_ranges_alone_do_not_close_the_meter(tmp_path: Path) -> None:
    """Some systems restrict the range and not the counter; windows stay under a minute then."""
    plant(tmp_path, AMD)
    files = refusing(errno.EACCES, "max_energy_range_uj")
    meter = rapl_meter({}, host=bare_metal(tmp_path, files=files), calibrated=calm)
    meter.close()

    assert 60.0 == meter.longest_window_s
