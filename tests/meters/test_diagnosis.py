"""Why RAPL cannot be read: one cause, one sentence, one remedy."""

import errno
import re
import shutil
from pathlib import Path

import pytest
from fakes.powercap import AMD, CLIENT, SOCKETS, Layout, bare_metal, describe_processor, plant, refusing

from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.rapl import rapl_meter
from pytest_hwperf.records.errors import MeterUnavailable


def refusal(host: Access, **environ: str) -> str:
    with pytest.raises(MeterUnavailable) as caught:
        rapl_meter(environ, access=host)
    return str(caught.value)


def test_a_permission_for_a_part_is_refused_as_a_whole(tmp_path: Path) -> None:
    """Three of four sockets would look like a measurement of the machine."""
    plant(tmp_path, SOCKETS)
    assert "intel-rapl:2/energy_uj" in refusal(
        bare_metal(tmp_path, files=refusing(errno.EACCES, "intel-rapl:2/energy_uj"))
    )


def test_firmware_that_gives_nothing_at_all_is_reported(tmp_path: Path) -> None:
    plant(tmp_path, AMD)
    (tmp_path / "sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj").write_text("\n")
    text = refusal(bare_metal(tmp_path))
    assert text.startswith("intel-rapl:0 (package-0) answers '', which is no number")
    assert text.endswith("Nothing is left to read.")


def test_another_system_or_processor_has_no_rapl(tmp_path: Path) -> None:
    """Reported first, whatever else holds; it is asked to load no x86 driver."""
    assert "this one is aarch64" in refusal(bare_metal(tmp_path, architecture="aarch64"))
    plant(tmp_path, AMD)
    mac = refusal(Access(root=str(tmp_path), system="Darwin", architecture="arm64"))
    assert mac.startswith("RAPL is read on Linux only, this is Darwin.")


NAMED = {"HWPERF_POWERCAP_ROOT": "/nowhere"}
HIDDEN = "^The hypervisor of this virtual machine hides RAPL"
MOUNT = "-e HWPERF_POWERCAP_ROOT=/host/powercap"


CAUSES: tuple[tuple[Layout, str, str, dict[str, str], str], ...] = (
    ({"intel-rapl:0": ("psys", 5, 1000)}, "fpu", "", {}, "holds no package zone"),
    ({}, "fpu", "", {}, "sudo modprobe intel_rapl_msr"),
    ({}, "fpu hypervisor", "", {}, HIDDEN),
    ({}, "fpu hypervisor", ".dockerenv", {}, HIDDEN),  # no mount would help there
    ({}, "fpu", ".dockerenv", {}, MOUNT),
    ({}, "fpu", "run/.containerenv", {}, MOUNT),
    # The usual places are not tried instead: this virtual machine may well have counters.
    (AMD, "fpu", "", NAMED, "^HWPERF_POWERCAP_ROOT=/nowhere holds no RAPL zone.*or unset it.$"),
    (AMD, "fpu hypervisor", "", NAMED, "^HWPERF_POWERCAP_ROOT=/nowhere holds no RAPL zone"),
)


def test_the_first_cause_is_reported_with_its_remedy(tmp_path: Path) -> None:
    for number, (layout, flags, mark, environ, reported) in enumerate(CAUSES):
        root = plant(tmp_path / str(number), layout).root
        host = bare_metal(root)
        describe_processor(root, flags, mark=mark)
        assert re.search(reported, refusal(host, **environ))


def test_links_to_hidden_folders_betray_a_container(tmp_path: Path) -> None:
    tree = plant(tmp_path, CLIENT)
    shutil.rmtree(tree.nested)
    assert refusal(bare_metal(tmp_path)).startswith("The container runtime hides")


def test_a_virtual_machine_with_counters_is_read(tmp_path: Path) -> None:
    """QEMU can show the host's."""
    plant(tmp_path, AMD)
    meter = rapl_meter({}, access=bare_metal(tmp_path, flags="fpu hypervisor"))
    meter.close()
    assert "rapl:package-0" == meter.source


def test_the_first_line_of_a_refusal_stands_alone(tmp_path: Path) -> None:
    """A footnote has one line: it says where the commands are that follow in the whole text."""
    documented = (Path(__file__).parents[2] / "docs/meters.md").read_text(encoding="utf-8")
    plant(tmp_path, AMD)
    for number in (errno.EACCES, errno.EPERM):
        files = refusing(number, "energy_uj", "max_energy_range_uj")
        first, *commands = refusal(bare_metal(tmp_path, files=files)).splitlines()
        assert first.startswith("Only root can read ")
        assert "intel-rapl:0/energy_uj (CVE-2020-8694)" in first
        assert "docs/meters.md" in first
        assert 3 == len(commands)
        assert "udevadm trigger" in commands[-1]
        assert [] == [command for command in commands if command.strip() not in documented]
