"""Energy of processor packages and their memory, from the RAPL counters in powercap."""

import errno
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from pytest_hwperf.core.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.meters.energy.counter import CounterMeter, Traits
from pytest_hwperf.meters.energy.counter_ticks import MOST_W, Calibration, calibrate, package_window
from pytest_hwperf.meters.energy.diagnosis import (
    Host,
    absurd,
    left_out,
    stuck,
    why_no_zones,
    why_not_here,
    why_unreadable,
)
from pytest_hwperf.meters.energy.powercap import SYSTEM, Files, Zone, choose_zones, find_zones, preferred
from pytest_hwperf.meters.energy.registers import Register
from pytest_hwperf.meters.energy.share import Share

_WRAP_W = 1000.0  # no package draws more for long: sets how soon a counter may start again at 0
_LONGEST_UNKNOWN_S = 60.0  # without a readable range; the smallest usual one, 65.7 kJ, lasts 65 s at 1 kW
_MICRO = 1e-6  # J in a µJ
_COARSE_UJ = 10**15  # counters of 1 J steps have such ranges

Calibrate = Callable[["PowercapCounters"], Calibration]


class PowercapCounters:
    """The `energy_uj` files of some zones, held open: pread(2) takes a tenth of opening and reading.

    Raises:
        OSError: a counter cannot be opened.
    """

    def __init__(self, zones: Sequence[Zone], files: Files = SYSTEM) -> None:
        """Open the counter of each of `zones`."""
        self.registers = tuple(
            Register(id=zone.id, name=zone.name, joules=_MICRO, last=zone.max_uj, restless=_is_whole(zone))
            for zone in zones
        )
        self._files = files
        self._descriptors: list[int] = []
        with ExitStack() as opened:
            for zone in zones:
                descriptor = files.open(f"{zone.path}/energy_uj", os.O_RDONLY)
                opened.callback(os.close, descriptor)
                self._descriptors.append(descriptor)
            self._opened = opened.pop_all()

    def read(self) -> tuple[int, ...]:
        """Return the microjoules of every zone.

        Raises:
            MeasurementError: a zone answers an error or no number.
        """
        return tuple(map(self._count, self.registers, self._descriptors))

    def close(self) -> None:
        """Close the files; closing twice does nothing."""
        self._opened.close()

    def _count(self, register: Register, descriptor: int) -> int:
        text = b""
        try:
            text = self._files.pread(descriptor, 32, 0)
            return int(text)
        except (OSError, ValueError) as error:
            raise MeasurementError(f"{register} answers {_name(error, text)}") from error


def rapl_meter(
    environ: Mapping[str, str],
    *,
    refused: tuple[str, ...] = (),
    host: Host | None = None,
    calibrated: Calibrate = calibrate,
) -> CounterMeter:
    """Open the counters of this machine's packages and of the memory beside them.

    Args:
        environ: HWPERF_POWERCAP_ROOT replaces the places where zones are looked for.
        refused: why better sources are not used; shown with every figure.
        host: the machine to look at, this one where None.
        calibrated: watches opened counters.

    Raises:
        MeterUnavailable: there are no counters or they cannot be read; says why and what to do.
    """
    host = host or Host()
    zones = _zones(host, environ)
    chosen, silent = choose_zones(zones, lambda zone: _answer(zone, host.files))
    if reason := why_unreadable(silent, any_chosen=bool(chosen)):
        raise MeterUnavailable(reason)
    warnings = [*refused, *(left_out(zone, answer) for zone, answer in silent.items())]
    return _meter(chosen, host, warnings, calibrated)


