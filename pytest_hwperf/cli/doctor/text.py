"""The findings as text in columns that reads well at 80 to 100 characters, without colour."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_hwperf.cli.doctor.abilities import CallClock, CpuTime, Memory, Source
from pytest_hwperf.cli.doctor.conditions import facts_of
from pytest_hwperf.cli.doctor.findings import Findings
from pytest_hwperf.cli.doctor.noise import render_noise
from pytest_hwperf.cli.doctor.peaks import render_peaks
from pytest_hwperf.core.foreign_text import visible
from pytest_hwperf.core.units import counted

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
