"""Time calls: warm up until steady, then windows of calls until `stats/figures/estimates.py` says enough."""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from time import perf_counter_ns

from pytest_hwperf.host.fakes import fakes_in_place
from pytest_hwperf.host.tracing import untraced
from pytest_hwperf.measure.accuracy import refuse_nan, why_unfinished
from pytest_hwperf.measure.items import ItemTimes
from pytest_hwperf.measure.plan import SamplingLimits, WindowPlan, collect_between, collection
from pytest_hwperf.measure.rounds import RoundStream
from pytest_hwperf.measure.stream import FirstCall, Stream
from pytest_hwperf.records.contracts import DerivedMeter, Meter
from pytest_hwperf.records.messages import Remark, Statement, state
from pytest_hwperf.records.run import Reading, Values

_SECOND = 1_000_000_000  # ns
_STEADY = 3  # successive blocks of the warm-up that agree
_MOST_SINGLE = 10_000  # short calls that are timed one by one beside each window
_SLOWED = "calls became three times slower within a window, which was ended early and counts by its calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Calls between two meter readings."""

    calls: int
    wall_s: float
    readings: tuple[Reading, ...]  # in the order of the meters
    items: int = 0  # of the streams that the calls returned


@dataclass(slots=True, kw_only=True)
class RawSamples:
    """Raw readings of one measured call."""

    result: object  # of the first call
    first_call_s: float
    answers: object = None  # labels of the first call
    calls_per_value: int = 1  # or how many calls of one batch share a value of `latency_s`
    in_rounds: bool = False  # whether a batch is a round that was asked for; else calls are too short for the clock
    latency_s: Values = field(default_factory=lambda: array("d"))  # seconds per call
    length_s: Values = field(default_factory=lambda: array("d"))  # seconds of a call over the length of its input
    items: ItemTimes | None = None  # None: calls return no streams
    windows: list[Window] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)


