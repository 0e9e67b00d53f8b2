"""Energy of processor packages and their memory, from the RAPL counters in powercap."""

import math
import os
from collections.abc import Mapping, Sequence
from functools import partial

from pytest_hwperf.meters.counter_check import Check, check_counters, open_checked, processor_meter
from pytest_hwperf.meters.counters import CounterMeter, DescriptorCounters, Register, refusal_warnings
from pytest_hwperf.meters.powercap import (
    SYSTEM,
    Files,
    SystemAccess,
    Zone,
    choose_zones,
    left_out,
    preferred,
    refusal,
    why_no_zones,
    why_not_here,
    why_unreadable,
)
from pytest_hwperf.records.errors import MeterUnavailable

_WRAP_W = 1000.0  # no package draws more for long: sets how soon a counter may start again at 0
_LONGEST_UNKNOWN_S = 60.0  # without a readable range; the smallest usual one, 65.7 kJ, lasts 65 s at 1 kW
_MICRO = 1e-6  # J in a µJ


def powercap_counters(zones: Sequence[Zone], files: Files = SYSTEM) -> DescriptorCounters:
    """Open the `energy_uj` files of some zones."""

    def count(descriptor: int) -> int:
        answer = files.pread(descriptor, 32, 0)
        try:
            return int(answer)
        except ValueError:
            raise ValueError(f"{answer!r}, which is no number") from None

    return DescriptorCounters(
        {_register(zone): partial(files.open, f"{zone.path}/energy_uj", os.O_RDONLY) for zone in zones}, count
    )


def rapl_meter(
    environ: Mapping[str, str],
    *,
    refused: tuple[str, ...] = (),
    access: SystemAccess | None = None,
    check: Check = check_counters,
) -> CounterMeter:
    """Open the counters of this machine's packages and of the memory attached to them.

    Args:
        environ: HWPERF_POWERCAP_ROOT replaces the places where zones are looked for.
        refused: why better sources are not used; shown with every figure.
        access: to the machine, this one where None.
        check: of the opened counters.

    Raises:
        MeterUnavailable: there are no counters or they cannot be read; says why and what to do.
    """
    access = access or SystemAccess()
    zones = _zones(access, environ)
    chosen, silent = choose_zones(zones, lambda zone: refusal(zone, access.files))
    if reason := why_unreadable(silent, any_chosen=bool(chosen)):
        raise MeterUnavailable(reason)
    silences = [left_out(zone, answer) for zone, answer in silent.items()]
    return _meter(chosen, access, [*refusal_warnings(refused), *silences], check)


def psys_meter(
    environ: Mapping[str, str],
    *,
    refused: tuple[str, ...] = (),
    access: SystemAccess | None = None,
    check: Check = check_counters,
) -> CounterMeter:
    """Open the counter of the whole platform, which includes the packages: only on demand, and never added to them.

    Raises:
        MeterUnavailable: there is none, it cannot be read, or it counts whole joules.
    """
    access = access or SystemAccess()
    zones = [zone for zone in _zones(access, environ) if zone.name == "psys"]
    answers = {zone: answer for zone in zones if (answer := refusal(zone, access.files))}
    if not zones:
        raise MeterUnavailable("This machine has no psys zone; ask for rapl: packages and memory.")
    if reason := why_unreadable(answers, any_chosen=len(answers) < len(zones)):
        raise MeterUnavailable(reason)
    chosen = preferred([zone for zone in zones if zone not in answers])
    if len(chosen) > 1:
        named = " and ".join(zone.id for zone in chosen)
        raise MeterUnavailable(f"{named} are all called psys, and whether they add up is not known. Ask for rapl.")
    for zone in chosen:
        if zone.is_coarse:
            raise MeterUnavailable(f"{zone.id} (psys) counts in steps of 1 J here: too coarse. Ask for rapl.")
    return _meter(chosen, access, refusal_warnings(refused), check)


def _zones(access: SystemAccess, environ: Mapping[str, str]) -> tuple[Zone, ...]:
    if reason := why_not_here(access):
        raise MeterUnavailable(reason)
    zones = access.zones(environ)
    if not zones:
        raise MeterUnavailable(why_no_zones(access, environ))
    return zones


def _meter(zones: Sequence[Zone], access: SystemAccess, warnings: Sequence[str], check: Check) -> CounterMeter:
    opened = partial(powercap_counters, files=access.files)
    try:  # memory of a package that is left out would look like the next one's
        counters, seen, faults = open_checked(zones, opened, check, ids_of=lambda zone: (zone.id, zone.parent))
    except OSError as error:
        raise MeterUnavailable(f"A counter could be read and not be held open: {error}.") from error
    return processor_meter(
        "rapl",
        counters,
        seen,
        flags=access.flags,
        longest_window_s=min(_longest_s(register) for register in counters.registers),
        warnings=[*warnings, *faults],
    )


def _register(zone: Zone) -> Register:
    return Register(id=zone.id, name=zone.name, joules=_MICRO, last=zone.max_uj, never_idle=zone.is_whole)


def _longest_s(register: Register) -> float:
    """Return half of the time in which the counter passes through its range at 1 kW."""
    return _LONGEST_UNKNOWN_S if register.last is None else math.floor(register.last * _MICRO) / _WRAP_W / 2
