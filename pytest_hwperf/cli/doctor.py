"""`hwperf doctor`: what can be measured on this machine, what makes it noisy, and what to do about either."""

import argparse
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_hwperf import registry
from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli import doctor_noise as noisy
from pytest_hwperf.cli.doctor_noise import Fact, Noise, listen, read_threads, render_noise
from pytest_hwperf.cli.output import FAILED, OK, complain, say_lines, show_document
from pytest_hwperf.host import disturbance
from pytest_hwperf.host.clocks import ClockPrecision, clock_source, cpu_time_step, observe_clock
from pytest_hwperf.host.disturbance import SystemState, read_system_state
from pytest_hwperf.host.machine import count_usable_cores, describe_machine, lacking, measure_peaks, save_peaks
from pytest_hwperf.host.memory import resident, resolution
from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.rapl import choose_zones, refusal, repeating, zones_of
from pytest_hwperf.meters.sources import Zone
from pytest_hwperf.records.contracts import Meter
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable, UsageProblem
from pytest_hwperf.records.markers import nearest_or_all
from pytest_hwperf.records.run import Machine
from pytest_hwperf.records.units import counted, show, show_amount
from pytest_hwperf.reports.document import Block, Listing, Paragraph, Title, Titled
from pytest_hwperf.runtimes.threads import limit_threads
from pytest_hwperf.stats.pairs.timetable import BlockPlan

ABILITIES = ("energy", "memory", "cpu", "clock")  # besides the sources of energy by name
KNOWN_SOURCES = ("rapl", "perf", "nvml")  # listed even where they are not registered
ESTIMATE = "estimate"
_SCHEMA = 1  # of the data; grows when a key goes or changes its meaning
_AN_HOUR_S = 3600.0
_WIDEST = 100
_PLATFORMS = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}  # platform.system() → sys.platform
_COARSEST_S = 1e-6  # a step of the clock above this is a twentieth of the shortest call that is timed alone

Open = Callable[[str], Meter]  # opens the energy source of that name
Findings = Mapping[str, Sequence[Fact]]  # section → what was found


def open_source(name: str, environ: Mapping[str, str] = os.environ) -> Meter:
    """Open an energy source as a run would."""
    if name not in registry.names("energy_meters"):
        raise MeterUnavailable("This installation has no such source: reinstall pytest-hwperf.")
    meter: Meter = registry.find("energy_meters", name)(environ, refused=())
    return meter


def _missing(platform: str) -> list[Fact]:
    lacks = lacking(platform)
    return [Fact("platform", "not on this system", {"warnings": lacks}, "")] if lacks else []


def keep_peaks(machine: Machine) -> list[Fact]:
    """Measure what numpy reaches with one thread, all allotted cores and the powers of two between, and keep it."""
    cores = max(1, machine.cores)
    peaks = measure_peaks(sorted({*(1 << power for power in range(cores.bit_length())), cores}), limit_threads)
    facts = list[Fact]()
    for rate in peaks.rates:
        product, triad = show_amount(rate.flops_per_s, "FLOP/s"), show_amount(rate.bytes_per_s, "B/s")
        value = {"threads": rate.threads, "flops_per_s": rate.flops_per_s, "bytes_per_s": rate.bytes_per_s}
        text = f"{product} by a float32 matrix product, {triad} by a triad in memory"
        facts.append(Fact("rates", counted(rate.threads, "thread"), value, text))
    try:
        file, reason = str(save_peaks(machine, peaks)), ""
    except OSError as error:
        file, reason = "", f"{error.strerror} ({error.filename})"
    return [*facts, Fact("kept", "kept", {"file": file or None, "reason": reason}, file or f"no: {reason}")]


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
    threads: Callable[[Mapping[str, str]], Mapping[str, Any]] = read_threads
    peaks: Callable[[Machine], list[Fact]] = keep_peaks


def collect_findings(probes: Probes, machine: Machine) -> Findings:
    """Examine everything but noise and peaks; takes a second or two, to watch counters and import libraries."""
    access, online, cores = probes.access, probes.online(), machine.cores
    root, flags = access.root, access.flags
    stopped = disturbance.read_throttling(disturbance.control_groups(root))
    step_s = probes.cpu_step()
    steps = "did not move" if step_s is None else f"in steps of {show(step_s, 's')} while one thread works"
    return {
        "energy": read_sources(probes.open_one),
        "rapl_zones": read_zones(access, probes.environ),
        "abilities": [
            read_memory(access),
            Fact("cpu", "CPU time", {"available": step_s is not None, "step_s": step_s}, steps),
            read_call_clock(probes.clock(), clock_source(root)),
        ],
        "conditions": [
            *noisy.processor(disturbance.read_clock_rate(root), virtual="hypervisor" in flags if flags else None),
            *noisy.allotment(probes.usable(), online, cores, disturbance.cpu_quota(root), stopped),
            *noisy.memory_and_load(disturbance.memory_limit(root), probes.system(root), online),
            *noisy.libraries(probes.threads(machine.threads), cores),
            *_missing(_PLATFORMS.get(access.system, "")),
        ],
    }


