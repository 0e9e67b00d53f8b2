"""RAPL zones of a powercap tree: which there are, and which add up to the processors' energy.

Layout and names: Linux, Documentation/power/powercap/powercap.rst and drivers/powercap/intel_rapl_*.c.
"""

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.host.machine import read_processor
from pytest_hwperf.meters.counters import errno_name

# All three read the same registers: a later one is used where an earlier one is missing or cannot be read.
_BACKENDS = ("intel-rapl", "intel-rapl-tpmi", "intel-rapl-mmio")
# A control type, or a zone in it. The ids are hexadecimal: intel-rapl:a is the eleventh zone.
_NODE = re.compile(r"intel-rapl(?:-mmio|-tpmi)?(?::[0-9a-f]+)*")
_COARSE_UJ = 10**15
_PACKAGE = re.compile(r"package-(\d+)(?:-die-(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The two system calls that read a zone; a test replaces them to fail as a kernel does."""

    open: Callable[[str, int], int] = os.open
    pread: Callable[[int, int, int], bytes] = os.pread

    def text(self, path: str) -> str:
        """Return the stripped text of a small file."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            return self.pread(descriptor, 64, 0).decode("ascii", "replace").strip()
        finally:
            os.close(descriptor)


SYSTEM = Files()


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """One energy counter. Its real path is its identity: on four sockets four zones are called `dram`."""

    path: str
    name: str  # "package-0", "dram", "core", "uncore", "psys"
    max_uj: int | None  # the last value before the counter starts again at 0; None = not readable

    @property
    def id(self) -> str:
        """The folder's name, as `intel-rapl:0:1`."""
        return Path(self.path).name

    @property
    def backend(self) -> str:
        """The control type, as `intel-rapl-mmio`."""
        return self.id.partition(":")[0]

    @property
    def parent(self) -> str:
        """The id of the zone it lies in, or of the control type."""
        return self.id.rpartition(":")[0]

    @property
    def is_whole(self) -> bool:
        """Whether it stands for a package or the platform; memory alone is no substitute."""
        return self.name.startswith("package") or self.name == "psys"

    @property
    def is_coarse(self) -> bool:
        """Whether it counts in steps of 1 J: such counters have a range of more than 1 GJ."""
        return (self.max_uj or 0) > _COARSE_UJ


def find_zones(root: str, files: Files = SYSTEM) -> tuple[Zone, ...]:
    """Return every zone under `root` once, whether its folders are nested or linked flat.

    Only `name` and `max_energy_range_uj` are read: constraints and power files answer errors on some machines.
    """
    zones: dict[str, Zone] = {}
    seen: set[Path] = set()
    pending = [Path(root)]
    while pending:
        for path in _nodes(pending.pop()):
            if path not in seen:
                seen.add(path)
                pending.append(path)
                if ":" in path.name and (zone := _zone(str(path), files)):
                    zones[zone.path] = zone
    return tuple(zones[path] for path in sorted(zones))


def refusal(zone: Zone, files: Files = SYSTEM) -> str:
    """Return why a zone's energy cannot be read: the errno's name or the odd text; "" where it can."""
    text = ""
    try:
        text = files.text(f"{zone.path}/energy_uj")
        int(text)
    except OSError as error:
        return errno_name(error)
    except ValueError:
        return f"{text!r}, which is no number"
    return ""


def choose_zones(zones: Sequence[Zone], answer: Callable[[Zone], str]) -> tuple[tuple[Zone, ...], dict[Zone, str]]:
    """Choose the packages and their memory: `core` and `uncore` lie in a package, `psys` includes packages."""
    chosen: list[Zone] = []
    refused: dict[Zone, str] = {}

    def take(zone: Zone) -> bool:
        if text := answer(zone):
            refused[zone] = text
        else:
            chosen.append(zone)
        return not text

    for twins in _packages(zones):
        group = next((group for group in twins if not any(map(answer, group))), twins[0])
        packages = {package.id for package in group if take(package)}
        # A twin may lack the memory that lies in the first one, and that may be readable though its package is not.
        memory = ([zone for zone in zones if zone.name == "dram" and zone.parent == p.id] for g in twins for p in g)
        of_group = [zone for zone in zones if zone.name == "dram" and zone.parent in packages]
        for zone in (of_group or next(filter(None, memory), [])) if packages else []:
            take(zone)
    return tuple(chosen), refused


def preferred(zones: Sequence[Zone]) -> list[Zone]:
    """Return those of the first backend that has any: the others read the same registers."""
    found = ([zone for zone in zones if zone.backend == backend] for backend in _BACKENDS)
    return next(filter(None, found), [])


def _nodes(folder: Path) -> Iterator[Path]:
    """Real paths of the control types and zones in `folder`; links that dangle, and unreadable folders, hold none."""
    try:
        entries = sorted(entry for entry in folder.iterdir() if _NODE.fullmatch(entry.name))
    except OSError:
        return  # where there are no zones at all, the diagnosis looks for the reason
    for entry in entries:
        if entry.is_dir():
            yield entry.resolve()


def _zone(path: str, files: Files) -> Zone | None:
    try:
        name = files.text(f"{path}/name")
    except OSError:
        return None  # a zone without a name cannot be placed in the sum
    try:
        max_uj = int(files.text(f"{path}/max_energy_range_uj"))
    except (OSError, ValueError):
        max_uj = 0
    return Zone(path=path, name=name, max_uj=max_uj if max_uj > 0 else None)


def _packages(zones: Sequence[Zone]) -> Iterator[list[list[Zone]]]:
    """For each package the zones that read it, grouped by backend, the preferred one first; by package number."""
    numbers = {}
    for zone in zones:
        if match := _PACKAGE.fullmatch(zone.name):
            numbers[zone.name] = (int(match[1]), int(match[2] or 0))
    for name in sorted(numbers, key=lambda name: numbers[name]):
        groups = ([zone for zone in zones if (zone.name, zone.backend) == (name, backend)] for backend in _BACKENDS)
        yield [group for group in groups if group]


ROOT_VARIABLE = "HWPERF_POWERCAP_ROOT"
ROOTS = ("sys/devices/virtual/powercap", "sys/class/powercap")

_X86 = {"x86_64", "amd64", "i386", "i686"}
_ELSE = "Energy can only be estimated here, from CPU time."
_DENIED = {"EACCES", "EPERM"}

# The rule has not been tried on every distribution; docs/meters.md says so.
_ADMIT = """\
  sudo groupadd -f rapl && sudo usermod -aG rapl "$USER"      # then log in again
  echo 'ACTION=="add|change", SUBSYSTEM=="powercap", KERNEL=="intel-rapl*:*", RUN+="/bin/chgrp rapl /sys%p/energy_uj", \
RUN+="/bin/chmod g+r /sys%p/energy_uj"' | sudo tee /etc/udev/rules.d/70-rapl.rules
  sudo udevadm control --reload-rules && sudo udevadm trigger --subsystem-match=powercap --action=add"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemAccess:
    """How the machine is looked at; a test replaces any part."""

    root: str = "/"  # parent of sys, proc and the marks of container runtimes
    system: str = field(default_factory=platform.system)
    architecture: str = field(default_factory=platform.machine)
    files: Files = SYSTEM

    @property
    def flags(self) -> frozenset[str]:
        """The processor's flags: `hypervisor` in a virtual machine, `sgx` where energy is reported with noise."""
        return frozenset(read_processor(self.root).get("flags", "").split())

    def zones(self, environ: Mapping[str, str]) -> tuple[Zone, ...]:
        """Return the zones of the first place that holds any; the environment variable replaces the usual places."""
        asked = environ.get(ROOT_VARIABLE)
        roots = [asked] if asked else [str(Path(self.root, place)) for place in ROOTS]
        return next(filter(None, (find_zones(root, self.files) for root in roots)), ())


def why_not_here(access: SystemAccess) -> str:
    """Return why there can be no RAPL on such a machine, "" where there can."""
    if access.system != "Linux":
        return f"RAPL is read on Linux only, this is {access.system}. {_ELSE}"
    if access.architecture.lower() not in _X86:
        return f"RAPL is a counter of x86 processors, this one is {access.architecture}. {_ELSE}"
    return ""


def why_no_zones(access: SystemAccess, environ: Mapping[str, str]) -> str:
    """Return why no zone was found."""
    if asked := environ.get(ROOT_VARIABLE):  # nothing else was looked at
        return f"{ROOT_VARIABLE}={asked} holds no RAPL zone: name a folder that holds intel-rapl, or unset it."
    if "hypervisor" in access.flags:  # before containers: a virtual machine may have their marks too
        return (
            "The hypervisor of this virtual machine hides RAPL, and nothing inside the guest can switch it on. "
            f"Measure on bare metal, or on a QEMU host with -accel kvm,rapl=true. {_ELSE}"
        )
    if _is_masked(access):
        return (
            "The container runtime hides /sys/devices/virtual/powercap. Start the container with "
            "-v /sys/devices/virtual/powercap:/host/powercap:ro -e HWPERF_POWERCAP_ROOT=/host/powercap, "
            "and make energy_uj readable on the host."
        )
    return (
        "There are no powercap zones. Load the driver: sudo modprobe intel_rapl_msr "
        "(for AMD too, from Linux 5.11 on; some distributions ship it in linux-modules-extra)."
    )


def why_unreadable(refused: Mapping[Zone, str], *, any_chosen: bool) -> str:
    """Return why zones that were found cannot be added up, "" where those that can be read make a sum.

    A zone that only lacks a permission is never left out: the remedy is to grant it, and the sum would hide energy.
    A zone whose firmware gives no value has no remedy.
    """
    denied = [zone.path for zone, answer in refused.items() if answer in _DENIED]
    if denied:
        return (
            f"Only root can read {denied[0]}/energy_uj (CVE-2020-8694). An administrator can let a group read it, by "
            "the commands of docs/meters.md. Its readers can observe power side channels: grant a "
            f"group, not everyone.\n{_ADMIT}"
        )
    if any_chosen:
        return ""
    if refused:
        return f"{' '.join(left_out(zone, answer) for zone, answer in refused.items())} Nothing is left to read."
    return f"The powercap tree holds no package zone, and its other zones are no substitute. {_ELSE}"


def left_out(zone: Zone, answer: str) -> str:
    """Return the warning that a zone without a value is missing from the sum."""
    return f"{zone.id} ({zone.name}) answers {answer}: the firmware gives no value, so the zone is left out."


def _is_masked(access: SystemAccess) -> bool:
    """Whether this is a container: links to hidden folders, or the marks of a container runtime."""
    links = Path(access.root, ROOTS[1])
    try:
        hidden = any(link.is_symlink() and not link.exists() for link in links.iterdir())
    except FileNotFoundError:
        hidden = False
    except OSError:  # a folder that everybody may read elsewhere
        hidden = True
    return hidden or any(Path(access.root, mark).exists() for mark in (".dockerenv", "run/.containerenv"))
