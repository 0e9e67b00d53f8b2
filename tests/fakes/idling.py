"""A machine whose power follows the work that is done on it, on a clock of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fakes.clocks import HandClock

from pytest_hwperf.core.contracts import Covered
from pytest_hwperf.core.records import Reading


class Idling:
    """Draws `idle_w`, and `each_w` more for each processor that is kept busy; all of it is a meter's to count."""

    metric = "energy"
    covers: Covered = "processors"
    source = "rapl:package-0+dram"
    shortest_window_s = 0.5
    warnings: tuple[str, ...] = ()

    def __init__(self, *, idle_w: float = 10.0, each_w: float = 4.0, busy: float = 2.0) -> None:
        self.idle_w = idle_w
        self.each_w = each_w
        self.clock = HandClock()
        self.closed = False
        self.refusal = ""
        self.afterwards_w = idle_w  # idle power once work has been done
        self.began: list[float] = []  # when windows began, s
        self._could = busy  # processors that work really gets
        self._busy = 0.0
        self._joules = 0.0
        self._cpu_s = 0.0

    def sleep(self, seconds: float) -> None:
        self._joules += seconds * (self.idle_w + self.each_w * self._busy)
        self._cpu_s += seconds * self._busy
        self.clock.pass_time(seconds)

    @contextmanager
    def work(self) -> Iterator[Callable[[], float]]:
        self._busy = self._could
        yield lambda: self._cpu_s
        self._busy, self.idle_w = 0.0, self.afterwards_w

    def start(self) -> float:
        self.began.append(self.clock())
        return self._joules

    def end(self, started: float) -> Reading:
        if self.refusal:
            return Reading(value=None, reason=self.refusal)
        return Reading(value=self._joules - started)

    def close(self) -> None:
        self.closed = True
