"""Power of the machine while this process sleeps."""

import time
from collections.abc import Callable

from pytest_hwperf.core.contracts import CountingMeter

_ASLEEP_S = 2.0


def idle_watts(
    meter: CountingMeter,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> float | None:
    """Sleep for 2 s and return the mean power of the machine meanwhile, in W; None where the window told nothing."""
    started = meter.start()
    before_s = clock()
    sleep(max(_ASLEEP_S, 1.25 * meter.shortest_window_s))
    seconds = clock() - before_s
    joules = meter.end(started).value
    return joules / seconds if joules is not None and seconds > 0 else None
