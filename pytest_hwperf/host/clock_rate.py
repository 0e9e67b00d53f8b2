"""How fast the processor runs, and what may change that: governor, turbo, sibling threads, heat.

Everything is read where Linux shows it; what it does not show is None, never a guess. psutil reports one mean rate
of all CPUs, and neither governor, turbo nor heat.
Source: Linux, Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst,
Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.host.files import read_text

_CPUS = "sys/devices/system/cpu"
_CPU = re.compile(r"cpu\d+")
_HEAT_COUNTERS = ("core_throttle_count", "package_throttle_count")
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
    place = Path(root)
    turbo, switch, off = _turbo(place)
    return ClockRate(
        governors=tuple(sorted(set(_texts(place, "cpufreq/scaling_governor")))),
        turbo=turbo,
        turbo_switch=switch,
        turbo_off=off,
        sibling_threads={"1": True, "0": False}.get(read_text(place / _CPUS / "smt/active")),
        clock_rate_hz=current_hz(place),
        highest_clock_rate_hz=_fastest(place, "cpufreq/cpuinfo_max_freq"),
        heat_throttle_count=heat_events(place),
    )


def current_hz(root: str | Path = "/") -> float | None:
    """Return the rate of the CPU that runs fastest now: with one busy thread, the CPU of that thread."""
    return _fastest(Path(root), "cpufreq/scaling_cur_freq")


def heat_events(root: str | Path = "/") -> int | None:
    """Return how often any CPU was slowed down for heat since the machine started; None where it is not counted.

    A package's events are counted by each of its CPUs, so that only growth means something, not its size.
    """
    counts = [count for name in _HEAT_COUNTERS for count in _counts(Path(root), f"thermal_throttle/{name}")]
    return sum(counts) if counts else None


def _turbo(root: Path) -> tuple[bool | None, str, str]:
    """Return whether turbo is on, and how to turn it off: the file, and its content."""
    for name, on, off in _TURBO_SWITCHES:
        found = read_text(root / _CPUS / name)
        if found in {on, off}:
            return found == on, f"/{_CPUS}/{name}", off
    return None, "", ""


def _fastest(root: Path, name: str) -> float | None:
    rates = [count * _KILO for count in _counts(root, name) if count > 0]
    return float(max(rates)) if rates else None


def _counts(root: Path, name: str) -> list[int]:
    """Return the numbers; drivers may also say `<unknown>`."""
    return [int(text) for text in _texts(root, name) if text.isdecimal()]


def _texts(root: Path, name: str) -> Iterator[str]:
    """Yield the content of the file of this name of each CPU that has it; of one that is offline it is unreadable."""
    try:
        cpus = [entry for entry in (root / _CPUS).iterdir() if _CPU.fullmatch(entry.name)]
    except OSError:
        return  # no such folder: another system
    yield from filter(None, (read_text(cpu / name) for cpu in cpus))
