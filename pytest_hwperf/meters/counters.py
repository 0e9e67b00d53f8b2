"""Energy counters: registers that may start again at 0, totals that only grow, and windows of them."""

import errno
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import InitVar, dataclass
from functools import partial
from typing import NamedTuple, Protocol

from pytest_hwperf.host.clocks import cpu_seconds, seconds_suspended
from pytest_hwperf.host.disturbance import busy_cpu_seconds
from pytest_hwperf.records.contracts import Covered
from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.run import Reading
from pytest_hwperf.records.units import show, show_number

MOST_W = 2000.0  # no package, memory or board draws more; Atom packages read with a wrong unit showed 3763 W

_LOOK_S = 0.1  # between two readings of a counter that starts again at an unknown count; the check reads for longer
_LONGER = 1.25  # than the shortest window: a window of the usual length is attended
_SUSPENDED_S = 0.1  # the two clocks are read one after the other, not at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """One counter that belongs to the sum."""

    id: str  # for errors, unique: "intel-rapl:0:1", "energy-pkg of CPU 0", "GPU 0"
    name: str  # its domain, for the label: "package-0", "dram", "pkg", "ram", "0"
    joules: float  # per count
    last: int | None  # the last count before it starts again at 0; None = it never does, or it is not known
    never_idle: bool  # whether standing still over a whole window is a defect, as of a package or a board
    longest_s: float = math.inf  # then it may have started again at 0 unseen

    @property
    def restarts_anywhere(self) -> bool:
        """Whether it may start again at 0 from any count: only a reading soon afterwards shows that it did."""
        return self.last is None and not math.isinf(self.longest_s)

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


class HeldCounters:
    """Counters that stay open: opening takes ten times as long as reading."""

    def __init__(self, counts: Mapping[Register, Callable[[], int]], close: Callable[[], None]) -> None:
        self.registers = tuple(counts)
        self.close = close  # closing twice does nothing
        self._counts = counts

    def read(self) -> tuple[int, ...]:
        return tuple(map(self._read_one, self.registers))

    def _read_one(self, register: Register) -> int:
        try:
            return self._counts[register]()
        except (OSError, ValueError) as error:
            answer = errno_name(error) if isinstance(error, OSError) else error
            raise MeasurementError(f"{register} answers {answer}") from error


def hold_open(openers: Mapping[Register, Callable[[], int]], count: Callable[[int], int]) -> HeldCounters:
    """Open a file descriptor for each register; `count` reads one."""
    with ExitStack() as opened:
        counts = dict[Register, Callable[[], int]]()
        for register, opener in openers.items():
            descriptor = opener()
            opened.callback(os.close, descriptor)
            counts[register] = partial(count, descriptor)
        return HeldCounters(counts, opened.pop_all().close)


class Instant(NamedTuple):
    """All totals at one moment."""

    counts: tuple[int, ...]  # in the order of the registers, since the meter was opened
    at_s: float  # midpoint of the reading
    voids: int  # how often something went wrong so far: a window within which it grew is void


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
        anywhere = any(register.restarts_anywhere for register in counters.registers)
        self._pause_s = min(longest_s / 2, _LOOK_S) if anywhere else longest_s / 2
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
        while not self._wait(ended, self._pause_s):
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


_LEAST_BUSY_S = 0.2  # the machine's CPU time is counted in ticks of 10 ms: of less, the share is mostly rounding


class Busy(NamedTuple):
    """CPU seconds so far: counters of the machine count everybody's work."""

    own_s: float  # this process and the children it has waited for
    machine_s: float | None  # all processes on all CPUs, None where the system does not report it


def busy_here() -> Busy:
    return Busy(cpu_seconds(), busy_cpu_seconds())


def share_of(started: Busy, ended: Busy) -> float | None:
    """Return this process's share, from 0.0 to 1.0; None where it is not known or all were idle."""
    if started.machine_s is None or ended.machine_s is None:
        return None
    busy_s = ended.machine_s - started.machine_s
    return None if busy_s < _LEAST_BUSY_S else min(1.0, (ended.own_s - started.own_s) / busy_s)


class Opening(NamedTuple):
    """The beginning of a window."""

    instant: Instant
    busy: Busy | None  # None where the counters are not of the whole machine


