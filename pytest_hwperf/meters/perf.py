"""Energy of processor packages and their memory, from the `power` PMU of Linux perf.

The registers are those of RAPL; who may not read powercap may have been given the right to count events.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from pytest_hwperf.meters.access import Access
from pytest_hwperf.meters.counters import CounterMeter, HeldCounters, Register, hold_open, refusal_warnings
from pytest_hwperf.meters.sources import Looked, processor_meter, why_refused
from pytest_hwperf.records.errors import MeterUnavailable

FOLDER = "sys/bus/event_source/devices/power"
PACKAGE = "energy-pkg"
# Package and memory, as RAPL is summed: cores and graphics lie inside a package, psys includes packages.
_NAMES = {PACKAGE: "pkg", "energy-ram": "ram"}
_CONFIG = re.compile(r"event=(0x[0-9a-fA-F]+|\d+)")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One counter of one package."""

    register: Register
    kind: int  # the number of the PMU
    config: int  # the number of the event
    cpu: int  # which stands for its package


def find_events(root: str) -> tuple[Event, ...]:
    """Return package and memory of every package, by package; () where there is no such PMU."""
    folder = Path(root, FOLDER)
    if not folder.is_dir():
        return ()
    kind = _parsed(folder / "type", _natural, "the number of the PMU was expected")
    cpus = _parsed(
        folder / "cpumask", lambda text: parse_cpus(text) or None, "a list of CPUs was expected, one for each package"
    )
    described = {name: _described(folder / "events" / name) for name in _NAMES if (folder / "events" / name).exists()}
    if PACKAGE not in described:
        raise MeterUnavailable(f"The power PMU has no event {PACKAGE}, and its others are no substitute.")
    return tuple(
        Event(register=_register(name, cpu, joules), kind=kind, config=config, cpu=cpu)
        for cpu in cpus
        for name, (config, joules) in described.items()
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the numbers of a kernel's CPU list: `0,18` or `0-1`; () for an empty one."""
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


def _register(name: str, cpu: int, joules: float) -> Register:
    # The kernel widens the counter to 64 bits, which last for centuries. An idle package draws power, memory may not.
    return Register(id=f"{name} of CPU {cpu}", name=_NAMES[name], joules=joules, last=None, never_idle=name == PACKAGE)


def _described(event: Path) -> tuple[int, float]:
    """Return the number of an event and the joules of one count."""
    match = _parsed(event, _CONFIG.fullmatch, "event=0x02 or the like was expected")
    _parsed(event.with_name(f"{event.name}.unit"), lambda text: text == "Joules" or None, "only Joules are understood")
    scale = event.with_name(f"{event.name}.scale")
    return int(match[1], 0), _parsed(scale, _positive, "the joules of one count were expected")


def _natural(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _positive(text: str) -> float | None:
    return value if 0 < (value := float(text)) < math.inf else None


def _parsed(path: Path, parse: Callable[[str], T | None], expected: str) -> T:
    """Return what a file holds; `parse` returns nothing, or raises ValueError, of what cannot be used."""
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise MeterUnavailable(f"{path} cannot be read: {error.strerror}.") from error
    with suppress(ValueError):
        if (found := parse(text)) is not None:
            return found
    raise MeterUnavailable(f"{path} holds {text!r}: {expected}.")


_BYTES = 8  # of one count


def perf_counters(events: Sequence[Event], access: Access) -> HeldCounters:
    """Open events, which count from now on."""

    def count(descriptor: int) -> int:
        answer = access.read_event(descriptor, _BYTES)
        if len(answer) != _BYTES:  # the kernel's end of file: the event is in error
            raise ValueError(f"{len(answer)} bytes, and a count has {_BYTES}")
        return int.from_bytes(answer, "little")

    return hold_open(
        {event.register: partial(access.open_event, event.kind, event.config, event.cpu) for event in events}, count
    )


def perf_meter(
    _environ: Mapping[str, str], *, refused: tuple[str, ...] = (), access: Access | None = None
) -> CounterMeter:
    """Open the energy events of this machine's packages and of the memory attached to them; `refused` is a warning."""
    access = access or Access()
    if reason := why_refused("perf", Looked(access=access)):
        raise MeterUnavailable(reason)
    events = find_events(access.root)
    if not events:
        raise MeterUnavailable(why_refused("perf without events", Looked(access=access)))
    opened, warnings = partial(perf_counters, access=access), refusal_warnings(refused)
    try:
        return processor_meter(
            "perf", events, opened, ids_of=lambda event: (event.register.id,), access=access, warnings=warnings
        )
    except OSError as error:
        raise MeterUnavailable(why_refused("perf refused", Looked(access=access, error=error))) from error
