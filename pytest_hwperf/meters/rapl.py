"""Energy of processor packages and their memory, from the RAPL counters in powercap."""

import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pytest_hwperf.core.errors import MeasurementError, MeterUnavailable
from pytest_hwperf.core.records import Reading
from pytest_hwperf.core.units import show, show_number
from pytest_hwperf.meters.diagnosis import Host, left_out, why_no_zones, why_not_here, why_unreadable
from pytest_hwperf.meters.powercap import SYSTEM, Files, Zone, choose_zones, find_zones

TICK_S = 0.001  # the counters move about once in a millisecond (Haehnel et al. 2012)
_SHORTEST_S = 0.5  # where twelve windows of a steady load agree within 1 %
_SHORTEST_NOISY_S = 1.0  # with SGX the firmware adds noise against side channels
_MOST_W = 1000.0  # no package draws more: sets how soon a counter may start again at 0
_LONGEST_UNKNOWN_S = 60.0  # without a readable range; the smallest usual one, 65.7 kJ, lasts 65 s at 1 kW
_ABSURD_W = 2000.0  # what no zone draws; Atom packages read with a wrong unit told 3763 W
_MICRO = 1_000_000  # µJ in a J


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """All counters at one instant."""

    uj: tuple[int, ...]  # in the order of the zones
    at_s: float  # midpoint of the reading, on the meter's clock


def spent_uj(zone: Zone, before: int, after: int) -> int:
    """Return the microjoules between two values of one counter that started again at 0 once at most.

    The true modulus is one unit (61 µJ at most) above `max_uj`, so that a wrap is off by less than that.

    Raises:
        MeasurementError: it went down without a known range, or stood above its range.
    """
    if zone.max_uj is None:
        if after < before:
            raise MeasurementError(f"{zone.id} ({zone.name}) went down, and its max_energy_range_uj cannot be read")
        return after - before
    if max(before, after) > zone.max_uj:
        raise MeasurementError(f"{zone.id} ({zone.name}) reads above its max_energy_range_uj of {zone.max_uj}")
    return after - before if after >= before else after - before + zone.max_uj + 1


