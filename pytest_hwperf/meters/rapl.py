"""Energy of processor packages and their memory, from the RAPL zones of a powercap tree: which add up, and meters.

Layout and names: Linux, Documentation/power/powercap/powercap.rst and drivers/powercap/intel_rapl_*.c.
"""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from pytest_hwperf.meters.access import SYSTEM, Access, Files
from pytest_hwperf.meters.counters import CounterMeter, HeldCounters, Register, errno_name, hold_open, refusal_warnings
from pytest_hwperf.meters.sources import ROOT_VARIABLE, ROOTS, Looked, Zone, processor_meter, why_refused
from pytest_hwperf.records.errors import MeasurementError, MeterUnavailable

# All three read the same registers: a later one is used where an earlier one is missing or cannot be read.
_BACKENDS = ("intel-rapl", "intel-rapl-tpmi", "intel-rapl-mmio")
# A control type, or a zone in it. The ids are hexadecimal: intel-rapl:a is the eleventh zone.
_NODE = re.compile(r"intel-rapl(?:-mmio|-tpmi)?(?::[0-9a-f]+)*")
_PACKAGE = re.compile(r"package-(\d+)(?:-die-(\d+))?")


def find_zones(root: str, files: Files = SYSTEM) -> tuple[Zone, ...]:
    """Return every zone under `root` once, whether its folders are nested or linked flat.

    Only `name` and `max_energy_range_uj` are read: constraints and power files answer errors on some machines.
    """
    zones: dict[str, Zone] = {}
    seen: set[Path] = set()
    pending = [Path(root)]
    while pending:
        for path in _nodes(pending.pop()):
            if path not in seen:
                seen.add(path)
                pending.append(path)
                if ":" in path.name and (zone := _zone(str(path), files)):
                    zones[zone.path] = zone
    return tuple(zones[path] for path in sorted(zones))


def refusal(zone: Zone, files: Files = SYSTEM) -> str:
    """Return why a zone's energy cannot be read: the errno's name or the odd text; "" where it can."""
    text = ""
    try:
        text = files.text(f"{zone.path}/energy_uj")
        int(text)
    except OSError as error:
        return errno_name(error)
    except ValueError:
        return f"{text!r}, which is no number"
    return ""


def choose_zones(zones: Sequence[Zone], answer: Callable[[Zone], str]) -> tuple[tuple[Zone, ...], dict[Zone, str]]:
    """Choose the packages and the memory, in a package or beside all of them.

    `core` and `uncore` lie in a package, and `psys` includes packages.
    """
    chosen: list[Zone] = []
    refused: dict[Zone, str] = {}

    def take(zone: Zone) -> bool:
        if text := answer(zone):
            refused[zone] = text
        else:
            chosen.append(zone)
        return not text

    for twins in _packages(zones):
        group = next((group for group in twins if not any(map(answer, group))), twins[0])
        packages = {package.id for package in group if take(package)}
        # A twin may lack the memory that lies in the first one, and that may be readable though its package is not.
        memory = ([zone for zone in zones if zone.name == "dram" and zone.parent == p.id] for g in twins for p in g)
        of_group = [zone for zone in zones if zone.name == "dram" and zone.parent in packages]
        for zone in (of_group or next(filter(None, memory), [])) if packages else []:
            take(zone)
    if chosen:  # memory alone is no substitute for packages
        for zone in preferred([zone for zone in zones if zone.name == "dram" and zone.parent == zone.backend]):
            take(zone)
    return tuple(chosen), refused


def preferred(zones: Sequence[Zone]) -> list[Zone]:
    """Return those of the first backend that has any: the others read the same registers."""
    found = ([zone for zone in zones if zone.backend == backend] for backend in _BACKENDS)
    return next(filter(None, found), [])


def _nodes(folder: Path) -> Iterator[Path]:
    """Real paths of the control types and zones in `folder`; links that dangle, and unreadable folders, hold none."""
    try:
        entries = sorted(entry for entry in folder.iterdir() if _NODE.fullmatch(entry.name))
    except OSError:
        return  # where there are no zones at all, the diagnosis looks for the reason
    for entry in entries:
        if entry.is_dir():
            yield entry.resolve()


def _zone(path: str, files: Files) -> Zone | None:
    try:
        name = files.text(f"{path}/name")
    except OSError:
        return None  # a zone without a name cannot be placed in the sum
    try:
        max_uj = int(files.text(f"{path}/max_energy_range_uj"))
    except (OSError, ValueError):
        max_uj = 0
    return Zone(path=path, name=name, max_uj=max_uj if max_uj > 0 else None)


