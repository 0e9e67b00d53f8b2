"""Joules between two readings of energy counters, with what makes them believable."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pytest_hwperf.core.contracts import Covered
from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.records import Reading
from pytest_hwperf.core.units import show, show_number
from pytest_hwperf.meters.energy.counter_ticks import MOST_W
from pytest_hwperf.meters.energy.registers import Counters
from pytest_hwperf.meters.energy.share import Busy, Share
from pytest_hwperf.meters.energy.totals import Instant, Totals, seconds_asleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The beginning of a window."""

    instant: Instant
    busy: Busy | None  # None where the counters are not of the whole machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What is known of a source of energy before it is read."""

    kind: str  # the label is `kind:name+name`
    metric: str = "energy"
    covers: Covered = "processors"
    tick_s: float  # time between two changes of a counter; a window is exact within one of it
    shortest_window_s: float  # shorter windows are refused: one tick would be too large a part of them
    longest_window_s: float = math.inf  # then a counter may have started again at 0 unseen, unless attended
    most_w: float = MOST_W  # power that no single counter can show
    spins: int = 0  # readings to wait for a change before a window begins; 0 begins at once
    before_reading: Callable[[], None] = lambda: None  # called before each reading, as to let a GPU finish
    warnings: tuple[str, ...] = ()  # shown with every figure


class CounterMeter:
    """Joules of everything its counters count over a window, whoever used them."""

    def __init__(
        self,
        counters: Counters,
        traits: Traits,
        *,
        share: Share | None = None,
        clock: Callable[[], float] = time.monotonic,
        asleep: Callable[[], float] = seconds_asleep,
    ) -> None:
        """Read `counters`, which are closed with the meter.

        Args:
            counters: held open.
            traits: what is known of them.
            share: watches whose work it was; None for counters that are not of the whole machine.
            clock: seconds, monotonic.
            asleep: seconds that the machine has been suspended.
        """
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
        self._totals = Totals(counters, longest_s=traits.longest_window_s, clock=clock, asleep=asleep)

    def start(self) -> Opening | str:
        """Wait for a change and read all counters; an error is kept and told at the end of the window."""
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
            ended = self._totals.read()
            return Reading(value=self._joules(started.instant, ended), share=self._share_since(started))
        except MeasurementError as error:
            return Reading(value=None, reason=str(error))

    def attended(self) -> AbstractContextManager[None]:
        """Read now and then while windows of unknown length are open."""
        return self._totals.attended() if math.isfinite(self.longest_window_s) else nullcontext()

    def close(self) -> None:
        """Close the counters; closing twice does nothing."""
        self._counters.close()

    def _first(self) -> Instant:
        """Read once more where the first reading fails.

        What went wrong before this window, as a counter of unknown range that started again, has voided those that were
        open and is no fault of this one.
        """
        try:
            return self._totals.read()
        except MeasurementError:
            return self._totals.read()

    def _wait_for_change(self) -> None:
        """Begin windows just behind a change, so that only their end is off by a part of a tick."""
        if not self._traits.spins:
            return
        before = self._counters.read()
        for _ in range(self._traits.spins):
            if self._counters.read() != before:
                return

    def _share_since(self, started: Opening) -> float | None:
        return self._share.end(started.busy) if self._share and started.busy else None

    def _joules(self, started: Instant, ended: Instant) -> float:
        """Add up what all counters have counted.

        Raises:
            MeasurementError: too short a window, something went wrong within it, or it tells what cannot be.
        """
        window_s = ended.at_s - started.at_s
        if ended.voids > started.voids:
            raise MeasurementError(self._totals.reason)
        if window_s < self.shortest_window_s:
            bound = self.tick_s / max(window_s, self.tick_s)
            raise MeasurementError(
                f"a window of {show(window_s, 's')} has a bound of {show_number(100 * bound, 2)} %; "
                f"{show(self.shortest_window_s, 's')} needed"
            )
        joules, most_w = list[float](), self._traits.most_w
        for register, before, after in zip(self._counters.registers, started.counts, ended.counts, strict=True):
            spent = (after - before) * register.joules
            if spent == 0 and register.restless:
                raise MeasurementError(f"{register} did not move in {show(window_s, 's')}: it counts nothing here")
            if spent > most_w * window_s:
                raise MeasurementError(
                    f"{register} reads {spent / window_s:.0f} W, above {most_w:.0f} W: wrong unit, or it was reset"
                )
            joules.append(spent)
        return math.fsum(joules)
