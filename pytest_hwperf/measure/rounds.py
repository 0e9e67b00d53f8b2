"""Calls in rounds: so many of them as are asked for, and what has to be done before and after each, untimed."""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Any

from pytest_hwperf.core.contracts import Meter
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.records import Values
from pytest_hwperf.host.tracing import untraced
from pytest_hwperf.measure.collection import collect_between, collection
from pytest_hwperf.measure.event_loop import Loop
from pytest_hwperf.measure.items import Clock
from pytest_hwperf.measure.outputs import refuse_nan
from pytest_hwperf.measure.sampling import RawSamples, Sampler, Window
from pytest_hwperf.measure.stream import FirstCall, Stream

_SECOND = 1_000_000_000  # ns

Arguments = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How many calls are made, and with which arguments."""

    prepare: Callable[[], Arguments]  # before every round: the arguments of its calls
    teardown: Callable[..., object] | None = None  # after every round, with the same arguments
    interrupts: bool = False  # whether anything has to be done between rounds
    rounds: int = 1
    warmup_rounds: int = 0
    iterations: int = 1  # calls of a round


class RoundStream(Stream):
    """Calls each of which is a round of its own: prepared before, tidied up after, and timed in between."""

    def __init__(self, function: Callable[..., Any], rounds: Rounds, loop: Loop | None = None) -> None:
        """Call `function` with the arguments that `rounds` prepares."""
        self._target, self.rounds = function, rounds
        self._now: Arguments = ((), {})
        super().__init__(self._call if rounds.interrupts else _bound(function, rounds.prepare()), None, loop)

    @property
    def is_interrupted(self) -> bool:
        """Whether more is done between two calls than to call: what counts over several calls counts that too."""
        return self.rounds.interrupts

    def _call(self) -> Any:
        arguments, named = self._now
        return self._target(*arguments, **named)

    @contextmanager
    def _prepared(self) -> Iterator[None]:
        """Prepare the arguments of a round, and tidy up after it."""
        self._now = self.rounds.prepare()
        yield
        if self.rounds.teardown is not None:
            arguments, named = self._now
            self.rounds.teardown(*arguments, **named)

    def first(self, clock_ns: Clock = perf_counter_ns) -> FirstCall:
        """Make one round of a single call."""
        return self.opening(1, clock_ns)[0]

    def opening(self, iterations: int, clock_ns: Clock) -> tuple[FirstCall, int]:
        """Make the first round; return its first call, and the nanoseconds of all.

        Raises:
            UsageProblem: its calls are async.
        """
        with self._prepared():
            first = super().first(clock_ns)
            if self.awaits:
                raise UsageProblem("a round takes a plain function: give an async one to hwperf(...), which awaits it")
            return first, round(first.seconds * _SECOND) + self._timed(iterations - 1, clock_ns)

    def round(self, iterations: int, clock_ns: Clock) -> int:
        """Make one round; return the nanoseconds of its calls."""
        with self._prepared():
            return self._timed(iterations, clock_ns)

    def _timed(self, count: int, clock_ns: Clock) -> int:
        return super()._batch(count, clock_ns) if count else 0

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


class RoundSampler(Sampler):
    """Samples exactly the rounds that were asked for."""

    _stream: RoundStream

    def measure(
        self,
        meters: Sequence[Meter],
        enough: Callable[[RawSamples], bool],  # noqa: ARG002 - as many as were asked for
        warmed: Callable[[float], None] = lambda _: None,  # noqa: ARG002 - the same
    ) -> RawSamples:
        """Make every round; each is a window between meter readings.

        Raises:
            MeasurementError: the first call returns NaN.
            Exception: whatever the measured function raises.
        """
        opened, stream, held = list[FirstCall](), self._stream, self._limits.hold_collector
        rounds = stream.rounds
        work = partial(_round_of, stream, opened, self._clock_ns)
        with collection(held=held):
            for _ in range(rounds.warmup_rounds):
                work()
                collect_between(held=held)
            began, windows = self._clock_ns(), list[Window]()
            for left in reversed(range(rounds.rounds)):
                windows.append(untraced(partial(self._between, meters, work, held=held)))
                self._tell("rounds", self._seconds_since(began) / len(windows) * left)
        if rounds.iterations > 1:
            stream.round(1, self._clock_ns)  # pytest-benchmark makes it too, and there are tests that count their calls
        refuse_nan(opened[0].value)
        return RawSamples(
            result=opened[0].value,
            first_call_s=opened[0].seconds,
            calls_per_value=rounds.iterations,
            in_rounds=True,
            latency_s=array("d", (window.wall_s / rounds.iterations for window in windows)),
            items=stream.items,
            windows=windows,
        )

    def _between(self, meters: Sequence[Meter], work: Callable[[], int], *, held: bool) -> Window:
        started = [meter.start() for meter in meters]
        taken = work()
        ended = [meter.end(start) for meter, start in zip(reversed(meters), reversed(started), strict=True)]
        collect_between(held=held)
        calls, wall_s = self._stream.rounds.iterations, max(taken, 1) / _SECOND
        return Window(calls=calls, wall_s=wall_s, readings=tuple(reversed(ended)), items=self._settled_items())


def _round_of(stream: RoundStream, opened: list[FirstCall], clock_ns: Clock) -> int:
    """Make a round; the very first one shows what a call returns."""
    if opened:
        return stream.round(stream.rounds.iterations, clock_ns)
    first, taken = stream.opening(stream.rounds.iterations, clock_ns)
    opened.append(first)
    return taken


def _bound(function: Callable[..., Any], given: Arguments) -> Callable[..., Any]:
    arguments, named = given
    return partial(function, *arguments, **named) if arguments or named else function
