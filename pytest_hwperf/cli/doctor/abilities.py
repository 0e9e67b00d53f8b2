"""What can be measured on this machine: energy, memory, CPU time and calls, and why not where it cannot."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf import registry
from pytest_hwperf.host.clocks import ClockPrecision, clock_source
from pytest_hwperf.host.memory import resident, resolution
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.powercap import Zone, choose_zones, refusal, zones_of
from pytest_hwperf.records.contracts import Meter
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable, UsageProblem
from pytest_hwperf.records.units import show
from pytest_hwperf.stats.block_plans import BlockPlan

Open = Callable[[str], Meter]  # opens the energy source of that name

KNOWN_SOURCES = ("rapl", "perf", "nvml")  # listed even where they are not registered
ESTIMATE = "estimate"
_PLATFORMS = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}  # platform.system() → sys.platform
_COARSEST_S = 1e-6  # a step of the clock above this is a twentieth of the shortest call that is timed alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of energy."""

    available: bool
    measured: bool  # False for an estimate
    covers: str | None = None  # whose energy: "processors", "boards" or "estimate"; None where it is not available
    metric: str | None = None  # what it counts, as "energy" or "gpu_energy"; None where it is not available
    label: str | None = None  # shown with every figure
    tick_s: float | None = None  # time between two changes of the counter; None where it has none
    shortest_window_s: float | None = None  # shorter ones are refused
    warnings: tuple[str, ...] = ()
    reason: str = ""  # why it is not available, and the remedy

    def __str__(self) -> str:
        tick = "no steps" if self.tick_s is None else f"moves every {show(self.tick_s, 's')}"
        windows = f"from {show(self.shortest_window_s, 's')} on" if self.shortest_window_s else "of any length"
        return f"{self.label}: {tick}, windows {windows}" if self.available else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RaplZone:
    """A RAPL zone, used or not."""

    id: str
    name: str
    max_energy_range_uj: int | None
    answers: str  # why it cannot be read, as the errno's name; "" where it can
    role: str  # whether it is added up, and why not

    def __str__(self) -> str:
        return f"{self.name}, answers {self.answers}: {self.role}" if self.answers else f"{self.name}: {self.role}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """How memory peaks are measured."""

    available: bool
    reason: str = ""  # why not
    peak_source: str | None = None  # what a peak is read from
    present_source: str | None = None  # what the size at one moment is read from
    resettable: bool = False  # whether a peak can be reset; where not, another process measures what comes before it
    resolution_bytes: int | None = None  # by which a peak may be too low; None where it is not known
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        sources = f"peaks by {self.peak_source}, the size at one moment by {self.present_source}"
        return sources if self.available else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTime:
    """How finely CPU time is counted."""

    available: bool
    step_s: float | None  # None where it never moved

    def __str__(self) -> str:
        return "did not move" if self.step_s is None else f"in steps of {show(self.step_s, 's')} while one thread works"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallClock:
    """The clock that calls are timed with."""

    available: bool
    source: str | None  # the kernel's name of it
    step_s: float | None
    cost_s: float
    batched_below_s: float  # shorter calls are timed in batches

    def __str__(self) -> str:
        named = f"perf_counter ({self.source})" if self.source else "perf_counter"
        steps = "did not move" if self.step_s is None else f"steps of {show(self.step_s, 's')}"
        batched = f"calls below {show(self.batched_below_s, 's')} are timed in batches"
        return f"{named}: {steps}, {show(self.cost_s, 's')} a reading; {batched}"


def open_source(name: str, environ: Mapping[str, str] = os.environ) -> Meter:
    """Open an energy source as a run would."""
    if name not in registry.names("energy_meters"):
        raise MeterUnavailable("This installation has no such source: reinstall pytest-hwperf.")
    meter: Meter = registry.find("energy_meters", name)(environ, refused=())
    return meter


def read_sources(open_one: Open = open_source, registered: Iterable[str] | None = None) -> dict[str, Source]:
    """Try every source: the known ones, then third-party ones, the estimate last."""
    names = registry.names("energy_meters") if registered is None else registered
    others = (name for name in names if name != ESTIMATE)
    return {name: _source(name, open_one) for name in dict.fromkeys([*KNOWN_SOURCES, *others, ESTIMATE])}


def read_zones(access: Access, environ: Mapping[str, str]) -> tuple[RaplZone, ...]:
    """Return every RAPL zone, also those that are never added up."""
    zones = zones_of(access, environ)
    answers = {zone: refusal(zone, access.files) for zone in zones}
    chosen, _ = choose_zones(zones, answers.__getitem__)
    return tuple(
        RaplZone(
            id=zone.id,
            name=zone.name,
            max_energy_range_uj=zone.max_uj,
            answers=answers[zone],
            role="added up" if zone in chosen else _role(zone, answers[zone]),
        )
        for zone in zones
    )


def read_memory(access: Access) -> Memory:
    """Find how the memory of this process can be measured; its peak is reset by that."""
    try:
        held = resident(_PLATFORMS.get(access.system, access.system), Path(access.root, "proc/self"))
        _, present = held.now()
    except MeasurementError as error:
        return Memory(available=False, reason=str(error))
    return Memory(
        available=True,
        peak_source=held.source,
        present_source=present,
        resettable=not held.clear(),
        resolution_bytes=resolution() if access.system == "Linux" else None,
        warnings=held.warnings,
    )


def read_cpu_time(step: Callable[[], float | None]) -> CpuTime:
    """Observe the step of CPU time."""
    found = step()
    return CpuTime(available=found is not None, step_s=found)


def read_call_clock(observe: Callable[[], ClockPrecision], root: str) -> CallClock:
    """Observe the clock."""
    seen = observe()
    return CallClock(
        available=seen.step_s is not None and seen.step_s <= _COARSEST_S,
        source=clock_source(root),
        step_s=seen.step_s,
        cost_s=seen.cost_s,
        batched_below_s=BlockPlan().batch_below_s,
    )


def _source(name: str, open_one: Open) -> Source:
    measured = name != ESTIMATE
    try:
        meter = open_one(name)
    except (MeterUnavailable, MeasurementError, UsageProblem) as error:  # a wrong setting of one concerns no other
        return Source(available=False, measured=measured, reason=str(error))
    except ImportError as error:  # of a third-party source
        return Source(available=False, measured=measured, reason=f"It cannot be loaded: {error}.")
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
        )
    finally:
        meter.close()


def _role(zone: Zone, answer: str) -> str:
    if zone.name == "psys":
        return "refused: it counts in steps of 1 J" if zone.is_coarse else "never added: it includes packages"
    if zone.name in ("core", "uncore"):
        return "never added: it lies inside its package"
    if answer:
        return "not added: it gives no value"
    if zone.name == "dram" or zone.name.startswith("package-"):
        return "not added: it repeats another zone"
    return "not added: it is not known what it counts"
