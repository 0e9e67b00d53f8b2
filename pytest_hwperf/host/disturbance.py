"""What disturbed a measurement: other processes, a quota, heat. It explains noise and corrects nothing."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from pytest_hwperf.host.clocks import interruptions
from pytest_hwperf.host.files import read_text
from pytest_hwperf.records.messages import Statement, state

# Idle, waiting for disks, and what a hypervisor took are not work; guest time is a part of user time already.
_BUSY = ("user", "nice", "system", "irq", "softirq", "interrupt", "dpc")
_GUEST = ("guest", "guest_nice")
_CHOSEN = re.compile(r"\[(\w+)\]")


class MachineCpuTime(NamedTuple):
    """Seconds of all CPUs since the system started, in steps of 10 ms."""

    busy_s: float
    stolen_s: float | None  # that the host of a virtual machine gave to others; None where it is not counted
    total_s: float  # of all states


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemState:
    """What the system reports; None where it does not."""

    load_1min: float | None  # running processes, mean of the last minute, of the whole machine
    steal_share: float | None  # of all CPU time since the start that the host gave to others
    swap_bytes: int | None  # of swap
    swap_used_bytes: int | None
    huge_pages: str | None  # transparent ones: "always", "madvise" or "never"


def machine_cpu_time() -> MachineCpuTime | None:
    """Return the CPU time of the whole machine, None where the system does not report it."""
    import psutil

    try:
        seconds = psutil.cpu_times()._asdict()
    except OSError:
        return None
    return MachineCpuTime(
        busy_s=sum(seconds.get(state, 0.0) for state in _BUSY),
        stolen_s=seconds.get("steal"),
        total_s=sum(spent for state, spent in seconds.items() if state not in _GUEST),
    )


def busy_cpu_seconds() -> float | None:
    """Return the seconds that all CPUs have worked, None where the system does not report them."""
    spent = machine_cpu_time()
    return spent and spent.busy_s


def load_average() -> float | None:
    """Return the mean number of running processes over the last minute, None where the system does not report it."""
    if sys.platform == "win32":  # psutil makes one up, which is 0 at first
        return None
    import psutil

    try:
        return float(psutil.getloadavg()[0])
    except OSError:
        return None


def read_system_state(root: str | Path = "/") -> SystemState:
    """Return the present state; nothing is waited for. `root` is the parent of /sys, the rest is told by psutil.

    Source: Linux, Documentation/admin-guide/mm/transhuge.rst.
    """
    import psutil

    spent = machine_cpu_time()
    try:
        with warnings.catch_warnings(action="ignore"):  # of psutil, that pages swapped in and out are not counted here
            swapped = psutil.swap_memory()
        total, used = swapped.total, swapped.used
    except OSError:
        total = used = None
    chosen = _CHOSEN.search(read_text(Path(root, "sys/kernel/mm/transparent_hugepage/enabled")))
    return SystemState(
        load_1min=load_average(),
        steal_share=spent.stolen_s / spent.total_s if spent and spent.stolen_s is not None and spent.total_s else None,
        swap_bytes=total,
        swap_used_bytes=used,
        huge_pages=chosen[1] if chosen else None,
    )


_NO_LIMIT = 2**60  # bytes; version 1 writes the largest number of whole pages


class Throttling(NamedTuple):
    """Counters of all groups together, since each was made."""

    periods: int  # in which a group had used up its quota
    seconds: float  # for which its CPUs then stood still, added up over CPUs


def control_groups(root: str | Path = "/", controller: str = "cpu") -> Iterator[Path]:
    """Yield the folders of the process's control groups and of all their parents, whether or not they exist.

    Version 1 mounts each controller in a folder of its own.
    """
    mounts = Path(root) / "sys/fs/cgroup"
    for line in read_text(Path(root) / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        places = [mounts / controllers, mounts / controller] if controllers else [mounts, mounts / "unified"]
        # In a container the path may be the host's: then only the top exists, and it is the container's own group.
        inner = Path(group.lstrip("/"))
        for place in dict.fromkeys(places):
            for folder in (inner, *inner.parents):
                yield place / folder


def cpu_quota(root: str | Path = "/") -> float | None:
    """Return the CPU time that the tightest control group grants, in cores; None where none has a limit.

    Source: cgroup v2 cpu.max, cgroup v1 cpu.cfs_quota_us and cpu.cfs_period_us.
    """
    quotas = list[float]()
    for group in control_groups(root):
        words = read_text(group / "cpu.max").split()
        if not words:  # version 1 keeps the two numbers in two files
            words = [read_text(group / name) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
        if all(word.isdecimal() and int(word) for word in words):  # no limit is `max`, or -1 in version 1
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_limit(root: str | Path = "/") -> int | None:
    """Return the bytes that the tightest control group grants; None where none has a limit.

    Source: cgroup v2 memory.max, cgroup v1 memory.limit_in_bytes, which has a number near 2^63 for no limit.
    """
    texts = (
        read_text(group / name)
        for group in control_groups(root, "memory")
        for name in ("memory.max", "memory.limit_in_bytes")
    )
    return min((int(text) for text in texts if text.isdecimal() and int(text) < _NO_LIMIT), default=None)


def read_throttling(groups: Iterable[Path]) -> Throttling | None:
    """Add up the throttling of `groups`; None where none counts it: no quota was ever set, or the system hides it."""
    found = list[tuple[int, float]]()
    for folder in dict.fromkeys(group.resolve() for group in groups):  # `cpu` may be a link to `cpu,cpuacct`
        pairs = (line.partition(" ") for line in read_text(folder / "cpu.stat").splitlines())
        fields = {name: int(count) for name, _, count in pairs if count.isdecimal()}
        if "nr_throttled" in fields:  # version 2 counts microseconds, version 1 nanoseconds
            seconds = fields.get("throttled_usec", 0) / 1e6 + fields.get("throttled_time", 0) / 1e9
            found.append((fields["nr_throttled"], seconds))
    return Throttling(sum(periods for periods, _ in found), sum(seconds for _, seconds in found)) if found else None


_CPUS = "sys/devices/system/cpu"
_CPU = re.compile(r"cpu\d+")
_KILO = 1000  # cpufreq is in kHz
# File, what it holds where turbo is on, and what turns turbo off.
_TURBO_SWITCHES = (("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRate:
    """What decides the clock rate."""

    governors: tuple[str, ...]  # the different ones of all CPUs, sorted; () = not shown
    turbo: bool | None  # whether the processor may run above its nominal rate
    turbo_switch: str  # the file that turns it off, as users see it, "" = none
    turbo_off: str  # what to write into it
    sibling_threads: bool | None  # whether two threads of a core are on
    clock_rate_hz: float | None  # of the CPU that runs fastest at this moment
    highest_clock_rate_hz: float | None  # of the fastest CPU, by its hardware
    heat_throttle_count: int | None  # slow-downs for heat or power since the machine started, of all CPUs


def read_clock_rate(root: str | Path = "/") -> ClockRate:
    """Return what is shown under `root`."""
    place = Path(root, _CPUS)
    switches = ((name, on, off, read_text(place / name)) for name, on, off in _TURBO_SWITCHES)
    known = ((text == on, f"/{_CPUS}/{name}", off) for name, on, off, text in switches if text in {on, off})
    turbo, switch, turn_off = next(known, (None, "", ""))
    return ClockRate(
        governors=tuple(sorted(set(_of_cpus(root, "cpufreq/scaling_governor")))),
        turbo=turbo,
        turbo_switch=switch,
        turbo_off=turn_off,
        sibling_threads={"1": True, "0": False}.get(read_text(place / "smt/active")),
        clock_rate_hz=current_hz(root),
        highest_clock_rate_hz=_fastest(root, "cpufreq/cpuinfo_max_freq"),
        heat_throttle_count=heat_events(root),
    )


def current_hz(root: str | Path = "/") -> float | None:
    """Return the rate of the CPU that runs fastest now: with one busy thread, the CPU of that thread."""
    return _fastest(root, "cpufreq/scaling_cur_freq")


def heat_events(root: str | Path = "/") -> int | None:
    """Return how often any CPU was slowed down for heat since the machine started; None where it is not counted.

    A package's events are counted by each of its CPUs, so that only growth means something, not its size.
    """
    names = ("core_throttle_count", "package_throttle_count")
    counts = [int(text) for name in names for text in _of_cpus(root, f"thermal_throttle/{name}") if text.isdecimal()]
    return sum(counts) if counts else None


def _fastest(root: str | Path, name: str) -> float | None:
    """Return the highest rate; drivers may also say `<unknown>`, or 0."""
    rates = (float(int(text) * _KILO) for text in _of_cpus(root, name) if text.isdecimal() and int(text))
    return max(rates, default=None)


def _of_cpus(root: str | Path, name: str) -> Iterator[str]:
    """Yield the content of the file of this name of each CPU that has it; of one that is offline it is unreadable."""
    try:
        cpus = [entry for entry in Path(root, _CPUS).iterdir() if _CPU.fullmatch(entry.name)]
    except OSError:
        return  # no such folder: another system
    yield from filter(None, (read_text(cpu / name) for cpu in cpus))


_HIGH_STEAL = 0.02  # share of all CPU time that the host gave to others
_HIGH_LOAD = 1.5  # running processes per core
_SWITCHES_PER_S = 50.0  # involuntary; one busy thread on 2 cores: 5 alone, 120 with three busy neighbours
_RATE_LOSS = 0.10  # of the clock rate, from before to after; a rise may be that of a processor waking up


class Snapshot(NamedTuple):
    """Counters at one moment; None where the system does not report them."""

    switches: int | None  # involuntary context switches of the measuring thread
    cpu: MachineCpuTime | None
    load: float | None  # mean of running processes over the last minute
    wall_s: float
    throttling: Throttling | None = None  # of this process's control groups, by a quota of CPU time
    heat: int | None = None  # events of all CPUs that were slowed down for heat
    hz: float | None = None  # of the CPU that ran fastest at this moment


def snapshot(root: str | Path = "/") -> Snapshot:
    """Read this machine's counters."""
    return Snapshot(
        switches=interruptions(of_thread=True),
        cpu=machine_cpu_time(),
        load=load_average(),
        wall_s=monotonic(),
        throttling=read_throttling(control_groups(root)),
        heat=heat_events(root),
        hz=current_hz(root),
    )


