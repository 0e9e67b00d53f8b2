"""What can be measured on this machine, and why not where it cannot: energy, memory, CPU time, calls."""

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf import registry
from pytest_hwperf.core.contracts import Meter
from pytest_hwperf.core.errors import MeasurementError, MeterUnavailable, UsageProblem
from pytest_hwperf.core.units import show
from pytest_hwperf.host.clocks import Clock, clock_source
from pytest_hwperf.host.resident import resident, resolution
from pytest_hwperf.meters.energy.diagnosis import Host
from pytest_hwperf.meters.energy.powercap import Files, Zone, choose_zones, find_zones
from pytest_hwperf.pairs.interleaving import BlockPlan

Open = Callable[[str], Meter]  # opens the energy source of that name

KNOWN_SOURCES = ("rapl", "perf", "nvml")  # told of even where they are not registered
ESTIMATE = "estimate"
_COARSE_UJ = 10**15  # the range of counters that step by 1 J
_PLATFORMS = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}  # platform.system() → sys.platform
_COARSEST_S = 1e-6  # a step of the clock above this is a twentieth of the shortest call that is timed alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of energy."""

    available: bool
    measured: bool  # False for an estimate
    covers: str | None  # whose energy: "processors", "boards" or "estimate"
    metric: str | None  # what it counts, as "energy" or "gpu_energy"; None where it is not available
    label: str | None  # shown with every figure
    tick_s: float | None  # time between two changes of the counter; None where it has none
    shortest_window_s: float | None  # the smallest honest window
    warnings: tuple[str, ...]
    reason: str  # why it is not available, and the remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneSeen:
    """A RAPL zone that was found, used or not."""

    id: str
    name: str
    max_energy_range_uj: int | None
    answers: str  # what reading it answers: "" for a number, else the errno's name
    role: str  # whether it is added up, and why not


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """How peaks can be taken."""

    available: bool
    reason: str  # why not
    peak_source: str | None  # what a peak is read from
    present_source: str | None  # what the size at one moment is read from
    resettable: bool  # whether a peak can be forgotten: where not, a twin process tells what is there before
    resolution_bytes: int | None  # by which a peak may be low; None where the system does not say
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """How finely CPU time is told."""

    available: bool
    step_s: float | None  # None where it never moved


@dataclass(frozen=True, slots=True, kw_only=True)
class CallClock:
    """What calls are timed with."""

    available: bool
    source: str | None  # as the kernel calls it
    step_s: float | None
    cost_s: float
    batched_below_s: float  # calls that are shorter share a reading with others


def open_source(name: str, environ: Mapping[str, str] = os.environ) -> Meter:
    """Open an energy source as a run would.

    Raises:
        MeterUnavailable: it is not there; says why and what to do.
    """
    if name not in registry.names("energy_meters"):
        raise MeterUnavailable("This installation has no such source: reinstall pytest-hwperf.")
    meter: Meter = registry.find("energy_meters", name)(environ, refused=())
    return meter


def read_sources(open_one: Open = open_source, registered: Iterable[str] | None = None) -> dict[str, Source]:
    """Try every source: the known ones, then those of strangers, the estimate last."""
    names = registry.names("energy_meters") if registered is None else registered
    strangers = (name for name in names if name != ESTIMATE)
    return {name: _source(name, open_one) for name in dict.fromkeys([*KNOWN_SOURCES, *strangers, ESTIMATE])}


def read_zones(host: Host, environ: Mapping[str, str]) -> tuple[ZoneSeen, ...]:
    """Return every RAPL zone, also those that are never added up."""
    zones = next(filter(None, (find_zones(root, host.files) for root in host.powercap_roots(environ))), ())
    answers = {zone: _answer(zone, host.files) for zone in zones}
    chosen, _ = choose_zones(zones, answers.__getitem__)
    return tuple(
        ZoneSeen(
            id=zone.id,
            name=zone.name,
            max_energy_range_uj=zone.max_uj,
            answers=answers[zone],
            role="added up" if zone in chosen else _role(zone, answers[zone]),
        )
        for zone in zones
    )


