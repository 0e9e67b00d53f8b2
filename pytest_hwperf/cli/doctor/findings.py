"""Everything that `hwperf doctor` finds on a machine, as records and as plain data."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pytest_hwperf.cli.doctor.abilities import (
    CallClock,
    CpuTime,
    Memory,
    Open,
    RaplZone,
    Source,
    open_source,
    read_call_clock,
    read_cpu_time,
    read_memory,
    read_sources,
    read_zones,
)
from pytest_hwperf.cli.doctor.conditions import Conditions, Threads, facts_of, read_conditions, read_threads
from pytest_hwperf.cli.doctor.noise import Noise
from pytest_hwperf.host.clocks import ClockPrecision, cpu_time_step, observe_clock
from pytest_hwperf.host.disturbance import SystemState, read_system_state
from pytest_hwperf.host.machine import count_usable_cores, describe_machine
from pytest_hwperf.host.peaks import measure_peaks, save_peaks
from pytest_hwperf.meters.access import Access
from pytest_hwperf.records.run import Machine
from pytest_hwperf.records.units import counted, show_amount
from pytest_hwperf.records.work import PeakRate
from pytest_hwperf.scenarios.threads import limit_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPeaks:
    """What was measured, and where it is kept."""

    rates: tuple[PeakRate, ...]  # by threads
    kept: str  # path of the file, "" where it could not be written
    reason: str = ""  # why not


def keep_peaks(machine: Machine) -> KeptPeaks:
    """Measure with one thread, with all allotted cores and with the powers of two between, and keep the result."""
    peaks = measure_peaks(thread_counts(machine.cores), limit_threads)
    try:
        return KeptPeaks(rates=peaks.rates, kept=str(save_peaks(machine, peaks)))
    except OSError as error:
        return KeptPeaks(rates=peaks.rates, kept="", reason=f"{error.strerror} ({error.filename})")


def thread_counts(cores: int) -> list[int]:
    """Return 1, 2, 4 … and the number of cores."""
    return sorted({*(1 << power for power in range(cores.bit_length()) if 1 << power <= cores), max(1, cores)})


def render_peaks(found: KeptPeaks) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line."""
    for rate in found.rates:
        product, triad = show_amount(rate.flops_per_s, "FLOP/s"), show_amount(rate.bytes_per_s, "B/s")
        yield counted(rate.threads, "thread"), f"{product} by a float32 matrix product, {triad} by a triad in memory"
    yield "kept", found.kept or f"no: {found.reason}"


WHAT = "pytest-hwperf doctor"
_SCHEMA = 1  # grows when a key goes or changes its meaning
ABILITIES = ("energy", "memory", "cpu", "clock")  # besides the sources of energy by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """How the machine is examined; a test replaces any part."""

    access: Access = field(default_factory=Access)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    open_one: Open = open_source
    usable: Callable[[], int] = count_usable_cores
    online: Callable[[], int] = lambda: os.cpu_count() or 1
    clock: Callable[[], ClockPrecision] = observe_clock
    cpu_step: Callable[[], float | None] = cpu_time_step
    system: Callable[[str], SystemState] = read_system_state
    threads: Callable[[Mapping[str, str]], Threads] = read_threads
    peaks: Callable[[Machine], KeptPeaks] = keep_peaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that was found."""

    machine: Machine
    energy: Mapping[str, Source]  # by name, best first
    zones: tuple[RaplZone, ...]
    memory: Memory
    cpu: CpuTime
    clock: CallClock
    conditions: Conditions
    noise: Noise | None = None  # None = not read
    peaks: KeptPeaks | None = None  # None = not measured

    @property
    def abilities(self) -> dict[str, bool]:
        """Whether the machine has each; `energy` is that of the processors, measured."""
        return {
            # boards count `energy` too where they were asked for by name
            "energy": any(source.available and source.covers == "processors" for source in self.energy.values()),
            "memory": self.memory.available,
            "cpu": self.cpu.available,
            "clock": self.clock.available,
            **{name: source.available for name, source in self.energy.items()},
        }


def collect_findings(probes: Probes) -> Findings:
    """Examine everything but the noise; takes a second or two, to watch counters and import libraries."""
    access = probes.access
    machine = describe_machine(access.root, probes.environ, usable=probes.usable)
    return Findings(
        machine=machine,
        energy=read_sources(probes.open_one),
        zones=read_zones(access, probes.environ),
        memory=read_memory(access),
        cpu=read_cpu_time(probes.cpu_step),
        clock=read_call_clock(probes.clock, access.root),
        conditions=read_conditions(
            access,
            usable=probes.usable(),
            online=probes.online(),
            allotted=machine.cores,
            threads=probes.threads(machine.threads),
            system=probes.system(access.root),
        ),
    )


def plain_data(found: Findings, required: Sequence[str]) -> dict[str, Any]:
    """Return the findings as plain data; null is what the system does not show."""
    machine = found.machine
    return {
        "what": WHAT,
        "schema": _SCHEMA,
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
        "judgements": {fact.key: fact.judgement for fact in facts_of(found.conditions) if fact.judgement},
        "noise": None if found.noise is None else asdict(found.noise),
        "peaks": None if found.peaks is None else _plain_peaks(found.peaks),
    }


def _plain_peaks(found: KeptPeaks) -> dict[str, Any]:
    rates = [
        {"threads": rate.threads, "flops_per_s": rate.flops_per_s, "bytes_per_s": rate.bytes_per_s}
        for rate in found.rates
    ]
    return {"rates": rates, "file": found.kept or None, "reason": found.reason}


def _plain_conditions(found: Conditions) -> dict[str, Any]:
    throttling, rate = found.throttling, asdict(found.rate)
    del rate["turbo_switch"], rate["turbo_off"]  # they stand in the judgement
    return {
        "virtual_machine": found.virtual,
        **rate,
        "governors": rate["governors"] or None,
        "cores_online": found.cores_online,
        "cores_usable": found.cores_usable,
        "cores_allotted": found.cores_allotted,
        "quota_cores": found.quota_cores,
        "quota_stopped_periods": None if throttling is None else throttling.periods,
        "quota_stopped_s": None if throttling is None else throttling.seconds,
        "memory_limit_bytes": found.memory_limit_bytes,
        **asdict(found.system),
        **asdict(found.threads),
    }
