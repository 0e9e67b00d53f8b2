"""Energy of a block of the user's code."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from pytest_hwperf.host.disturbance import busy_cpu_seconds
from pytest_hwperf.records.contracts import CountingMeter, Meter
from pytest_hwperf.records.run import Reading
from pytest_hwperf.records.units import show_share

_OPEN = "the window is still open: read it after the block"
_OFF = "energy is off (--hwperf-energy=off)"
_SHORTEST_S = 0.04  # ten steps of 4 ms, by which the CPU time of other threads grows


@dataclass(slots=True)
class EnergyReading:
    """Result of one window; filled in when it ends."""

    source: str  # as `rapl:package-0+dram`, "" where energy is off
    domains: tuple[str, ...]  # what is added up, as ("package-0", "dram"); () where the source has none
    reason: str  # why it is unmeasured, "" where it is not
    estimated: bool = False  # from CPU time; nothing counts it
    joules: float | None = None  # None = unmeasured
    window_s: float | None = None
    bound: float | None = None  # largest relative error by the counter's tick; None without tick or figure
    share: float | None = None  # of this process in the machine's busy CPU time; None where it is not known
    warnings: tuple[str, ...] = ()  # what is to be known of every figure of this source, such as zones left out

    @property
    def watts(self) -> float | None:
        """Mean power over the window; None where it is unmeasured, and of an estimate for less than 40 ms.

        CPU time is read before the clock and again after it, and grows in steps: over a short block an estimate would
        exceed the power of the processor.
        """
        if self.joules is None or not self.window_s:
            return None
        if self.estimated and self.window_s < _SHORTEST_S:
            return None
        return self.joules / self.window_s


class EnergyMeter:
    """Makes windows around blocks of code; they may nest and overlap."""

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

        A block that raises is unmeasured, and its exception passes on: the energy of half a block means nothing.
        """
        if self._meter is None:
            yield EnergyReading("", (), self._why_none)
            return
        counters = self._counters
        domains, estimated = counters.domains if counters else (), self._meter.covers == "estimate"
        reading = EnergyReading(self._meter.source, domains, _OPEN, estimated, warnings=tuple(self._meter.warnings))
        # The block may take so long that a counter starts again at 0 within it.
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


_ASLEEP_S = 2.0
_MOST_BUSY = 0.05  # CPU seconds of all processes, per second and core; a machine that works more is not idle


def idle_watts(
    meter: CountingMeter,
    cores: int,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    busy: Callable[[], float | None] = busy_cpu_seconds,
) -> Reading:
    """Sleep for 2 s and return the mean power of the machine meanwhile, in W.

    There is no value where `meter`, which counts the whole machine, gave none, or where more than 5 % of its `cores`
    were `busy` with other processes: that is no idle power.
    """
    started, busy_before = meter.start(), busy()
    before_s = clock()
    sleep(max(_ASLEEP_S, 1.25 * meter.shortest_window_s))
    seconds = clock() - before_s
    counted, busy_after = meter.end(started), busy()
    if counted.value is None:
        return counted
    if busy_before is not None and busy_after is not None:
        used = (busy_after - busy_before) / (cores * seconds)
        if used > _MOST_BUSY:
            return Reading(value=None, reason=f"the machine was not idle: others used {show_share(used)} of its cores")
    return Reading(value=counted.value / seconds)
