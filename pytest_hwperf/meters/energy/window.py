"""Energy of the user's own block of code."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from pytest_hwperf.core.contracts import CountingMeter, Meter

_OPEN = "the window is still open: read it after the block"
_OFF = "energy is off (--hwperf-energy=off)"
_SHORTEST_S = 0.04  # ten steps of 4 ms, by which the CPU time of other threads grows


class EnergyReading:
    """What one window measured; until it ends nothing is, and `reason` says so."""

    def __init__(self, source: str, domains: tuple[str, ...], reason: str, *, estimated: bool = False) -> None:
        """Begin without a figure; `source` and `domains` say what will be read, `reason` why nothing is yet."""
        self.estimated = estimated  # from CPU time; nothing counts it
        self.source = source  # as `rapl:package-0+dram`, "" where energy is off
        self.domains = domains  # what is added up, as ("package-0", "dram"); () where the source has none
        self.joules: float | None = None  # None = unmeasured
        self.window_s: float | None = None
        self.bound: float | None = None  # largest relative error by the counter's tick; None without tick or figure
        self.share: float | None = None  # of the machine's busy CPU time that was ours; None where it is not known
        self.reason = reason  # why it is unmeasured, "" where it is not

    @property
    def watts(self) -> float | None:
        """Mean power over the window; None where it is unmeasured, and of an estimate for less than 40 ms.

        CPU time is read before the clock and again after it, and grows in steps: over a short block an estimate would
        tell more watts than the processor has.
        """
        if self.joules is None or not self.window_s:
            return None
        if self.estimated and self.window_s < _SHORTEST_S:
            return None
        return self.joules / self.window_s


class EnergyMeter:
    """Makes windows around blocks of code; they may nest and overlap.

    Args:
        meter: counts joules; None where energy is not measured.
        clock: seconds, monotonic.
        why_none: why there is no meter.
    """

    def __init__(
        self, meter: Meter | None, clock: Callable[[], float] = time.perf_counter, *, why_none: str = _OFF
    ) -> None:
        self._meter = meter
        self._why_none = why_none
        self._clock = clock
        self._counters = meter if isinstance(meter, CountingMeter) else None

    @contextmanager
    def window(self) -> Iterator[EnergyReading]:
        """Meter the block; the reading it yields is filled in when the block has ended.

        A block that raises is unmeasured, and what it raised goes on: half a block has no energy to tell.
        """
        if self._meter is None:
            yield EnergyReading("", (), self._why_none)
            return
        counters = self._counters
        domains, estimated = counters.domains if counters else (), self._meter.covers == "estimate"
        reading = EnergyReading(self._meter.source, domains, _OPEN, estimated=estimated)
        # Nobody knows how long the block takes, so that a counter could start again at 0 within it.
        with counters.attended() if counters else nullcontext():
            started = self._meter.start()
            before_s = self._clock()
            try:
                yield reading
            except BaseException as error:
                reading.reason = f"the block raised {type(error).__name__} before its window ended"
                raise
            reading.window_s = self._clock() - before_s
            counted = self._meter.end(started)
        reading.joules, reading.reason, reading.share = counted.value, counted.reason, counted.share
        if counted.value is not None and counters and reading.window_s > 0:
            reading.bound = counters.tick_s / reading.window_s
