"""Power of the machine while this process sleeps."""

import time
from collections.abc import Callable

from pytest_hwperf.core.contracts import CountingMeter
from pytest_hwperf.core.records import Reading
from pytest_hwperf.core.units import show_share
from pytest_hwperf.host.system_state import busy_cpu_seconds

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