def _packages(zones: Sequence[Zone]) -> Iterator[list[list[Zone]]]:
    """For each package the zones that read it, grouped by backend, the preferred one first; by package number."""
    numbers = {}
    for zone in zones:
        if match := _PACKAGE.fullmatch(zone.name):
            numbers[zone.name] = (int(match[1]), int(match[2] or 0))
    for name in sorted(numbers, key=lambda name: numbers[name]):
        groups = ([zone for zone in zones if (zone.name, zone.backend) == (name, backend)] for backend in _BACKENDS)
        yield [group for group in groups if group]


def zones_of(access: Access, environ: Mapping[str, str]) -> tuple[Zone, ...]:
    """Return the zones of the first place that holds any; the environment variable replaces the usual places."""
    asked = environ.get(ROOT_VARIABLE)
    roots = [asked] if asked else [str(Path(access.root, place)) for place in ROOTS]
    return next(filter(None, (find_zones(root, access.files) for root in roots)), ())


_WRAP_W = 1000.0  # no package draws more for long: sets how soon a counter may start again at 0
_LONGEST_UNKNOWN_S = 60.0  # without a readable range; the smallest usual one, 65.7 kJ, lasts 65 s at 1 kW
_MICRO = 1e-6  # J in a µJ


def powercap_counters(zones: Sequence[Zone], files: Files = SYSTEM) -> HeldCounters:
    def count(descriptor: int) -> int:
        answer = files.pread(descriptor, 32, 0)
        try:
            return int(answer)
        except ValueError:
            raise ValueError(f"{answer!r}, which is no number") from None

    return hold_open(
        {_register(zone): partial(files.open, f"{zone.path}/energy_uj", os.O_RDONLY) for zone in zones}, count
    )


def repeating(zones: Sequence[Zone], access: Access) -> list[Zone]:
    """Watch zones for a second at most, and return those that show the register of another one of them."""
    if len(zones) < 2:  # noqa: PLR2004 - one repeats nothing
        return []
    try:
        with closing(powercap_counters(zones, access.files)) as counters:
            copies = access.check(counters).copies()
    except (OSError, MeasurementError):  # the line of the source says why
        return []
    return [zone for zone in zones if zone.id in copies]


def rapl_meter(
    environ: Mapping[str, str], *, refused: tuple[str, ...] = (), access: Access | None = None
) -> CounterMeter:
    """Open the counters of this machine's packages and of the memory attached to them; `refused` is a warning.

    HWPERF_POWERCAP_ROOT in `environ` replaces the places where zones are looked for.
    """
    access = access or Access()
    zones = zones_of(access, environ)
    chosen, silent = choose_zones(zones, lambda zone: refusal(zone, access.files))
    looked = Looked(access=access, environ=environ, zones=zones, chosen=chosen, silent=silent)
    return _meter("rapl", looked, [*refusal_warnings(refused), *looked.silences])


def psys_meter(
    environ: Mapping[str, str], *, refused: tuple[str, ...] = (), access: Access | None = None
) -> CounterMeter:
    """Open the counter of the whole platform, which includes the packages: only on demand, and never added to them."""
    access = access or Access()
    zones = zones_of(access, environ)
    answers = {zone: refusal(zone, access.files) for zone in zones if zone.name == "psys"}
    chosen = preferred([zone for zone, answer in answers.items() if not answer])
    silent = {zone: answer for zone, answer in answers.items() if answer}
    looked = Looked(access=access, environ=environ, zones=zones, chosen=chosen, silent=silent)
    return _meter("psys", looked, refusal_warnings(refused))


def _meter(source: str, looked: Looked, warnings: Sequence[str]) -> CounterMeter:
    if reason := why_refused(source, looked):
        raise MeterUnavailable(reason)
    access = looked.access
    opened = partial(powercap_counters, files=access.files)
    try:  # memory of a package that is left out would look like the next one's
        return processor_meter(
            "rapl", looked.chosen, opened, ids_of=lambda zone: (zone.id, zone.parent), access=access, warnings=warnings
        )
    except OSError as error:
        raise MeterUnavailable(f"A counter could be read and not be held open: {error}.") from error


def _register(zone: Zone) -> Register:
    """Return the register of a zone; windows last half of the time in which it passes through its range at 1 kW."""
    last = zone.max_uj
    longest_s = _LONGEST_UNKNOWN_S if last is None else math.floor(last * _MICRO) / _WRAP_W / 2
    return Register(id=zone.id, name=zone.name, joules=_MICRO, last=last, never_idle=zone.is_whole, longest_s=longest_s)