class RaplMeter:
    """Joules of the whole machine's packages and memory over a window, whoever used them.

    Args:
        zones: those to add up, as `choose_zones` returns them.
        files: system calls to read with.
        clock: seconds, monotonic.
        shortest_window_s: shorter windows are refused: one tick of 1 ms would be too large a part of them.
        warnings: shown with every figure.

    Raises:
        OSError: a counter cannot be opened.
    """

    metric = "energy"
    tick_s = TICK_S

    def __init__(
        self,
        zones: Sequence[Zone],
        *,
        files: Files = SYSTEM,
        clock: Callable[[], float] = time.monotonic,
        shortest_window_s: float = _SHORTEST_S,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.domains = tuple(zone.name for zone in zones)
        self.source = f"rapl:{'+'.join(self.domains)}"
        self.shortest_window_s = shortest_window_s
        self.longest_window_s = min(_LONGEST_UNKNOWN_S if z.max_uj is None else _half_wrap_s(z.max_uj) for z in zones)
        self.warnings = warnings
        self._files = files
        self._clock = clock
        self._counters: list[tuple[Zone, int]] = []
        with ExitStack() as opened:
            for zone in zones:
                descriptor = files.open(f"{zone.path}/energy_uj", os.O_RDONLY)
                opened.callback(os.close, descriptor)
                self._counters.append((zone, descriptor))
            self._opened = opened.pop_all()

    def start(self) -> Counts | str:
        """Read all counters; an error is kept and told at the end of the window."""
        try:
            return self._read()
        except MeasurementError as error:
            return str(error)

    def end(self, started: Counts | str) -> Reading:
        """Return the joules since `started`; errors, and windows too short or too long, give a reason instead."""
        if isinstance(started, str):
            return Reading(value=None, reason=started)
        try:
            ended = self._read()
            window_s = ended.at_s - started.at_s
            self._check_window(window_s)
            spent = 0
            for (zone, _), before, after in zip(self._counters, started.uj, ended.uj, strict=True):
                spent += _plausible(zone, spent_uj(zone, before, after), window_s)
        except MeasurementError as error:
            return Reading(value=None, reason=str(error))
        return Reading(value=spent / _MICRO)

    def close(self) -> None:
        """Close the counters; closing twice does nothing."""
        self._opened.close()

    def _read(self) -> Counts:
        before_s = self._clock()
        uj = tuple(self._count(zone, descriptor) for zone, descriptor in self._counters)
        return Counts(uj=uj, at_s=(before_s + self._clock()) / 2)

    def _count(self, zone: Zone, descriptor: int) -> int:
        text = b""
        try:
            text = self._files.pread(descriptor, 32, 0)
            return int(text)
        except (OSError, ValueError) as error:
            raise MeasurementError(f"{zone.id} ({zone.name}) answers {_name(error, text)} during the window") from error

    def _check_window(self, window_s: float) -> None:
        if window_s < self.shortest_window_s:
            bound = TICK_S / max(window_s, TICK_S)
            raise MeasurementError(
                f"a window of {show(window_s, 's')} has a bound of {show_number(100 * bound, 2)} %; "
                f"{show(self.shortest_window_s, 's')} needed"
            )
        if window_s > self.longest_window_s:
            raise MeasurementError(
                f"a window of {show(window_s, 's')} is longer than {show(self.longest_window_s, 's')}, "
                "so that a counter may have started again unseen; make shorter windows"
            )


def rapl_meter(environ: Mapping[str, str], *, refused: tuple[str, ...] = (), host: Host | None = None) -> RaplMeter:
    """Open the RAPL counters of this machine.

    Args:
        environ: HWPERF_POWERCAP_ROOT replaces the places where zones are looked for.
        refused: why better sources are not used; shown with every figure.
        host: the machine to look at, this one where None.

    Raises:
        MeterUnavailable: there are no counters or they cannot be read; says why and what to do.
    """
    host = host or Host()
    if reason := why_not_here(host):
        raise MeterUnavailable(reason)
    found = (find_zones(root, host.files) for root in host.powercap_roots(environ))
    zones = next(filter(None, found), ())
    if not zones:
        raise MeterUnavailable(why_no_zones(host, environ))
    chosen, silent = choose_zones(zones, lambda zone: _answer(zone, host.files))
    if reason := why_unreadable(silent, any_chosen=bool(chosen)):
        raise MeterUnavailable(reason)
    warnings = [*refused, *(left_out(zone, answer) for zone, answer in silent.items())]
    shortest_s = _SHORTEST_S
    if "sgx" in host.flags:
        shortest_s = _SHORTEST_NOISY_S
        warnings.append("this processor has SGX: its firmware may add noise to the energy counters")
    return RaplMeter(chosen, files=host.files, shortest_window_s=shortest_s, warnings=tuple(warnings))


def _plausible(zone: Zone, spent: int, window_s: float) -> int:
    """Return the microjoules of one zone if a processor can have drawn them.

    Raises:
        MeasurementError: a package stood still, which even an idle one does not, or a zone drew more than 2 kW.
    """
    named = f"{zone.id} ({zone.name})"
    if spent == 0 and zone.name.startswith("package"):
        raise MeasurementError(f"{named} did not move in {show(window_s, 's')}: it counts nothing here")
    if spent / _MICRO > _ABSURD_W * window_s:
        watts = spent / _MICRO / window_s
        raise MeasurementError(f"{named} reads {watts:.0f} W, above {_ABSURD_W:.0f} W: wrong unit, or it was reset")
    return spent


def _half_wrap_s(max_uj: int) -> float:
    return max_uj / _MICRO / _MOST_W / 2


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