def sources_of(registered: Iterable[str] | None = None) -> list[str]:
    """Name every source: the known ones, then third-party ones, the estimate last."""
    names = registry.names("energy_meters") if registered is None else registered
    return list(dict.fromkeys([*KNOWN_SOURCES, *(name for name in names if name != ESTIMATE), ESTIMATE]))


def read_sources(open_one: Open = open_source, registered: Iterable[str] | None = None) -> list[Fact]:
    """Try every source."""
    return [_source(name, open_one) for name in sources_of(registered)]


def _source(name: str, open_one: Open) -> Fact:
    """Try one source of energy; what it covers tells the energy of processors from that of boards."""
    value: dict[str, Any] = {"available": False, "measured": name != ESTIMATE}
    value |= dict.fromkeys(("covers", "metric", "label", "tick_s", "shortest_window_s"))
    value |= {"warnings": (), "reason": ""}
    try:
        meter = open_one(name)
    except (MeterUnavailable, MeasurementError, UsageProblem, ImportError) as error:  # one concerns no other
        reason = f"It cannot be loaded: {error}." if isinstance(error, ImportError) else str(error)
        return Fact(name, name, value | {"reason": reason}, reason)
    with closing(meter):
        shortest, tick_s = meter.shortest_window_s, getattr(meter, "tick_s", None)
        value |= {
            "available": True,
            "measured": name != ESTIMATE and meter.covers != "estimate",
            "covers": meter.covers,
            "metric": meter.metric,
            "label": meter.source,
            "tick_s": tick_s,  # time between two changes of the counter; None where it has none
            "shortest_window_s": shortest,  # shorter ones are refused
            "warnings": tuple(meter.warnings),
        }
        tick = "no steps" if tick_s is None else f"moves every {show(tick_s, 's')}"
        windows = f"from {show(shortest, 's')} on" if shortest else "of any length"
        return Fact(name, name, value, f"{meter.source}: {tick}, windows {windows}")


def read_zones(access: Access, environ: Mapping[str, str]) -> list[Fact]:
    """Return every RAPL zone, also those that are never added up."""
    answers = {zone: refusal(zone, access.files) for zone in zones_of(access, environ)}
    chosen, _ = choose_zones([*answers], answers.__getitem__)
    copies = repeating(chosen, access)
    facts = list[Fact]()
    for zone, answer in answers.items():
        role = "added up" if zone in chosen and zone not in copies else _role(zone, answer)
        value = {"id": zone.id, "name": zone.name, "max_energy_range_uj": zone.max_uj, "answers": answer, "role": role}
        facts.append(Fact(zone.id, zone.id, value, f"{zone.name}{answer and f', answers {answer}'}: {role}"))
    return facts


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


def read_memory(access: Access) -> Fact:
    """Find how the memory of this process can be measured; its peak is reset by that."""
    value: dict[str, Any] = {"available": False, "reason": "", "peak_source": None, "present_source": None}
    value |= {"resettable": False, "resolution_bytes": None, "warnings": ()}
    try:
        held = resident(_PLATFORMS.get(access.system, access.system), Path(access.root, "proc/self"))
        _, present = held.now()
    except MeasurementError as error:
        return Fact("memory", "memory", value | {"reason": str(error)}, str(error))
    value |= {"available": True, "peak_source": held.source, "present_source": present, "warnings": held.warnings}
    value["resettable"] = not held.clear()  # where not, another process measures what comes before the peak
    if access.system == "Linux":
        value["resolution_bytes"] = resolution()  # by which a peak may be too low
    return Fact("memory", "memory", value, f"peaks by {held.source}, the size at one moment by {present}")


def read_call_clock(seen: ClockPrecision, source: str | None) -> Fact:
    """Report the clock that calls are timed with; `source` is the kernel's name of it."""
    below_s = BlockPlan().batch_below_s
    value: dict[str, Any] = {"available": seen.step_s is not None and seen.step_s <= _COARSEST_S, "source": source}
    value |= {"step_s": seen.step_s, "cost_s": seen.cost_s, "batched_below_s": below_s}
    named = f"perf_counter ({source})" if source else "perf_counter"
    steps = "did not move" if seen.step_s is None else f"steps of {show(seen.step_s, 's')}"
    batched = f"calls below {show(below_s, 's')} are timed in batches"
    return Fact("clock", "clock", value, f"{named}: {steps}, {show(seen.cost_s, 's')} a reading; {batched}")


def abilities_of(found: Findings) -> dict[str, bool]:
    """Return whether the machine has each; `energy` is that of the processors, measured."""
    sources = found["energy"]
    return {
        # boards count `energy` too where they were asked for by name
        "energy": any(one.value["available"] and one.value["covers"] == "processors" for one in sources),
        **{one.key: one.value["available"] for one in (*found["abilities"], *sources)},
    }


