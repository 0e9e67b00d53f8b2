"""Why this machine's RAPL cannot be read, and what to do about it: the first cause that applies is given."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.host.machine import read_processor
from pytest_hwperf.meters.energy.powercap import SYSTEM, Files, Zone, find_zones

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
