"""Energy counters: registers that go up and may start again at 0, and totals of them that only grow."""

import errno
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.units import show

MOST_W = 2000.0  # no package, memory or board draws more; Atom packages read with a wrong unit showed 3763 W

_SUSPENDED_S = 0.1  # the two clocks are read one after the other, not at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """One counter that belongs to the sum."""

    id: str  # for errors, unique: "intel-rapl:0:1", "energy-pkg of CPU 0", "GPU 0"
    name: str  # its domain, for the label: "package-0", "dram", "pkg", "ram", "0"
    joules: float  # per count
    last: int | None  # the last count before it starts again at 0; None = it never does, or it is not known
    never_idle: bool  # whether standing still over a whole window is a defect, as of a package or a board

    def spent(self, before: int, after: int) -> int:
        """Return the counts between two values of a counter that started again at 0 once at most.

        The true modulus of RAPL is one unit (61 µJ at most) above `last`, so that a wrap is off by less than that.
        """
        if self.last is None:
            if after < before:
                raise MeasurementError(f"{self} went down, and where it starts again at 0 is not known")
            return after - before
        if max(before, after) > self.last:
            raise MeasurementError(f"{self} reads {max(before, after)}, above its range of {self.last}")
        return after - before if after >= before else after - before + self.last + 1

    def __str__(self) -> str:
        return f"{self.id} ({self.name})"


class Counters(Protocol):
    """The counters of one source, held open."""

    @property
    def registers(self) -> tuple[Register, ...]:
        """In the order of `read`."""

    def read(self) -> tuple[int, ...]:
        """Return all counts, read as close together as possible."""

    def close(self) -> None:
        """Release what is held open; closing twice does nothing."""


class DescriptorCounters:
    """Counters behind file descriptors, held open: opening takes ten times as long as reading."""

    def __init__(self, openers: Mapping[Register, Callable[[], int]], count: Callable[[int], int]) -> None:
        self.registers = tuple(openers)
        self._count = count
        self._descriptors: list[int] = []
        with ExitStack() as opened:
            for opener in openers.values():
                self._descriptors.append(opener())
                opened.callback(os.close, self._descriptors[-1])
            self._opened = opened.pop_all()

    def read(self) -> tuple[int, ...]:
        """Return all counts."""
        return tuple(map(self._read_one, self.registers, self._descriptors))

    def close(self) -> None:
        """Close the descriptors; closing twice does nothing."""
        self._opened.close()

    def _read_one(self, register: Register, descriptor: int) -> int:
        try:
            return self._count(descriptor)
        except (OSError, ValueError) as error:
            answer = errno_name(error) if isinstance(error, OSError) else error
            raise MeasurementError(f"{register} answers {answer}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """All totals at one moment."""

    counts: tuple[int, ...]  # in the order of the registers, since the meter was opened
    at_s: float  # midpoint of the reading
    voids: int  # how often something went wrong so far: a window within which it grew is void


def seconds_suspended() -> float:
    """Return for how long this machine has been suspended since it started; 0.0 where the system does not report it."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def errno_name(error: OSError) -> str:
    """Return the symbolic name of an error, as EACCES; any number may come out of a driver."""
    return errno.errorcode.get(error.errno or 0, str(error))


class Totals:
    """Adds up readings of counters through their wraps, from any thread.

    After more than `longest_s` between two readings, a counter may have started again at 0 twice.
    """

    def __init__(
        self,
        counters: Counters,
        *,
        longest_s: float,
        clock: Callable[[], float] = time.monotonic,
        suspended: Callable[[], float] = seconds_suspended,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._counters = counters
        self._longest_s = longest_s
        self._clock = clock
        self._suspended = suspended
        self._wait = wait
        self._lock = threading.Lock()
        self._totals = [0] * len(counters.registers)
        self._last: tuple[int, ...] | None = None  # raw counts of the last reading
        self._last_s = clock()
        self._suspended_s = suspended()
        self._voids = 0
        self.reason = ""  # what went wrong last

    def read(self) -> Instant:
        """Read all counters now."""
        with self._lock:
            try:
                self._add()
            except MeasurementError as error:
                self._void(str(error))
                raise
            return Instant(counts=tuple(self._totals), at_s=self._last_s, voids=self._voids)

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Read regularly from a thread, so that windows longer than `longest_s` lose nothing."""
        if math.isinf(self._longest_s):
            yield
            return
        ended = threading.Event()
        thread = threading.Thread(target=self._attend, args=(ended,), name="hwperf-energy", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _attend(self, ended: threading.Event) -> None:
        while not self._wait(ended, self._longest_s / 2):
            with self._lock:
                try:
                    self._add()
                except MeasurementError as error:
                    self._void(str(error))  # an open window reports it at its end

    def _add(self) -> None:
        before_s = self._clock()
        counts = self._counters.read()
        at_s = (before_s + self._clock()) / 2
        suspended_s = self._suspended() - self._suspended_s
        if suspended_s > _SUSPENDED_S:
            self._void(f"the machine was suspended for {show(suspended_s, 's')} during the window")
        if at_s - self._last_s > self._longest_s:
            self._void(
                f"the counters were not read for {show(at_s - self._last_s, 's')}, longer than "
                f"{show(self._longest_s, 's')}: one of them may have started again at 0 unseen"
            )
        last, self._last = self._last or counts, counts
        self._last_s, self._suspended_s = at_s, self._suspended_s + suspended_s
        for position, register in enumerate(self._counters.registers):
            self._totals[position] += register.spent(last[position], counts[position])

    def _void(self, reason: str) -> None:
        self._voids += 1
        self.reason = reason
