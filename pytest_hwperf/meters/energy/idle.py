"""Power of the machine while this process sleeps."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pytest_hwperf.core.contracts import CountingMeter
from pytest_hwperf.core.records import Reading
from pytest_hwperf.meters.energy.share import busy_seconds

_ASLEEP_S = 2.0
_MOST_BUSY = 0.05  # CPU seconds of anybody, per second and core; a machine that works more is not idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleeper:
    """How an idle machine is watched; every part can be another's."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    busy: Callable[[], float | None] = busy_seconds  # CPU seconds of the whole machine, None where it does not tell


def idle_watts(meter: CountingMeter, cores: int, sleeper: Sleeper | None = None) -> Reading:
    """Sleep for 2 s and return the mean power of the machine meanwhile, in W.

    Args:
        meter: counts joules of the whole machine.
        cores: of the machine, all of them.
        sleeper: how to sleep and what to look at.

    Returns:
        No value where the counters told nothing, or where others were at work: that is no idle power.
    """
    sleeper = sleeper or Sleeper()
    started, busy = meter.start(), sleeper.busy()
    before_s = sleeper.clock()
    sleeper.sleep(max(_ASLEEP_S, 1.25 * meter.shortest_window_s))
    seconds = sleeper.clock() - before_s
    counted, busy_after = meter.end(started), sleeper.busy()
    if counted.value is None:
        return counted
    if busy is not None and busy_after is not None and busy_after - busy > _MOST_BUSY * cores * seconds:
        used = (busy_after - busy) / (cores * seconds)
        return Reading(value=None, reason=f"the machine was not idle: others used {used:.0%} of its cores")
    return Reading(value=counted.value / seconds)
