"""Everything that `hwperf doctor` found on a machine, as text and as plain data."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_hwperf.cli.doctor.abilities import (
    CallClock,
    CpuTime,
    Memory,
    Open,
    Source,
    ZoneSeen,
    describe_clock,
    describe_cpu_time,
    describe_memory,
    describe_source,
    open_source,
    read_call_clock,
    read_cpu_time,
    read_memory,
    read_sources,
    read_zones,
)
from pytest_hwperf.cli.doctor.conditions import Conditions, Threads, read_conditions, read_threads, rows_of
from pytest_hwperf.cli.doctor.layout import paragraph, table
from pytest_hwperf.cli.doctor.noise import Noise, render_noise
from pytest_hwperf.core.records import Machine
from pytest_hwperf.core.units import counted
from pytest_hwperf.host.clocks import Clock, cpu_time_step, watch_clock
from pytest_hwperf.host.machine import count_usable, describe
from pytest_hwperf.meters.energy.diagnosis import Host
from pytest_hwperf.reports.cells import visible

WHAT = "pytest-hwperf doctor"
SCHEMA = 1  # grows when a key goes or changes its meaning
ABILITIES = ("energy", "memory", "cpu", "clock")  # beside the sources of energy by name


Line = tuple[str, str, Sequence[str]]  # of a table: label, text, notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The machine to look at; every part can be another's."""

    host: Host = field(default_factory=Host)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    open_one: Open = open_source
    usable: Callable[[], int] = count_usable
    online: Callable[[], int] = lambda: os.cpu_count() or 1
    clock: Callable[[], Clock] = watch_clock
    cpu_step: Callable[[], float | None] = cpu_time_step
    threads: Callable[[Mapping[str, str]], Threads] = read_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that was found."""

    machine: Machine
    energy: Mapping[str, Source]  # by name, best first
    zones: tuple[ZoneSeen, ...]
    memory: Memory
    cpu: CpuTime
    clock: CallClock
    conditions: Conditions
    noise: Noise | None = None  # None = not read

    @property
    def abilities(self) -> dict[str, bool]:
        """Whether the machine has each; `energy` is that of the processors, measured."""
        return {
            "energy": any(map(_of_processors, self.energy.values())),
            "memory": self.memory.available,
            "cpu": self.cpu.available,
            "clock": self.clock.available,
            **{name: source.available for name, source in self.energy.items()},
        }


def examine(place: Place) -> Findings:
    """Look at everything but the noise; takes a second or two, for counters that are watched and libraries imported."""
    machine = describe(place.host.root, place.environ, usable=place.usable)
    return Findings(
        machine=machine,
        energy=read_sources(place.open_one),
        zones=read_zones(place.host, place.environ),
        memory=read_memory(place.host),
        cpu=read_cpu_time(place.cpu_step),
        clock=read_call_clock(place.clock, place.host.root),
        conditions=read_conditions(
            place.host,
            usable=place.usable(),
            online=place.online(),
            allotted=machine.cores,
            threads=place.threads(machine.threads),
        ),
    )


def render(found: Findings, width: int) -> Iterator[str]:
    """Yield the lines of the text, in which nothing that was read is obeyed by a terminal."""
    machine = found.machine
    here = (
        f"{machine.cpu_model}, {counted(machine.cores, 'core')} allotted, {machine.memory_gb} GB, {machine.system}, "
        f"{machine.python}"
    )
    yield from paragraph(visible(here), width)
    yield from ("", "Energy")
    yield from table(_energy_rows(found.energy), width)
    if found.zones:
        yield from ("", "RAPL zones")
        yield from table([_line(zone.id, _told_zone(zone)) for zone in found.zones], width)
    yield from ("", "Memory and time")
    yield from table(_measuring_rows(found), width)
    yield from ("", "What makes timings noisy")
    rows = rows_of(found.conditions)
    yield from table([_line(row.label, row.value, filter(None, [row.judgement])) for row in rows], width)
    if found.noise is not None:
        yield from ("", "Noise now")
        for text in render_noise(found.noise):
            yield from paragraph(visible(text), width, lead="  ", indent=2)


def plain(found: Findings, required: Sequence[str]) -> dict[str, Any]:
    """Return the same as plain data; null is what the system does not show."""
    machine = found.machine
    return {
        "what": WHAT,
        "schema": SCHEMA,
        "machine": {
            "cpu_model": machine.cpu_model,
            "architecture": machine.architecture,
            "cores_allotted": machine.cores,
            "memory_gb": machine.memory_gb,
            "system": machine.system,
            "python": machine.python,
            "fingerprint": machine.fingerprint,
        },
        "abilities": found.abilities,
        "required": {name: found.abilities[name] for name in required},
        "energy": {name: asdict(source) for name, source in found.energy.items()},
        "rapl_zones": [asdict(zone) for zone in found.zones],
        "memory": asdict(found.memory),
        "cpu_time": asdict(found.cpu),
        "clock": asdict(found.clock),
        "conditions": _plain_conditions(found.conditions),
        "judgements": {row.key: row.judgement for row in rows_of(found.conditions) if row.judgement},
        "noise": None if found.noise is None else asdict(found.noise),
    }


def _of_processors(source: Source) -> bool:
    """Whether it measures the processors; boards tell `energy` too where they were asked for by name."""
    return source.available and source.covers == "processors"


def _line(label: str, text: str, notes: Iterable[str] = ()) -> Line:
    return visible(label), visible(text), [*map(visible, notes)]


def _refused(label: str, reason: str, notes: Iterable[str] = ()) -> Line:
    """As `_line`, but further lines of the reason stay: they are commands to be copied."""
    return visible(label), "\n".join(map(visible, reason.split("\n"))), [*map(visible, notes)]


def _energy_rows(sources: Mapping[str, Source]) -> list[Line]:
    rows, told_by = list[Line](), dict[str, str]()
    for name, source in sources.items():
        same = told_by.setdefault(source.reason, name)
        label = _marked(name, sources, available=source.available)
        if source.available:
            rows.append(_line(label, describe_source(source), source.warnings))
        else:
            rows.append(_refused(label, source.reason if same == name else f"as {same}", source.warnings))
    return rows


def _told_zone(zone: ZoneSeen) -> str:
    named = f"{zone.name}, answers {zone.answers}" if zone.answers else zone.name
    return f"{named}: {zone.role}"


def _measuring_rows(found: Findings) -> list[Line]:
    memory = describe_memory(found.memory) if found.memory.available else found.memory.reason
    parts: dict[str, tuple[bool, str, Sequence[str]]] = {
        "memory": (found.memory.available, memory, found.memory.warnings),
        "CPU time": (found.cpu.available, describe_cpu_time(found.cpu), ()),
        "clock": (found.clock.available, describe_clock(found.clock), ()),
    }
    return [_line(_marked(name, parts, available=there), text, notes) for name, (there, text, notes) in parts.items()]


def _marked(name: str, names: Iterable[str], *, available: bool) -> str:
    """Write yes or no behind a name, aligned below each other."""
    return f"{name:<{max(map(len, names))}}  {'yes' if available else 'no'}"


def _plain_conditions(found: Conditions) -> dict[str, Any]:
    rate, stops, system, threads = found.rate, found.quota_stops, found.system, found.threads
    return {
        "virtual_machine": found.virtual,
        "governors": list(rate.governors) or None,
        "turbo": rate.turbo,
        "sibling_threads": rate.smt,
        "clock_rate_hz": rate.now_hz,
        "highest_clock_rate_hz": rate.most_hz,
        "heat_throttle_count": rate.throttled,
        "cores_online": found.cores_online,
        "cores_usable": found.cores_usable,
        "cores_allotted": found.cores_allotted,
        "quota_cores": found.quota_cores,
        "quota_stopped_periods": None if stops is None else stops.periods,
        "quota_stopped_s": None if stops is None else stops.seconds,
        "memory_limit_bytes": found.memory_limit_bytes,
        "load_1min": system.load_1min,
        "steal_share": system.steal,
        "swap_bytes": system.swap_bytes,
        "swap_used_bytes": system.swap_used_bytes,
        "huge_pages": system.huge_pages,
        "blas_threads": dict(threads.blas),
        "onnxruntime_version": threads.onnxruntime_version,
        "onnxruntime_default_threads": threads.onnxruntime_default,
        "onnxruntime_scenario_threads": threads.onnxruntime_scenario,
        "thread_settings": dict(threads.settings),
    }
