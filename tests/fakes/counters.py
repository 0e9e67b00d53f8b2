"""Counters of a simulated machine: each draws a steady power, moves in steps of time, and starts again at 0."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_hwperf.meters.counter_check import Check, CounterCheck
from pytest_hwperf.meters.counters import CounterMeter, Counters, Register
from pytest_hwperf.records.errors import MeasurementError


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one counter of the machine shows."""

    watts: float
    tick_s: float = 0.001
    start: int = 0  # counts at time 0
    last: int | None = None
    never_idle: bool = True
    name: str = "package-0"


class SteadyCounters:
    """Microjoules of every load at the time of `clock`; reading takes `reading_s` of it."""

    def __init__(self, clock: Callable[[], float], loads: Sequence[Load]) -> None:
        self.registers = tuple(
            Register(id=f"fake:{n}", name=load.name, joules=1e-6, last=load.last, never_idle=load.never_idle)
            for n, load in enumerate(loads)
        )
        self.error = ""
        self.closed = 0
        self.readings = 0
        self._clock = clock
        self._loads = loads

    def read(self) -> tuple[int, ...]:
        self.readings += 1
        if self.error:
            raise MeasurementError(self.error)
        return tuple(map(self._count, self._loads))

    def close(self) -> None:
        self.closed += 1

    def _count(self, load: Load) -> int:
        steps = int(self._clock() / load.tick_s + 1e-9)
        count = load.start + round(steps * load.tick_s * load.watts * 1e6)
        return count if load.last is None else count % (load.last + 1)


class PassingClock:
    """Seconds; every look at it takes a little."""

    def __init__(self, look_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.look_s = look_s

    def __call__(self) -> float:
        self.now_s += self.look_s
        return self.now_s


def meter_on_counters(counters: SteadyCounters, clock: Callable[[], float], **parts: Any) -> CounterMeter:
    """A meter of these counters, whose windows last half a second at least; the machine was never suspended."""
    usual: dict[str, Any] = {"kind": "fake", "tick_s": 0.001, "shortest_window_s": 0.5, "suspended": lambda: 0.0}
    return CounterMeter(counters=counters, clock=clock, **(usual | parts))


def finding(*, stuck: Collection[str] = (), absurd: Collection[str] = (), tick_s: float = 0.001) -> Check:
    """Look at counters and find these registers odd, by id, wherever they are among them."""

    def look(counters: Counters) -> CounterCheck:
        return CounterCheck(
            tick_s=tick_s,
            spins=0,
            seconds=0.2,
            stuck=tuple(r for r in counters.registers if r.id in stuck),
            absurd=tuple((r, 3763.0) for r in counters.registers if r.id in absurd),
        )

    return look
