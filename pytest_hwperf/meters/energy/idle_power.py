"""Power of the machine while this process sleeps."""

import time
from collections.abc import Callable

from pytest_hwperf.core.contracts import CountingMeter
from pytest_hwperf.core.records import Reading
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

    Args:
        meter: counts joules of the whole machine.
        cores: of the machine, all of them.
        sleep: waits so many seconds.
        clock: seconds, monotonic.
        busy: CPU seconds of the whole machine, None where the system does not report them.

    Returns:
        No value where the counters gave none, or where other processes worked: that is no idle power.
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
            return Reading(value=None, reason=f"the machine was not idle: others used {used:.0%} of its cores")
    return Reading(value=counted.value / seconds)