def plain_data(machine: Machine, found: Findings, noise: Noise | None, required: Sequence[str]) -> dict[str, Any]:
    """Return the findings as plain data; null is what the system does not show."""
    abilities, conditions, peaks = abilities_of(found), found["conditions"], found.get("peaks")
    names = ("cpu_model", "architecture", "memory_gb", "system", "python", "fingerprint")
    return {
        "what": "pytest-hwperf doctor",
        "schema": _SCHEMA,
        "machine": {"cores_allotted": machine.cores, **{name: getattr(machine, name) for name in names}},
        "abilities": abilities,
        "required": {name: abilities[name] for name in required},
        "energy": {one.key: one.value for one in found["energy"]},
        "rapl_zones": [one.value for one in found["rapl_zones"]],
        **{{"cpu": "cpu_time"}.get(one.key, one.key): one.value for one in found["abilities"]},
        "conditions": {name: value for one in conditions for name, value in one.value.items()},
        "judgements": {one.key: one.judgement for one in conditions if one.judgement},
        "noise": None if noise is None else asdict(noise),
        "peaks": None if peaks is None else {"rates": [one.value for one in peaks[:-1]], **peaks[-1].value},
    }


def document_of(machine: Machine, found: Findings, noise: Noise | None) -> Iterator[Block]:
    """Yield what is printed of the findings, a section each."""
    yield Paragraph(
        f"{machine.cpu_model}, {counted(machine.cores, 'core')} allotted, {machine.memory_gb} GB, {machine.system}, "
        f"{machine.python}"
    )
    listed = {
        "Energy": _abilities(found["energy"]),
        "RAPL zones": _rows(found["rapl_zones"]),
        "Memory and time": _abilities(found["abilities"]),
        "What makes timings noisy": _rows(found["conditions"]),
        "What numpy reaches, by which --hwperf-operators says what limits a call": _rows(found.get("peaks", ())),
    }
    for title, rows in listed.items():
        if rows:
            yield from (Title(title), Listing(rows))
    if noise is not None:
        yield Title("Noise now")
        yield from (Paragraph(text, 1) for text in render_noise(noise))


def _rows(facts: Iterable[Fact]) -> list[Titled]:
    return [Titled(one.label, one.text, one.notes) for one in facts]


def _abilities(facts: Sequence[Fact]) -> list[Titled]:
    """Say yes or no of each; the same reason is given once, and commands in it stay whole."""
    rows, first_with = list[Titled](), dict[str, str]()
    longest = max(len(one.label) for one in facts)
    for one in facts:
        is_there = one.value["available"]
        title = f"{one.label:<{longest}}  {'yes' if is_there else 'no'}"
        first = one.key if is_there else first_with.setdefault(one.text, one.key)
        text, *commands = [one.text] if is_there else (one.text if first == one.key else f"as {first}").split("\n")
        rows.append(Titled(title, text, one.notes, commands))
    return rows


def run(options: argparse.Namespace, probes: Probes | None = None, noise: Callable[[float], Noise] = listen) -> int:
    """Examine the machine, print the findings, and return the exit code; `noise` is read for so many seconds."""
    required = parse_required(options.require)
    if not 0 <= options.seconds <= _AN_HOUR_S:
        raise UsageProblem(f"--seconds={options.seconds:g}: a number from 0 up to an hour, such as 20")
    probes, heard = probes or Probes(), None
    machine = describe_machine(probes.access.root, probes.environ, usable=probes.usable)
    found = collect_findings(probes, machine)
    if options.seconds:
        found = {**found, "peaks": probes.peaks(machine)}
        heard = noise(options.seconds)
    if options.json:  # which escapes all but ASCII
        say_lines(json.dumps(plain_data(machine, found, heard, required), indent=1, allow_nan=False))
    else:
        show_document(document_of(machine, found, heard), _WIDEST)
    abilities = abilities_of(found)
    missing = [name for name in required if not abilities[name]]
    if missing:
        complain(f"required and missing here: {', '.join(missing)}")
    return FAILED if missing else OK


def parse_required(given: Sequence[str], registered: Collection[str] | None = None) -> list[str]:
    """Return the abilities named by --require, each once."""
    allowed = [*ABILITIES, *sources_of(registered)]
    names = list(dict.fromkeys(name.strip() for words in given for name in words.split(",")))
    for name in names:
        if name not in allowed:
            raise UsageProblem(f"--require={name}: unknown ability {name!r}.{nearest_or_all(name, allowed)}")
    return names


_ARGUMENTS = (
    arg.flag("--json", "print the facts as JSON"),
    arg.several("--require", "ABILITY,…", "require energy, memory, cpu, clock or an energy source, e.g. rapl"),
    arg.option("--seconds", "N", "measure noise for this long; 0 skips it and numpy's speed", type=float, default=20.0),
)
COMMAND = arg.Subcommand(
    "doctor",
    run,
    "show the meters and the noise of this machine",
    _ARGUMENTS,
    "Look for energy counters, memory peaks, clocks and sources of noise. Then measure the speed of numpy, and compare "
    "equal processes to see the noise of this machine now.",
    answers={0: "shown", 1: "an ability of --require is missing"},
)
