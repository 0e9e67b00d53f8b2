"""A clock that only moves when a fake call takes its time, and meters that play back readings."""

from collections.abc import Iterable, Iterator
from itertools import repeat

from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.run import Reading


class FakeClock:
    """Time in whole nanoseconds; looking at it costs nothing."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class TimedCall:
    """A call that takes the scripted nanoseconds, the last of them for ever."""

    def __init__(self, clock: FakeClock, *taken_ns: int) -> None:
        self._clock = clock
        self._script: Iterator[int] = iter([*taken_ns])
        self._last = taken_ns[-1]
        self.count = 0

    def __call__(self, *_: object) -> str:
        self._clock.now_ns += next(self._script, self._last)
        self.count += 1
        return "value"


class FakeMeter:
    """Plays back what it counted in each window."""

    warnings: tuple[str, ...] = ("played back",)

    def __init__(
        self,
        metric: str,
        readings: Iterable[Reading] | None = None,
        *,
        source: str = "fake",
        shortest_window_s: float = 0,
        covers: Covered = "processors",
    ) -> None:
        self.metric = metric
        self.source = source
        self.covers = covers
        self.shortest_window_s = shortest_window_s
        self._readings = iter(readings if readings is not None else repeat(Reading(value=1.0)))

    def start(self) -> object:
        return None

    def end(self, started: object) -> Reading:  # noqa: ARG002 - a real meter subtracts it
        return next(self._readings)

    def close(self) -> None:
        return None


def never(_: object) -> bool:
    """Say that it is not enough."""
    return False


def at_once(_: object) -> bool:
    """Say that it is enough."""
    return True
