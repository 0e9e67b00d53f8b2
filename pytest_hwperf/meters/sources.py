"""Sources of energy: why each is refused, row by row, and how the counters of processors are opened."""

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.counter_check import Check, CounterCheck
from pytest_hwperf.meters.counters import CounterMeter, Counters, busy_here, errno_name
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.records.units import show

ROOT_VARIABLE = "HWPERF_POWERCAP_ROOT"
ROOTS = ("sys/devices/virtual/powercap", "sys/class/powercap")
_TICKS = 100  # in a window: an error of one of them is 1 %
_SHORTEST_S = 0.5  # where twelve windows of a steady load agree within 1 %
_SHORTEST_NOISY_S = 1.0  # with SGX the firmware adds noise against side channels
_LONGEST_S = 10.0  # of a window that a test can wait for; five are needed

_COARSE_UJ = 10**15

_X86_64 = {"x86_64", "amd64"}
_X86 = {*_X86_64, "i386", "i686"}
_DENIED = (errno.EACCES, errno.EPERM)
_PARANOID = "proc/sys/kernel/perf_event_paranoid"

S = TypeVar("S")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a look for a source of energy has found."""

    access: Access
    environ: Mapping[str, str] = field(default_factory=dict)
    zones: Sequence[Zone] = ()  # of RAPL: all of them
    chosen: Sequence[Zone] = ()  # to add up
    silent: Mapping[Zone, str] = field(default_factory=dict)  # that would be added up, with what they answer instead
    error: OSError | None = None  # of the power PMU

    @property
    def asked(self) -> str:
        """The folder that the user has named: nothing else was looked at."""
        return self.environ.get(ROOT_VARIABLE, "")

    @property
    def is_virtual(self) -> bool:
        return "hypervisor" in self.access.flags

    @property
    def is_masked(self) -> bool:
        """Whether this is a container: links to hidden folders, or the marks of a container runtime."""
        links = Path(self.access.root, ROOTS[1])
        try:
            hidden = any(link.is_symlink() and not link.exists() for link in links.iterdir())
        except FileNotFoundError:
            hidden = False
        except OSError:  # a folder that everybody may read elsewhere
            hidden = True
        return hidden or any(Path(self.access.root, mark).exists() for mark in (".dockerenv", "run/.containerenv"))

    @property
    def denied(self) -> str:
        """The first zone that lacks a permission."""
        names = [errno.errorcode[number] for number in _DENIED]
        return next((zone.path for zone, answer in self.silent.items() if answer in names), "")

    @property
    def silences(self) -> list[str]:
        """A warning for each zone without a value, which is missing from the sum."""
        no_value = "the firmware gives no value, so the zone is left out."
        return [f"{zone.id} ({zone.name}) answers {answer}: {no_value}" for zone, answer in self.silent.items()]

    @property
    def answer(self) -> str:
        """What the power PMU answers."""
        return errno_name(self.error) if self.error else ""

    @property
    def paranoid(self) -> str:
        """The setting of the kernel that says who may count events."""
        try:
            return Path(self.access.root, _PARANOID).read_text(encoding="ascii").strip()
        except OSError as unreadable:
            return f"not readable: {unreadable.strerror}"

    @property
    def is_granted(self) -> bool:
        return self.paranoid.lstrip("-").isdecimal() and int(self.paranoid) <= 0


_ELSE = "Energy can only be estimated here, from CPU time."
_NEEDS = "The power PMU needs CAP_PERFMON or kernel.perf_event_paranoid <= 0 (now {at.paranoid})."
# The rule has not been tried on every distribution; docs/meters.md says so.
_ADMIT = """\
  sudo groupadd -f rapl && sudo usermod -aG rapl "$USER"      # then log in again
  echo 'ACTION=="add|change", SUBSYSTEM=="powercap", KERNEL=="intel-rapl*:*", RUN+="/bin/chgrp rapl /sys%p/energy_uj", \
RUN+="/bin/chmod g+r /sys%p/energy_uj"' | sudo tee /etc/udev/rules.d/70-rapl.rules
  sudo udevadm control --reload-rules && sudo udevadm trigger --subsystem-match=powercap --action=add"""

# Sources, test and sentence; the first whose test holds is the reason. A zone that only lacks a permission is never
# left out: the remedy is to grant it, and the sum would hide energy. Of firmware that gives no value there is none.
_REFUSALS: tuple[tuple[str, Callable[[Looked], object], str], ...] = (
    ("rapl, psys", lambda at: at.access.system != "Linux",
        "RAPL is read on Linux only, this is {at.access.system}. " + _ELSE),
    ("rapl, psys", lambda at: at.access.architecture.lower() not in _X86,
        "RAPL is a counter of x86 processors, this one is {at.access.architecture}. " + _ELSE),
    ("rapl, psys", lambda at: not at.zones and at.asked,
        ROOT_VARIABLE + "={at.asked} holds no RAPL zone: name a folder that holds intel-rapl, or unset it."),
    # Before containers: a virtual machine may have their marks too.
    ("rapl, psys", lambda at: not at.zones and at.is_virtual,
        "The hypervisor of this virtual machine hides RAPL, and nothing inside the guest can switch it on. "
        "Measure on bare metal, or on a QEMU host with -accel kvm,rapl=true. " + _ELSE),
    ("rapl, psys", lambda at: not at.zones and at.is_masked,
        ("The container runtime hides /sys/devices/virtual/powercap. Start the container with "
        "-v /sys/devices/virtual/powercap:/host/powercap:ro -e HWPERF_POWERCAP_ROOT=/host/powercap, "
        "and make energy_uj readable on the host.")),
    ("rapl, psys", lambda at: not at.zones,
        ("There are no powercap zones. Load the driver: sudo modprobe intel_rapl_msr "
        "(for AMD too, from Linux 5.11 on; some distributions ship it in linux-modules-extra).")),
    ("rapl, psys", lambda at: at.denied,
        "Only root can read {at.denied}/energy_uj (CVE-2020-8694). An administrator can let a group read it, by "
        "the commands of docs/meters.md. Its readers can observe power side channels: grant a group, not everyone.\n"
        + _ADMIT),
    ("rapl, psys", lambda at: at.silent and not at.chosen, "{silences} Nothing is left to read."),
    ("rapl", lambda at: not at.chosen,
        "The powercap tree holds no package zone, and its other zones are no substitute. " + _ELSE),
    ("psys", lambda at: not at.chosen, "This machine has no psys zone; ask for rapl: packages and memory."),
    ("psys", lambda at: len(at.chosen) > 1,
        "{chosen} are all called psys, and whether they add up is not known. Ask for rapl."),
    ("psys", lambda at: at.chosen[0].is_coarse,
        "{chosen} (psys) counts in steps of 1 J here: too coarse. Ask for rapl."),
    ("perf", lambda at: at.access.system != "Linux", "The power PMU is a part of Linux, this is {at.access.system}."),
    ("perf", lambda at: at.access.architecture.lower() not in _X86_64,
        "The power PMU is read on x86-64 only, this processor is {at.access.architecture}."),
    ("perf without events", lambda at: at.is_virtual,
        ("The hypervisor of this virtual machine hides the power PMU, and nothing inside the guest can switch it "
        "on. Measure on bare metal.")),
    ("perf without events", lambda _: True,
        ("This kernel offers no power PMU. Load its driver: sudo modprobe rapl (kernels before 5.8: intel_rapl_perf; "
        "AMD from Linux 5.8 on).")),
    ("perf refused", lambda at: at.error and at.error.errno not in _DENIED,
        "The power PMU answers {at.answer} when it is opened."),
    ("perf refused", lambda at: at.is_granted,
        _NEEDS + " It is: then a container's seccomp profile forbids the call; start it with --cap-add PERFMON."),
    ("perf refused", lambda _: True, _NEEDS),
)  # fmt: skip


def why_refused(source: str, looked: Looked) -> str:
    """Return why a source cannot be read, "" where it can."""
    for sources, applies, text in _REFUSALS:
        if source in sources.split(", ") and applies(looked):
            chosen = " and ".join(zone.id for zone in looked.chosen)
            return text.format(at=looked, chosen=chosen, silences=" ".join(looked.silences))
    return ""


def processor_meter(
    kind: str,
    sources: Sequence[S],
    open_counters: Callable[[Sequence[S]], Counters],
    *,
    ids_of: Callable[[S], Sequence[str]],
    access: Access,
    warnings: Sequence[str],
) -> CounterMeter:
    """Open and check the counters of a processor's `sources`; open them again without those that report nonsense.

    A source counts if the registers that `ids_of` names are sound: its own, and that of what contains it. One that
    shows the register of another source is left out by itself: what it contains may be read nowhere else.
    """
    counters, seen, faults = _open_checked(sources, open_counters, access.check, ids_of)
    noisy = "sgx" in access.flags
    sgx = ["this processor has SGX: its firmware may add noise to the energy counters"] if noisy else []
    try:
        shortest_s = _shortest_window(seen.tick_s, _SHORTEST_NOISY_S if noisy else _SHORTEST_S)
    except MeterUnavailable:
        counters.close()
        raise
    return CounterMeter(
        counters=counters,
        kind=kind,
        tick_s=seen.tick_s,
        spins=seen.spins,
        shortest_window_s=shortest_s,
        warnings=(*warnings, *faults, *sgx),
        busy=busy_here,
        clock=access.clock,
        suspended=access.suspended,
    )


def _open_checked(
    sources: Sequence[S],
    open_counters: Callable[[Sequence[S]], Counters],
    check: Check,
    ids_of: Callable[[S], Sequence[str]],
) -> tuple[Counters, CounterCheck, tuple[str, ...]]:
    """Return the open counters, the check of them, and why others are left out."""
    counters = open_counters(sources)
    seen = _checked(counters, check)
    faults = seen.faults()
    copies = seen.copies()
    if not faults and not copies:
        return counters, seen, ()
    counters.close()
    sound = (source for source in sources if not faults.keys() & set(ids_of(source)))
    counters = open_counters([source for source in sound if ids_of(source)[0] not in copies])
    if not any(register.never_idle for register in counters.registers):
        counters.close()
        raise MeterUnavailable(f"{' '.join(faults.values())} Nothing is left to read.")
    return counters, _checked(counters, check), (*faults.values(), *copies.values())


def _checked(counters: Counters, check: Check) -> CounterCheck:
    try:
        return check(counters)
    except MeasurementError as error:
        counters.close()
        raise MeterUnavailable(f"The counters could be opened and not be read: {error}.") from error


def _shortest_window(tick_s: float, least_s: float) -> float:
    """Return the length, in s, from which a window is exact within 1 %, but not less than `least_s`."""
    if _TICKS * tick_s > _LONGEST_S:
        raise MeterUnavailable(
            f"The counters move every {show(tick_s, 's')} only: a window exact within 1 % would take "
            f"{show(_TICKS * tick_s, 's')}, more than {show(_LONGEST_S, 's')}."
        )
    return max(least_s, _TICKS * tick_s)
