"""Whose work a counter of the whole machine has counted: the share of its busy CPU time that was ours."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pytest_hwperf.host.clocks import cpu_seconds

_FEWEST_TICKS = 20  # of 10 ms; with fewer the share is mostly rounding
_BUSY = (0, 1, 2, 5, 6)  # of the `cpu` line, behind the word: user, nice, system, irq, softirq; see proc(5)


class Busy(NamedTuple):
    """CPU seconds so far."""

    own_s: float  # this process and the children it has waited for
    machine_s: float | None  # all processes on all CPUs, None where the system does not tell


class Share:
    """Compares this process's CPU time with the machine's.

    Args:
        own: CPU seconds of this process.
        machine: busy CPU seconds of the machine, None where it does not tell.
        tick_s: step in which the machine's are counted.
    """

    def __init__(
        self,
        own: Callable[[], float] = cpu_seconds,
        machine: "Callable[[], float | None] | None" = None,
        tick_s: float = 0.01,
    ) -> None:
        self._own = own
        self._machine = machine or busy_seconds
        self._fewest_s = _FEWEST_TICKS * tick_s

    def start(self) -> Busy:
        """Read both."""
        return Busy(self._own(), self._machine())

    def end(self, started: Busy) -> float | None:
        """Return our share since `started`, from 0.0 to 1.0; None where it is not known or all were idle."""
        ended = self.start()
        if started.machine_s is None or ended.machine_s is None:
            return None
        busy_s = ended.machine_s - started.machine_s
        if busy_s < self._fewest_s:
            return None
        return min(1.0, (ended.own_s - started.own_s) / busy_s)


def busy_seconds(stat: str | Path = "/proc/stat") -> float | None:
    """Return the CPU seconds that all CPUs have worked since the start; None where the system has no such file.

    Idle, waiting for discs, and what a hypervisor took are not work.
    """
    try:
        words = Path(stat).read_text(encoding="ascii").partition("\n")[0].split()[1:]
    except OSError:
        return None
    if len(words) <= max(_BUSY):
        return None
    return sum(int(words[position]) for position in _BUSY) / os.sysconf("SC_CLK_TCK")
