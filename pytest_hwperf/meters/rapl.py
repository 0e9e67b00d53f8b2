"""Energy of processor packages and their memory, from the RAPL counters in powercap."""

import math
import os
from collections.abc import Mapping, Sequence
from functools import partial

from pytest_hwperf.meters.access import SYSTEM, Access, Files
from pytest_hwperf.meters.counters import CounterMeter, HeldCounters, Register, hold_open, refusal_warnings
from pytest_hwperf.meters.powercap import Zone, choose_zones, preferred, refusal, zones_of
from pytest_hwperf.meters.sources import Looked, processor_meter, why_refused
from pytest_hwperf.records.errors import MeterUnavailable

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