@dataclass(kw_only=True, eq=False)
class CounterMeter:
    """Joules that the counters of a source count over a window, whichever process used them."""

    counters: Counters  # which are closed with the meter
    kind: str  # the label is `kind:name+name`
    metric: str = "energy"
    covers: Covered = "processors"
    tick_s: float  # time between two changes of a counter; a window is exact within one of it
    shortest_window_s: float  # shorter windows are refused: one tick would be too large a part of them
    spins: int = 0  # readings to wait for a change before a window begins; 0 begins at once
    before_reading: Callable[[], None] = lambda: None  # called before each reading, as to let a GPU finish
    warnings: tuple[str, ...] = ()  # shown with every figure
    busy: Callable[[], Busy] | None = None  # None where the counters are not of the whole machine
    clock: InitVar[Callable[[], float]] = time.monotonic
    suspended: InitVar[Callable[[], float]] = seconds_suspended

    def __post_init__(self, clock: Callable[[], float], suspended: Callable[[], float]) -> None:
        """Label what is added up, and add it up from now on."""
        self.domains = tuple(register.name for register in self.counters.registers)
        self.source = f"{self.kind}:{'+'.join(self.domains)}"
        longest_s = min((register.longest_s for register in self.counters.registers), default=math.inf)
        self._totals = Totals(self.counters, longest_s=longest_s, clock=clock, suspended=suspended)
        anywhere = any(register.restarts_anywhere for register in self.counters.registers)
        self.longest_window_s = _LONGER * self.shortest_window_s if anywhere else longest_s

    def start(self) -> Opening | str:
        """Wait for a change and read all counters; an error is returned by the end of the window."""
        try:
            self.before_reading()
            self._wait_for_change()
            busy = self.busy() if self.busy else None
            return Opening(self._first(), busy)
        except MeasurementError as error:
            return str(error)

    def end(self, started: Opening | str) -> Reading:
        """Return the joules since `started`; errors, and windows too short or too long, give a reason instead."""
        if isinstance(started, str):
            return Reading(value=None, reason=started)
        try:
            self.before_reading()
            joules = self._joules(started.instant, self._totals.read())
        except MeasurementError as error:
            return Reading(value=None, reason=str(error))
        return Reading(value=joules, share=share_of(started.busy, self.busy()) if self.busy and started.busy else None)

    def attended(self) -> AbstractContextManager[None]:
        """Read regularly while windows of unknown length are open."""
        return self._totals.attended()

    def close(self) -> None:
        """Close the counters; closing twice does nothing."""
        self.counters.close()

    def _first(self) -> Instant:
        """Read once more where the first reading fails.

        What went wrong before this window, as a counter of unknown range that started again, has voided the windows
        that were open; this one is not affected.
        """
        try:
            return self._totals.read()
        except MeasurementError:
            return self._totals.read()

    def _wait_for_change(self) -> None:
        """Begin windows just after a change, so that only their end is off by a part of a tick."""
        if not self.spins:
            return
        before = self.counters.read()
        for _ in range(self.spins):
            if self.counters.read() != before:
                return

    def _joules(self, started: Instant, ended: Instant) -> float:
        window_s = ended.at_s - started.at_s
        if ended.voids > started.voids:
            raise MeasurementError(self._totals.reason)
        if window_s < self.shortest_window_s:
            bound = self.tick_s / max(window_s, self.tick_s)
            raise MeasurementError(
                f"a window of {show(window_s, 's')} has a bound of {show_number(100 * bound, 2)} %; "
                f"{show(self.shortest_window_s, 's')} needed"
            )
        joules = list[float]()
        for register, before, after in zip(self.counters.registers, started.counts, ended.counts, strict=True):
            spent = (after - before) * register.joules
            if spent == 0 and register.never_idle:
                raise MeasurementError(f"{register} did not move in {show(window_s, 's')}: it counts nothing here")
            if spent > MOST_W * window_s:
                raise MeasurementError(
                    f"{register} reads {spent / window_s:.0f} W, above {MOST_W:.0f} W: wrong unit, or it was reset"
                )
            joules.append(spent)
        return math.fsum(joules)


def refusal_warnings(refused: Iterable[str]) -> tuple[str, ...]:
    """Say why better sources are not used, all in one footnote: of a remedy of several lines the first."""
    reasons = [reason.splitlines()[0].removesuffix(".") for reason in refused]
    return (f"better source{'s' * (len(reasons) > 1)} refused: {'; '.join(reasons)}",) if reasons else ()