class Interference:
    """Compares two snapshots, taken before and after a measurement."""

    def __init__(self, read: Callable[[], Snapshot] | None = None, cores: int | None = None) -> None:
        """Take the first snapshot now, of this machine unless `read` takes another."""
        self._read = read or snapshot
        self._cores = cores or os.cpu_count() or 1
        self._before = self._read()

    def end(self) -> tuple[dict[str, str], tuple[Statement, ...]]:
        """Take the second snapshot; return entries for the run's context, and warnings about what was much."""
        before, after = self._before, self._read()
        seconds, seen = after.wall_s - before.wall_s, list[tuple[str, str, bool, Statement]]()
        if before.switches is not None and after.switches is not None:
            switches = after.switches - before.switches
            rate = switches / seconds if seconds > 0 else 0.0
            seen.append(("involuntary_switches", str(switches), rate > _SWITCHES_PER_S, state("preempted", times=rate)))
        if (load := after.load) is not None:
            much = load > _HIGH_LOAD * self._cores
            seen.append(("load_1min", f"{load:.2f}", much, state("load", load=load, cores=self._cores)))
        if before.cpu and after.cpu and before.cpu.stolen_s is not None and after.cpu.stolen_s is not None:
            total_s = after.cpu.total_s - before.cpu.total_s
            steal = (after.cpu.stolen_s - before.cpu.stolen_s) / total_s if total_s > 0 else 0.0
            seen.append(("steal", f"{steal:.1%}", steal > _HIGH_STEAL, state("steal", share=steal)))
        if before.throttling is not None and after.throttling is not None:
            periods = after.throttling.periods - before.throttling.periods
            stopped_s = after.throttling.seconds - before.throttling.seconds
            seen.append(("quota_stops", str(periods), periods > 0, state("quota", periods=periods, seconds=stopped_s)))
        if before.heat is not None and after.heat is not None:
            rises = after.heat - before.heat
            seen.append(("heat_throttles", str(rises), rises > 0, state("heat", rises=rises)))
        if before.hz and after.hz:
            then, now, fell = before.hz / 1e9, after.hz / 1e9, after.hz < before.hz * (1 - _RATE_LOSS)
            seen.append(
                ("clock_rate", f"{then:.2f} .. {now:.2f} GHz", fell, state("clock rate", before=then, after=now))
            )
        context = {name: text for name, text, _, _ in seen}
        return context, tuple(warning for _, _, is_much, warning in seen if is_much)