class Sampler:
    """Samples one stream of calls."""

    def __init__(
        self,
        stream: Stream,
        limits: SamplingLimits,
        clock_ns: Callable[[], int] = perf_counter_ns,
        tell: Callable[[str, float], object] = lambda *_: None,
        answers: Callable[[object], object] = lambda _: None,
    ) -> None:
        self._stream = stream
        self._limits = limits
        self._clock_ns = clock_ns
        self._tell = tell
        self._answers = answers

    def measure(
        self,
        meters: Sequence[Meter],
        enough: Callable[[RawSamples], bool],
        warmed: Callable[[float], None] = lambda _: None,
    ) -> RawSamples:
        """Warm up and sample until `enough` agrees or the time is up; of rounds, make as many as were asked for."""
        if isinstance(self._stream, RoundStream) and self._stream.rounds.rounds is not None:
            return self._measure_rounds(self._stream, self._stream.rounds.rounds, meters)
        measured = self._first()
        with _repetition_explained(), collection(held=self._limits.hold_collector, freezes=self._limits.freezes):
            untraced(partial(self._repeat, measured, meters, enough, warmed))
        return measured

    def run(self, meters: Sequence[Meter], load: Callable[[RawSamples], int]) -> RawSamples:
        measured = self._first()

        def warmed_and_run() -> None:
            _, doubt = self._warm_up(measured.first_call_s)
            measured.warnings.extend(filter(None, [doubt]))
            started = [meter.start() for meter in meters]
            before = self._clock_ns()
            calls = load(measured)
            wall_s = self._seconds_since(before)
            readings, items = end_window(meters, started), self._settled_items()
            measured.windows.append(Window(calls=calls, wall_s=wall_s, readings=readings, items=items))

        with _repetition_explained(), collection(held=self._limits.hold_collector, freezes=self._limits.freezes):
            untraced(warmed_and_run)
        return measured

    def _measure_rounds(self, stream: RoundStream, count: int, meters: Sequence[Meter]) -> RawSamples:
        """Make every round; each is a window between meter readings. The very first shows what a call returns."""
        held, iterations = self._limits.hold_collector, stream.rounds.iterations
        opened, windows = list[FirstCall](), list[Window]()

        def work() -> int:
            if opened:
                return stream.round(iterations, self._clock_ns)
            first, taken = stream.opening(iterations, self._clock_ns)
            opened.append(first)
            return taken

        def between() -> Window:
            started = [meter.start() for meter in meters]
            wall_s = max(work(), 1) / _SECOND
            readings = end_window(meters, started)
            collect_between(held=held)
            return Window(calls=iterations, wall_s=wall_s, readings=readings, items=self._settled_items())

        with collection(held=held, freezes=self._limits.freezes):
            for _ in range(stream.rounds.warmup_rounds):
                work()
                collect_between(held=held)
            stream.forget()
            began = self._clock_ns()
            for left in reversed(range(count)):
                windows.append(untraced(between))
                self._tell("rounds", self._seconds_since(began) / len(windows) * left)
        if iterations > 1:
            stream.round(1, self._clock_ns)  # pytest-benchmark makes it too, and there are tests that count their calls
        refuse_nan(opened[0].value)
        return RawSamples(
            result=opened[0].value,
            first_call_s=opened[0].seconds,
            calls_per_value=iterations,
            in_rounds=True,
            latency_s=array("d", (window.wall_s / iterations for window in windows)),
            items=stream.items,
            windows=windows,
        )

    def _first(self) -> RawSamples:
        first = self._stream.first(self._clock_ns)
        unfinished = why_unfinished(first.value)
        refuse_nan(first.value)
        return RawSamples(
            result=first.value,
            answers=self._answers(first.value),
            first_call_s=first.seconds,
            length_s=self._stream.length_s,
            items=self._stream.items,
            warnings=[*([state("waited for gpu")] if self._stream.waits_for_gpu else []), *filter(None, [unfinished])],
        )

    def _repeat(
        self,
        measured: RawSamples,
        meters: Sequence[Meter],
        enough: Callable[[RawSamples], bool],
        warmed: Callable[[float], None],
    ) -> None:
        call_s, doubt = self._warm_up(measured.first_call_s)
        warmed(call_s)
        measured.warnings.extend(filter(None, [doubt]))
        batch = self._batch(call_s)
        measured.calls_per_value = 1 if self._limits.single_calls else batch
        plan = WindowPlan.of(self._limits, call_s * batch, meters)
        with plan.watched(meters):
            self._sample(measured, batch, plan, meters, enough)

    def _warm_up(self, first_s: float) -> tuple[float, Statement | None]:
        """Call in blocks until three successive medians agree; return seconds per call, and what is to be doubted."""
        call_s, medians, limit_s = first_s, list[float](), self._limits.max_time_s / 2
        if self._limits.compiles:  # the first call tells nothing about those after it
            call_s = self._stream.times(1, self._clock_ns)[0] / _SECOND
        deadline = self._clock_ns() + round(limit_s * _SECOND)
        while self._clock_ns() + call_s * _SECOND < deadline:
            count = max(1, min(round(self._limits.block_s / call_s), 10_000)) if call_s else 10_000
            taken = self._stream.times(count, self._clock_ns, deadline)
            self._stream.forget()
            collect_between(held=self._limits.hold_collector)
            self._tell("warm-up", (deadline - self._clock_ns()) / _SECOND)
            call_s = median(taken) / _SECOND
            medians.append(call_s)
            latest = medians[-_STEADY:]
            if len(latest) == _STEADY and max(latest) <= min(latest) * self._limits.steady_ratio:
                return call_s, None
        if not medians:
            return call_s, state("no warm-up", first_s=first_s, limit_s=limit_s)
        kind = "short warm-up" if len(medians) < _STEADY else "not steady"
        return call_s, state(kind, blocks=len(medians), limit_s=limit_s)

    def _batch(self, call_s: float) -> int:
        """Return the calls of a window that share a reading of the clock."""
        if call_s >= self._limits.batch_below_s or self._stream.is_interrupted:
            return 1
        # The loop itself takes some 10 ns an iteration: even a call of no measurable length gets a bounded batch.
        return max(2, round(self._limits.batch_s / max(call_s, 10e-9)))

    def _sample(
        self,
        measured: RawSamples,
        batch: int,
        plan: WindowPlan,
        meters: Sequence[Meter],
        enough: Callable[[RawSamples], bool],
    ) -> None:
        limits, apart = self._limits, measured.calls_per_value < batch
        cost_ns = self._cost_ns(measured.calls_per_value, clock=apart or self._stream.is_interrupted)
        started, look_at = self._clock_ns(), 1
        while True:
            self._tell("sampling", plan.left_s(self._seconds_since(started), len(measured.windows)))
            window, taken = self._window(batch, plan, meters)
            measured.windows.append(window)
            cut = window.calls < plan.values * batch and not self._stream.is_interrupted  # by what lies between them
            if cut and _SLOWED not in measured.warnings:
                measured.warnings.append(_SLOWED)
            if apart:  # outside of the window: what is counted there holds no reading of the clock for each call
                count = min(window.calls, _MOST_SINGLE)
                taken = self._stream.times(count, self._clock_ns, self._deadline(plan))
                self._settled_items()
            size = measured.calls_per_value
            measured.latency_s.extend(max(0.0, ns / size - cost_ns) / _SECOND for ns in taken)
            elapsed_s = self._seconds_since(started)
            collect_between(held=limits.hold_collector)
            if plan.is_over(elapsed_s, len(measured.windows)):
                return
            long_enough = elapsed_s >= limits.min_time_s and len(measured.latency_s) >= limits.min_calls
            if long_enough and len(measured.windows) >= max(look_at, plan.fewest):
                if enough(measured):
                    return
                look_at = 2 * len(measured.windows)

    def _window(self, batch: int, plan: WindowPlan, meters: Sequence[Meter]) -> tuple[Window, Values]:
        """Fill one window; meters are read just outside. Return the nanoseconds of each call or batch too."""
        deadline = self._deadline(plan)
        started = [meter.start() for meter in meters]
        before = self._clock_ns()
        taken = self._timed(plan.values, batch, deadline)
        if self._stream.is_interrupted:
            return self._window_of_calls(started, meters, taken), taken
        while (wall_s := self._seconds_since(before)) < plan.least_s:
            # Calls have become faster since the warm-up, and a meter refuses windows that are too short.
            lacking = len(taken) * (plan.least_s / max(wall_s, 1e-9) - 1)
            taken.extend(self._timed(math.ceil(min(lacking, 10 * len(taken))), batch, deadline))
        readings = end_window(meters, started)
        window = Window(calls=len(taken) * batch, wall_s=wall_s, readings=readings, items=self._settled_items())
        return window, taken

    def _window_of_calls(self, started: Sequence[object], meters: Sequence[Meter], taken: Values) -> Window:
        """Return the window of calls with pauses between them, which belong neither to its time nor to its meters."""
        readings, wall_s = end_window(meters, started), max(sum(taken), 1) / _SECOND
        return Window(calls=len(taken), wall_s=wall_s, readings=readings, items=self._settled_items())

    def _settled_items(self) -> int:
        return self._stream.items.settle() if self._stream.items is not None else 0

    def _timed(self, values: int, batch: int, deadline: float) -> Values:
        """Time calls one by one, or in batches, until there are enough values or the clock has passed `deadline`."""
        if batch == 1:
            return self._stream.times(values, self._clock_ns, deadline)
        taken = array("d")
        with fakes_in_place():  # between batches nothing but the clock is read
            while len(taken) < values and (not taken or self._clock_ns() <= deadline):
                taken.append(self._stream.batch(batch, self._clock_ns))
        return taken

    def _cost_ns(self, size: int, *, clock: bool) -> float:
        """Return what a value holds besides its calls: a share of a batch's loop, or a reading of the clock."""
        if clock:
            return median(self._stream.readings(300, self._clock_ns))
        if size == 1:
            return 0.0
        with fakes_in_place():
            return median(self._stream.empty_batch(size, self._clock_ns) for _ in range(25)) / size

    def _deadline(self, plan: WindowPlan) -> float:
        return self._clock_ns() + plan.patience_s * _SECOND

    def _seconds_since(self, before_ns: int) -> float:
        return (self._clock_ns() - before_ns) / _SECOND


def end_window(meters: Sequence[Meter], started: Sequence[object]) -> tuple[Reading, ...]:
    """Return what each meter has counted; what follows from CPU time takes that of a meter that started after it.

    The last to start is the first to end: a wait for a counter's change is no CPU time of the calls.
    """
    readings = list[Reading]()
    cpu_time: Reading | None = None
    for meter, start in zip(reversed(meters), reversed(started), strict=True):
        if cpu_time is not None and isinstance(meter, DerivedMeter):
            readings.append(meter.derive(cpu_time))
        else:
            readings.append(meter.end(start))
        if meter.metric == "cpu_time":
            cpu_time = readings[-1]
    return tuple(reversed(readings))


@contextmanager
def _repetition_explained() -> Iterator[None]:
    """Add a note to the error of a call that succeeded once and fails later."""
    try:
        yield
    except Exception as error:
        error.add_note("hwperf makes this call many times, and the first one worked: measure what can be repeated")
        raise