def read_memory(host: Host) -> Memory:
    """Look how this process's own memory can be weighed; its peak so far is forgotten by that."""
    try:
        held = resident(_PLATFORMS.get(host.system, host.system), Path(host.root, "proc/self"))
        _, present = held.now()
    except MeasurementError as error:
        return Memory(
            available=False,
            reason=str(error),
            peak_source=None,
            present_source=None,
            resettable=False,
            resolution_bytes=None,
            warnings=(),
        )
    return Memory(
        available=True,
        reason="",
        peak_source=held.source,
        present_source=present,
        resettable=not held.clear(),
        resolution_bytes=resolution() if host.system == "Linux" else None,
        warnings=held.warnings,
    )


def read_cpu_time(step: Callable[[], float | None]) -> CpuTime:
    """Watch CPU time grow."""
    found = step()
    return CpuTime(available=found is not None, step_s=found)


def read_call_clock(watch: Callable[[], Clock], root: str) -> CallClock:
    """Watch the clock."""
    seen = watch()
    return CallClock(
        available=seen.step_s is not None and seen.step_s <= _COARSEST_S,
        source=clock_source(root),
        step_s=seen.step_s,
        cost_s=seen.cost_s,
        batched_below_s=BlockPlan().batch_below_s,
    )


def describe_source(source: Source) -> str:
    """Say what an available source is."""
    tick = "no steps" if source.tick_s is None else f"moves every {show(source.tick_s, 's')}"
    windows = f"from {show(source.shortest_window_s, 's')} on" if source.shortest_window_s else "of any length"
    return f"{source.label}: {tick}, windows {windows}"


def describe_memory(memory: Memory) -> str:
    """Say what peaks are read from."""
    return f"peaks by {memory.peak_source}, the size at one moment by {memory.present_source}"


def describe_cpu_time(cpu: CpuTime) -> str:
    """Say how finely CPU time is told."""
    return "did not move" if cpu.step_s is None else f"in steps of {show(cpu.step_s, 's')} while one thread works"


def describe_clock(clock: CallClock) -> str:
    """Say what timings rest on."""
    named = f"perf_counter ({clock.source})" if clock.source else "perf_counter"
    steps = "did not move" if clock.step_s is None else f"steps of {show(clock.step_s, 's')}"
    return (
        f"{named}: {steps}, {show(clock.cost_s, 's')} a reading; calls below {show(clock.batched_below_s, 's')} are "
        "timed in batches"
    )


def _source(name: str, open_one: Open) -> Source:
    measured = name != ESTIMATE
    try:
        meter = open_one(name)
    except (MeterUnavailable, MeasurementError, UsageProblem) as error:  # a bad setting of one says nothing of the rest
        return _missing(measured, str(error))
    except ImportError as error:  # a stranger's, whose library is not there
        return _missing(measured, f"It cannot be loaded: {error}.")
    try:
        return Source(
            available=True,
            measured=measured and meter.covers != "estimate",
            metric=meter.metric,
            covers=meter.covers,
            label=meter.source,
            tick_s=getattr(meter, "tick_s", None),
            shortest_window_s=meter.shortest_window_s,
            warnings=tuple(meter.warnings),
            reason="",
        )
    finally:
        meter.close()


def _missing(measured: bool, reason: str) -> Source:  # noqa: FBT001 - one of two kinds, named at both calls
    return Source(
        available=False,
        measured=measured,
        metric=None,
        covers=None,
        label=None,
        tick_s=None,
        shortest_window_s=None,
        warnings=(),
        reason=reason,
    )


def _answer(zone: Zone, files: Files) -> str:
    text = ""
    try:
        text = files.text(f"{zone.path}/energy_uj")
        int(text)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    except ValueError:
        return f"{text!r}, no number"
    return ""


def _role(zone: Zone, answer: str) -> str:
    if zone.name == "psys" and (zone.max_uj or 0) > _COARSE_UJ:
        return "refused: it counts in steps of 1 J"
    if zone.name == "psys":
        return "never added: it holds packages"
    if zone.name in ("core", "uncore"):
        return "never added: it lies inside its package"
    if answer:
        return "not added: it gives no value"
    if zone.name == "dram" or zone.name.startswith("package-"):
        return "not added: it repeats another zone"
    return "not added: what it holds is not known"