def psys_meter(
    environ: Mapping[str, str],
    *,
    refused: tuple[str, ...] = (),
    host: Host | None = None,
    calibrated: Calibrate = calibrate,
) -> CounterMeter:
    """Open the counter of the whole platform, which holds the packages: on demand only, and never beside them.

    Raises:
        MeterUnavailable: there is none, it cannot be read, or it counts whole joules.
    """
    host = host or Host()
    zones = [zone for zone in _zones(host, environ) if zone.name == "psys"]
    answers = {zone: answer for zone in zones if (answer := _answer(zone, host.files))}
    if not zones:
        raise MeterUnavailable("This machine has no psys zone; ask for rapl: packages and memory.")
    if reason := why_unreadable(answers, any_chosen=len(answers) < len(zones)):
        raise MeterUnavailable(reason)
    chosen = preferred([zone for zone in zones if zone not in answers])
    if len(chosen) > 1:
        named = " and ".join(zone.id for zone in chosen)
        raise MeterUnavailable(f"{named} are all called psys, and whether they add up is not known. Ask for rapl.")
    for zone in chosen:
        if (zone.max_uj or 0) > _COARSE_UJ:
            raise MeterUnavailable(f"{zone.id} (psys) counts in steps of 1 J here: too coarse. Ask for rapl.")
    return _meter(chosen, host, list(refused), calibrated)


def _zones(host: Host, environ: Mapping[str, str]) -> tuple[Zone, ...]:
    if reason := why_not_here(host):
        raise MeterUnavailable(reason)
    found = (find_zones(root, host.files) for root in host.powercap_roots(environ))
    zones = next(filter(None, found), ())
    if not zones:
        raise MeterUnavailable(why_no_zones(host, environ))
    return zones


def _meter(zones: Sequence[Zone], host: Host, warnings: list[str], calibrated: Calibrate) -> CounterMeter:
    """Watch the zones for a moment, leave out those that tell nonsense, and read the others."""
    seen, reasons = _watched(zones, host.files, calibrated)
    if reasons:
        bad = {register.id for register in (*seen.stuck, *(register for register, _ in seen.absurd))}
        # Memory of a package that is left out would look like the next one's.
        zones = [zone for zone in zones if not bad.intersection((zone.id, zone.parent))]
        if not any(map(_is_whole, zones)):
            raise MeterUnavailable(f"{' '.join(reasons)} Nothing is left to read.")
        seen, _ = _watched(zones, host.files, calibrated)
    shortest_s, noisy = package_window(seen.tick_s, host.flags)
    return CounterMeter(
        PowercapCounters(zones, host.files),
        Traits(
            kind="rapl",
            tick_s=seen.tick_s,
            spins=seen.spins,
            shortest_window_s=shortest_s,
            longest_window_s=min(_longest_s(zone) for zone in zones),
            warnings=(*warnings, *noisy, *reasons),
        ),
        share=Share(),
    )


def _watched(zones: Sequence[Zone], files: Files, calibrated: Calibrate) -> tuple[Calibration, list[str]]:
    """Calibrate; return also why some of the zones are to be left out."""
    try:
        counters = PowercapCounters(zones, files)
        try:
            seen = calibrated(counters)
        finally:
            counters.close()
    except (OSError, MeasurementError) as error:
        raise MeterUnavailable(f"The counters could be opened and not be watched: {error}.") from error
    return seen, [
        *(stuck(register, seen.seconds) for register in seen.stuck),
        *(absurd(register, watts, MOST_W) for register, watts in seen.absurd),
    ]


def _longest_s(zone: Zone) -> float:
    """Return half of what the counter's range lasts at 1 kW."""
    return _LONGEST_UNKNOWN_S if zone.max_uj is None else math.floor(zone.max_uj * _MICRO) / _WRAP_W / 2


def _is_package(zone: Zone) -> bool:
    return zone.name.startswith("package")


def _is_whole(zone: Zone) -> bool:
    """Whether a zone stands for a package or the platform; memory alone is no substitute."""
    return _is_package(zone) or zone.name == "psys"


def _answer(zone: Zone, files: Files) -> str:
    """Return what reading a zone answers: "" for a number, else the errno's name or the odd text."""
    text = ""
    try:
        text = files.text(f"{zone.path}/energy_uj")
        int(text)
    except (OSError, ValueError) as error:
        return _name(error, text)
    return ""


def _name(error: OSError | ValueError, text: str | bytes) -> str:
    """Name an errno as a kernel programmer does; any number may come out of a driver."""
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0, str(error))
    return f"{text!r}, which is no number,"
