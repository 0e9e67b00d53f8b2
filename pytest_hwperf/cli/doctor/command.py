"""`hwperf doctor`: what can be measured on this machine, what makes it noisy, and what to do about either."""

import argparse
import json
import shutil
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pytest_hwperf import registry
from pytest_hwperf.cli.doctor.abilities import ESTIMATE, KNOWN_SOURCES, CallClock, CpuTime, Memory, Source
from pytest_hwperf.cli.doctor.conditions import facts_of
from pytest_hwperf.cli.doctor.findings import ABILITIES, Findings, Probes, collect_findings, plain_data, render_peaks
from pytest_hwperf.cli.doctor.noise import Noise, pair_for, read_noise, render_noise
from pytest_hwperf.cli.output import clear_progress, complain, progress_line, say_lines
from pytest_hwperf.host.disturbance import control_groups, snapshot
from pytest_hwperf.records.budgets import nearest_or_all
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.text import visible
from pytest_hwperf.records.units import counted

NARROWEST, WIDEST = 80, 100

Labelled = tuple[str, str, Sequence[str]]  # of a table: label, text, notes


def fitting_width(columns: int) -> int:
    """Return the width to write for on a terminal of so many columns."""
    return min(WIDEST, max(NARROWEST, columns))


def render(found: Findings, width: int) -> Iterator[str]:
    """Yield the lines of the text; control characters in what was read are escaped."""
    machine = found.machine
    heading = (
        f"{machine.cpu_model}, {counted(machine.cores, 'core')} allotted, {machine.memory_gb} GB, {machine.system}, "
        f"{machine.python}"
    )
    yield from paragraph(visible(heading), width)
    yield from ("", "Energy")
    yield from table(_energy_lines(found.energy), width)
    if found.zones:
        yield from ("", "RAPL zones")
        yield from table([_line(zone.id, str(zone)) for zone in found.zones], width)
    yield from ("", "Memory and time")
    yield from table(_ability_lines(found), width)
    yield from ("", "What makes timings noisy")
    facts = facts_of(found.conditions)
    yield from table([_line(fact.label, fact.value, filter(None, [fact.judgement])) for fact in facts], width)
    if found.peaks is not None:
        yield from ("", "What numpy reaches, by which --hwperf-operators says what limits a call")
        yield from table([_line(*line) for line in render_peaks(found.peaks)], width)
    if found.noise is not None:
        yield from ("", "Noise now")
        for text in render_noise(found.noise):
            yield from paragraph(visible(text), width, lead="  ", indent=2)


def paragraph(text: str, width: int, *, lead: str = "", indent: int = 0) -> Iterator[str]:
    """Wrap a text after `lead`; its further lines begin at `indent`.

    Lines after the first are commands to be copied: they are never wrapped.
    """
    first, *commands = text.splitlines() or [""]
    rest = " " * indent
    yield from textwrap.wrap(
        first, width, initial_indent=lead, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [lead.rstrip()]
    yield from (f"{rest}{command}" for command in commands)


def table(lines: Sequence[Labelled], width: int) -> Iterator[str]:
    """Write a label, a text and notes below it for each line; the texts are aligned."""
    indent = 4 + max((len(label) for label, _, _ in lines), default=0)
    for label, text, notes in lines:
        yield from paragraph(text, width, lead=f"  {label}".ljust(indent), indent=indent)
        for note in notes:
            yield from paragraph(note, width, lead=f"{' ' * indent}- ", indent=indent + 2)


def _line(label: str, text: str, notes: Iterable[str] = ()) -> Labelled:
    return visible(label), visible(text), [*map(visible, notes)]


def _energy_lines(sources: Mapping[str, Source]) -> list[Labelled]:
    lines, first_with = list[Labelled](), dict[str, str]()
    for name, source in sources.items():
        first = first_with.setdefault(source.reason, name)
        label = _marked(name, sources, available=source.available)
        if source.available:
            lines.append(_line(label, str(source), source.warnings))
        else:  # further lines of the reason stay apart: they are commands to be copied
            reason = source.reason if first == name else f"as {first}"
            lines.append((visible(label), "\n".join(map(visible, reason.split("\n"))), []))
    return lines


def _ability_lines(found: Findings) -> list[Labelled]:
    abilities: dict[str, Memory | CpuTime | CallClock] = {
        "memory": found.memory,
        "CPU time": found.cpu,
        "clock": found.clock,
    }
    return [
        _line(_marked(name, abilities, available=one.available), str(one), getattr(one, "warnings", ()))
        for name, one in abilities.items()
    ]


def _marked(name: str, names: Iterable[str], *, available: bool) -> str:
    """Write yes or no behind a name, aligned with the other names."""
    return f"{name:<{max(map(len, names))}}  {'yes' if available else 'no'}"


OK, MISSING = 0, 1
_AN_HOUR_S = 3600.0


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    doctor = commands.add_parser(
        "doctor",
        help="show what this machine can measure, and what makes it noisy",
        description="Look for energy counters, memory peaks, clocks and everything that disturbs timings; then let "
        "equal processes take turns, to see how noisy this machine is now. Exit code 1: an ability named by "
        "--require is missing.",
    )
    doctor.add_argument("--json", action="store_true", help="the same facts as plain data")
    doctor.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="ABILITY,…",
        help="energy (measured, not the estimate), memory, cpu, clock, or a source of energy such as rapl; repeatable",
    )
    doctor.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        metavar="N",
        help="for the noise reading; 0 skips it and the speed of numpy; default: 20",
    )
    doctor.set_defaults(run=run)


def run(
    options: argparse.Namespace, probes: Probes | None = None, noise: Callable[[float], Noise] | None = None
) -> int:
    """Examine the machine, print the findings, and return the exit code; `noise` is read for so many seconds."""
    required = parse_required(options.require)
    if not 0 <= options.seconds <= _AN_HOUR_S:
        raise UsageProblem(f"--seconds={options.seconds:g}: a number from 0 up to an hour, such as 20")
    probes = probes or Probes()
    found = collect_findings(probes)
    if options.seconds:
        found = replace(found, peaks=probes.peaks(found.machine), noise=(noise or _noise)(options.seconds))
    if options.json:
        say_lines(json.dumps(plain_data(found, required), indent=1, allow_nan=False))  # which escapes all but ASCII
    else:
        say_lines("\n".join(render(found, fitting_width(shutil.get_terminal_size().columns))))
    missing = [name for name in required if not found.abilities[name]]
    if missing:
        complain(f"required and missing here: {', '.join(missing)}")
    return MISSING if missing else OK


def parse_required(given: Sequence[str], registered: Collection[str] | None = None) -> list[str]:
    """Return the abilities named by --require, each once."""
    sources = registry.names("energy_meters") if registered is None else registered
    allowed = list(dict.fromkeys([*ABILITIES, *KNOWN_SOURCES, *sources, ESTIMATE]))
    names = list(dict.fromkeys(name.strip() for words in given for name in words.split(",")))
    for name in names:
        if name not in allowed:
            raise UsageProblem(f"--require={name}: unknown ability {name!r}.{nearest_or_all(name, allowed)}")
    return names


def _noise(seconds: float) -> Noise:
    line = progress_line()
    pairs = pair_for(seconds, lambda progress: line.show(f"equal processes take turns: {progress.stage}"))
    noise = read_noise(pairs, partial(snapshot, groups=tuple(control_groups())))
    clear_progress()
    return noise
