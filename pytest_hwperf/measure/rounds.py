"""Calls in rounds: so many of them as are asked for, and what has to be done before and after each, untimed."""

import reprlib
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import IOBase
from itertools import count, cycle, repeat
from typing import Any

from pytest_hwperf.host.clocks import cpu_seconds
from pytest_hwperf.host.fakes import RealClock, fakes_in_place
from pytest_hwperf.measure.inputs import inputs_of
from pytest_hwperf.measure.items import Clock
from pytest_hwperf.measure.stream import FirstCall, Loop, Stream
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.run import Values

BETWEEN = "setup and teardown lie between the calls, and would be counted too"
USED_UP = "is an iterator, which one call uses up"

_SECOND = 1_000_000_000  # ns

Arguments = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(slots=True)
class Pauses:
    """Time that has passed between calls, and belongs to none of them."""

    ns: int = 0

    def clock_ns(self) -> int:
        """Return the time on a clock that stands still between calls."""
        return RealClock.perf_counter_ns() - self.ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How many calls are made, and with which arguments."""

    prepare: Callable[[], Arguments]  # before every round: the arguments of its calls
    teardown: Callable[..., object] | None = None  # after every round, with the same arguments
    interrupts: bool = False  # whether anything has to be done between rounds
    rounds: int | None = 1  # None: as many as the measurement takes
    warmup_rounds: int = 0
    iterations: int = 1  # calls of a round
    pauses: Pauses = field(default_factory=Pauses)  # all that were made between calls


class RoundStream(Stream):
    """Calls each of which is a round of its own: prepared before, tidied up after, and timed in between."""

    def __init__(self, function: Callable[..., Any], rounds: Rounds, loop: Loop | None = None) -> None:
        self._target, self.rounds = function, rounds
        self._now: Arguments = ((), {})
        self.cpu_s = 0.0  # of the calls alone, with their threads and children
        self.thread_ns = 0  # of these, of the calling thread
        with fakes_in_place():
            call = self._call if rounds.interrupts else _bound(function, rounds.prepare())
        watched = None if rounds.interrupts else inputs_of(call)
        super().__init__(call, None, loop, watched=watched)
        self.is_interrupted = rounds.interrupts
        self.caller = RoundStream._call.__code__ if rounds.interrupts else None

    def _call(self) -> Any:
        arguments, named = self._now
        return self._target(*arguments, **named)

    @contextmanager
    def _prepared(self) -> Iterator[None]:
        pauses, began = self.rounds.pauses, RealClock.perf_counter_ns()
        self._now = self.rounds.prepare()
        pauses.ns += RealClock.perf_counter_ns() - began
        yield
        began = RealClock.perf_counter_ns()
        if self.rounds.teardown is not None:
            arguments, named = self._now
            self.rounds.teardown(*arguments, **named)
        pauses.ns += RealClock.perf_counter_ns() - began

    def first(self, clock_ns: Clock = RealClock.perf_counter_ns) -> FirstCall:
        return self.opening(1, clock_ns)[0]

    def opening(self, iterations: int, clock_ns: Clock) -> tuple[FirstCall, int]:
        """Make the first round; return its first call, and the nanoseconds of all."""
        with fakes_in_place(), self._prepared():
            with self._counted():
                first = super().first(clock_ns)
            if self.awaits:
                raise UsageProblem(
                    "setup= and rounds take a plain function: give an async one to hwperf(...) without them, which "
                    "awaits it"
                )
            return first, round(first.seconds * _SECOND) + self._timed(iterations - 1, clock_ns)

    def round(self, iterations: int, clock_ns: Clock) -> int:
        with fakes_in_place(), self._prepared():
            return self._timed(iterations, clock_ns)

    def _timed(self, count: int, clock_ns: Clock) -> int:
        if not count:
            return 0
        with self._counted():
            return super()._batch(count, clock_ns)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        thread_ns, cpu_s = RealClock.thread_time_ns(), cpu_seconds()
        yield
        self.cpu_s += cpu_seconds() - cpu_s
        self.thread_ns += RealClock.thread_time_ns() - thread_ns

    def _times(self, count: int, clock_ns: Clock, deadline_ns: float) -> Values:
        if not self.is_interrupted:
            return super()._times(count, clock_ns, deadline_ns)
        taken = array("d")
        while len(taken) < count and (not taken or clock_ns() <= deadline_ns):
            taken.append(self.round(1, clock_ns))
        return taken

    def _batch(self, count: int, clock_ns: Clock) -> int:
        if not self.is_interrupted:
            return super()._batch(count, clock_ns)
        return sum(self.round(1, clock_ns) for _ in range(count))


def arguments_of(args: Sequence[Any], kwargs: Mapping[str, Any], setup: Callable[[], Any]) -> Arguments:
    """Call a setup; return the arguments of the call after it: those that it returns, or the given ones."""
    found = setup()
    if found is None or (isinstance(found, Sized) and not len(found)):
        return args, kwargs
    if args or kwargs:
        raise UsageProblem("setup=: it returns arguments, and others are given too; give them in one place")
    match found:
        case (list() | tuple() as positional, Mapping() as named):
            return positional, named
    raise UsageProblem(
        f"setup=: it returned {reprlib.repr(found)}: it returns None, or (args, kwargs) of the call, such as "
        "([rows], {})"
    )


def refuse_used_up(args: Sequence[Any], kwargs: Mapping[str, Any], kind: str = "argument") -> None:
    """Refuse a value that the first call uses up: the calls after it would find nothing, and be fast."""
    for name, value in (*enumerate(args, 1), *kwargs.items()):
        if is_used_up(value):
            raise UsageProblem(
                f"{kind} {name!r} {USED_UP}: make it a list, or let setup= return a new one for each call, such as "
                "hwperf(read, setup=lambda: ([new_rows()], {})); open a file in the call"
            )


def is_used_up(value: object) -> bool:
    """Whether it is an iterator that ends, and that calls neither fill again, as a cursor, nor write to."""
    if isinstance(value, count | cycle | repeat) or hasattr(value, "execute"):
        return False
    if not isinstance(value, Iterator):
        return isinstance(value, AsyncIterator)
    return not isinstance(value, IOBase) or not (value.closed or value.writable())


class FixtureValues:
    """The values that a body is called with."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def why_not_again(self) -> str:
        """Say which of them a call uses up, as far as that can be seen; "" where none."""
        return next(
            (f"its fixture {name!r} {USED_UP}" for name, value in self._values.items() if is_used_up(value)), ""
        )


def _bound(function: Callable[..., Any], given: Arguments) -> Callable[..., Any]:
    arguments, named = given
    return partial(function, *arguments, **named) if arguments or named else function
