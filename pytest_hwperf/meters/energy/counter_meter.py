"""The meter over energy counters: joules of a window, refused where they are not plausible, and whose work they are."""

import math
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

from pytest_hwperf.core.contracts import Covered
from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.records import Reading
from pytest_hwperf.core.units import show, show_number
from pytest_hwperf.host.clocks import cpu_seconds
from pytest_hwperf.host.system_state import busy_cpu_seconds
from pytest_hwperf.meters.energy.counters import MOST_W, Counters, Instant, Totals, seconds_suspended

_LEAST_BUSY_S = 0.2  # the machine's CPU time is counted in ticks of 10 ms: of less, the share is mostly rounding


class Busy(NamedTuple):
    """CPU seconds so far."""

    own_s: float  # this process and the children it has waited for
    machine_s: float | None  # all processes on all CPUs, None where the system does not report it


class Share:
    """Compares this process's CPU time with the machine's: counters of the machine count everybody's work."""

    def __init__(
        self, own: Callable[[], float] = cpu_seconds, machine: Callable[[], float | None] = busy_cpu_seconds
    ) -> None:
        self._own = own
        self._machine = machine

    def start(self) -> Busy:
        """Read both."""
        return Busy(self._own(), self._machine())

    def end(self, started: Busy) -> float | None:
        """Return this process's share since `started`, from 0.0 to 1.0; None where it is not known or all were idle."""
        ended = self.start()
        if started.machine_s is None or ended.machine_s is None:
            return None
        busy_s = ended.machine_s - started.machine_s
        return None if busy_s < _LEAST_BUSY_S else min(1.0, (ended.own_s - started.own_s) / busy_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The beginning of a window."""

    instant: Instant
    busy: Busy | None  # None where the counters are not of the whole machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of a source of energy, known before it is read."""

    kind: str  # the label is `kind:name+name`
    metric: str = "energy"
    covers: Covered = "processors"
    tick_s: float  # time between two changes of a counter; a window is exact within one of it
    shortest_window_s: float  # shorter windows are refused: one tick would be too large a part of them
    longest_window_s: float = math.inf  # then a counter may have started again at 0 unseen, unless attended
    spins: int = 0  # readings to wait for a change before a window begins; 0 begins at once
    before_reading: Callable[[], None] = lambda: None  # called before each reading, as to let a GPU finish
    warnings: tuple[str, ...] = ()  # shown with every figure


class CounterMeter:
    """Joules that the counters of a source count over a window, whichever process used them."""

    def __init__(
        self,
        counters: Counters,
        traits: Traits,
        *,
        share: Share | None = None,
        clock: Callable[[], float] = time.monotonic,
        suspended: Callable[[], float] = seconds_suspended,
    ) -> None:
        """Read `counters`, which are closed with the meter; `share` is None where they are not of the whole machine."""
        self.metric = traits.metric
        self.covers = traits.covers
        self.domains = tuple(register.name for register in counters.registers)
        self.source = f"{traits.kind}:{'+'.join(self.domains)}"
        self.tick_s = traits.tick_s
        self.shortest_window_s = traits.shortest_window_s
        self.longest_window_s = traits.longest_window_s
        self.warnings = traits.warnings
        self._counters = counters
        self._traits = traits
        self._share = share
        self._totals = Totals(counters, longest_s=traits.longest_window_s, clock=clock, suspended=suspended)

    def start(self) -> Opening | str:
        """Wait for a change and read all counters; an error is returned by the end of the window."""
        try:
            self._traits.before_reading()
            self._wait_for_change()
            return Opening(busy=self._share.start() if self._share else None, instant=self._first())
        except MeasurementError as error:
            return str(error)

    def end(self, started: Opening | str) -> Reading:
        """Return the joules since `started`; errors, and windows too short or too long, give a reason instead."""
        if isinstance(started, str):
            return Reading(value=None, reason=started)
        try:
            self._traits.before_reading()
            joules = self._joules(started.instant, self._totals.read())
        except MeasurementError as error:
            return Reading(value=None, reason=str(error))
        return Reading(value=joules, share=self._share.end(started.busy) if self._share and started.busy else None)

    def attended(self) -> AbstractContextManager[None]:
        """Read regularly while windows of unknown length are open."""
        return self._totals.attended()

    def close(self) -> None:
        """Close the counters; closing twice does nothing."""
        self._counters.close()

    def _first(self) -> Instant:
        """Read once more where the first reading fails.

        What went wrong before this window, as a counter of unknown range that started again, has voided the windows
        that were open; this one is not affected.
        """
        try:
            return self._totals.read()
        except MeasurementError:
            return self._totals.read()

    def _wait_for_change(self) -> None:
        """Begin windows just after a change, so that only their end is off by a part of a tick."""
        if not self._traits.spins:
            return
        before = self._counters.read()
        for _ in range(self._traits.spins):
            if self._counters.read() != before:
                return

    def _joules(self, started: Instant, ended: Instant) -> float:
        """Add up what all counters have counted."""
        window_s = ended.at_s - started.at_s
        if ended.voids > started.voids:
            raise MeasurementError(self._totals.reason)
        if window_s < self.shortest_window_s:
            bound = self.tick_s / max(window_s, self.tick_s)
            raise MeasurementError(
                f"a window of {show(window_s, 's')} has a bound of {show_number(100 * bound, 2)} %; "
                f"{show(self.shortest_window_s, 's')} needed"
            )
        joules = list[float]()
        for register, before, after in zip(self._counters.registers, started.counts, ended.counts, strict=True):
            spent = (after - before) * register.joules
            if spent == 0 and register.never_idle:
                raise MeasurementError(f"{register} did not move in {show(window_s, 's')}: it counts nothing here")
            if spent > MOST_W * window_s:
                raise MeasurementError(
                    f"{register} reads {spent / window_s:.0f} W, above {MOST_W:.0f} W: wrong unit, or it was reset"
                )
            joules.append(spent)
        return math.fsum(joules)


def refusal_warnings(refused: Iterable[str]) -> tuple[str, ...]:
    """Say why better sources are not used, all in one footnote: of a remedy of several lines the first."""
    reasons = [reason.splitlines()[0].removesuffix(".") for reason in refused]
    return (f"better source{'s' * (len(reasons) > 1)} refused: {'; '.join(reasons)}",) if reasons else ()
