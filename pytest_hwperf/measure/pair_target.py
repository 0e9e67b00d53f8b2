"""A loaded subject in a process of a pair: what its conductor may ask of it."""

from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

from pytest_hwperf.host.tracing import untraced, why_untimed
from pytest_hwperf.measure.accuracy import (
    MOST_CLASSES,
    correctness_throughout,
    flips,
    name_columns,
    probability_differences,
    told_differences,
)
from pytest_hwperf.measure.plan import collect_between, collection
from pytest_hwperf.measure.rounds import RoundStream
from pytest_hwperf.measure.stream import FirstCall, Stream
from pytest_hwperf.measure.subjects import LoadedSubject, Subject
from pytest_hwperf.records.contracts import CountingMeter, Meter, Predictions
from pytest_hwperf.records.errors import MeasurementError, ScenarioUnavailable
from pytest_hwperf.records.evidence import EnergyWindow
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import BALANCED_ACCURACY, WORST_CLASS, taken_by
from pytest_hwperf.records.run import Sample, Served
from pytest_hwperf.records.units import show

_ROUNDS = 15  # calls and a block of iterations; the shortest of either counts: the rest was disturbed
_CALLS = 3  # in a round: in turn with the loop, so that both ran on the same processors at the same speeds
_ITERATIONS = 2_000  # in a block


def planted(stream: Stream, share: float, clock_ns: Callable[[], int] = perf_counter_ns) -> Callable[..., Any]:
    """Return the function of a stream with more work after every call."""
    block, calls, blocks = Stream(_followed_by(range(_ITERATIONS), lambda: None), None), list[float](), list[float]()
    for _ in range(_ROUNDS):
        calls += [stream.times(1, clock_ns)[0] for _ in range(_CALLS)]
        blocks.append(block.times(1, clock_ns)[0])
    iterations = range(round(share * min(calls) * _ITERATIONS / min(blocks)))
    return (_awaited_and_followed_by if stream.awaits else _followed_by)(iterations, stream.function)


def _followed_by(iterations: range, function: Callable[..., Any]) -> Callable[..., Any]:
    def slower(*arguments: Any) -> Any:
        result = function(*arguments)
        for _ in iterations:
            pass
        return result

    return slower


def _awaited_and_followed_by(iterations: range, function: Callable[..., Any]) -> Callable[..., Any]:
    async def slower(*arguments: Any) -> Any:
        result = await function(*arguments)
        for _ in iterations:
            pass
        return result

    return slower


ARENA = taken_by("session")
BY_CLASS = (WORST_CLASS, BALANCED_ACCURACY)
PARITY = ("flip_rate", "probability_diff")  # what is taken against the reference

Under = Callable[[Stream, int], Served]

_SECOND = 1_000_000_000  # ns
_ABOUT = 0.9  # of the reserved window: what the calls are expected to take is an estimate itself


@dataclass(slots=True)
class PairTarget:
    """A loaded subject, on which a conductor times blocks of calls."""

    subject: Subject
    loaded: LoadedSubject
    stream: Stream  # of its calls
    open_energy: Callable[[], Meter | None]
    plant: float = 0.0  # share of work that is planted into every call, for a self-check
    hold_collector: bool = False  # collect garbage before each block alone
    under: Under | None = None  # makes so many calls under the load of their test; None: one after the other
    pace_s: float = 0.0  # from the beginning of a call to that of the next, as a schedule or a setup has it
    opening: Any | None = None  # labels of the first call
    cpu_ns: tuple[int, int] | None = None  # of process and calling thread in the calls of the latest block, if apart
    _rate: float = 0.0  # calls a second of the latest block under a load

    def refuse_unnamed(self, value: object) -> None:
        """Refuse a model that gives positions of columns where the data has other labels, and nobody names them."""
        if self.subject.y_true is not None:
            name_columns(self.loaded.unnamed_columns(value), self.subject.classes, self.subject.y_true)

    def prepare(self) -> None:
        """Collect the garbage of the last block where the collector is held; plant the work of a self-check once."""
        if self.plant:  # only now: while both sides prepare, each slows the other, and loops otherwise than calls
            self.stream.function = planted(self.stream, self.plant)
            self.plant = 0.0
        self.stream.forget()
        collect_between(held=self.hold_collector)

    def block(self, calls: int, batch: int) -> "array[int]":
        """Time `calls` calls one by one, or in batches of `batch`; return nanoseconds of each call or batch."""
        if self.under is not None:
            return self._block_under(self.under, calls, batch)
        if isinstance(self.stream, RoundStream) and self.stream.is_interrupted:
            return self._block_between(self.stream, calls * batch, batch)
        if batch == 1:
            return array("q", map(int, untraced(partial(self.stream.times, calls, perf_counter_ns))))
        return untraced(lambda: array("q", (self.stream.batch(batch, perf_counter_ns) for _ in range(calls))))

    def _block_between(self, stream: RoundStream, calls: int, batch: int) -> "array[int]":
        """Time calls with pauses between them; note how far they are apart, and what they alone have computed."""
        cpu_s, thread_ns, began = stream.cpu_s, stream.thread_ns, perf_counter_ns()
        taken = untraced(partial(stream.times, calls, perf_counter_ns))
        self.pace_s = (perf_counter_ns() - began) / _SECOND / calls
        self.cpu_ns = round((stream.cpu_s - cpu_s) * _SECOND), stream.thread_ns - thread_ns
        return array("q", (round(sum(taken[first : first + batch])) for first in range(0, calls, batch)))

    def _block_under(self, under: Under, calls: int, batch: int) -> "array[int]":
        """Let `calls` times `batch` calls arrive as their load says.

        Of calls that are due at once, each waits for all before it: what is compared is the time between two ends.
        """
        served: Served = untraced(partial(under, self.stream, calls * batch))
        ended = sorted(served.ended)
        self._rate = len(ended) / ended[-1]
        taken = [end - before for before, end in pairwise([0.0, *ended])] if served.at_once else served.latencies
        sums = (sum(taken[first : first + batch]) for first in range(0, len(taken), batch))
        return array("q", (round(seconds * _SECOND) for seconds in sums))

    def parts(self) -> dict[str, float]:
        """Return metric → median in seconds, of the items of the streams in the latest block; of a load, its rate."""
        found = {"throughput": self._rate} if self.under is not None else {}
        items = self.stream.items
        if items is None:
            return found
        items.settle()
        return {**found, **items.medians()}

    def exact(self) -> list[Sample]:
        predicted = self.loaded.predictions() if self.loaded.predictions else None
        samples, _, _ = exact_samples(self.subject, predicted, self.opening)
        peaks, _ = arena_samples(self.subject)
        return [*samples, *peaks]

    def energy(self, calls: int, seconds: float) -> EnergyWindow:
        """Return joules per row over a window of `calls` calls, or the reason why not.

        Where the meter needs a longer window than the `seconds` that they take, nothing is called, and `needed_s` says
        how long, with a reserve for calls that have got faster.
        """
        if self.under is not None:
            return EnergyWindow(reason="energy is not compared under a load: name cpu_time instead")
        if self.stream.is_interrupted:
            return EnergyWindow(reason="setup and teardown lie between the calls: name cpu_time instead")
        meter = self.open_energy()
        if meter is None or meter.covers == "estimate":
            return EnergyWindow(reason="energy is not measured here")
        needed_s = 1.25 * meter.shortest_window_s
        if seconds < needed_s * _ABOUT:
            return EnergyWindow(needed_s=needed_s, reason=f"windows of {show(needed_s, 's')} are needed")
        with meter.attended() if isinstance(meter, CountingMeter) else nullcontext():
            before = meter.start()
            untraced(partial(self.stream.batch, calls, perf_counter_ns))
            reading = meter.end(before)
        if reading.value is None:
            return EnergyWindow(reason=reading.reason, source=meter.source)
        return EnergyWindow(joules=reading.value / (calls * (self.subject.rows or 1)), source=meter.source)


@contextmanager
def ready_target(  # noqa: PLR0913 - how calls are made, by name
    subject: Subject,
    open_energy: Callable[[], Meter | None],
    plant: float = 0.0,
    *,
    hold_collector: bool = False,
    freezes: bool = True,
    is_frozen: bool = False,
    under: Under | None = None,
    pace_s: float = 0.0,
) -> Iterator[tuple[PairTarget, FirstCall]]:
    """Load a subject and call it once; yield what a conductor may ask, and that call.

    Where the collector is held, garbage is meanwhile collected only where the target does it.
    """
    if (why := why_untimed()) is not None:
        raise MeasurementError(f"nothing is timed here: {why}")
    loaded = subject.load()
    with loaded.scope():
        stream = loaded.stream()
        first = stream.first(perf_counter_ns)
        with collection(held=hold_collector, freezes=freezes, is_frozen=is_frozen):
            opening = loaded.answers(first.value)
            yield PairTarget(subject, loaded, stream, open_energy, plant, hold_collector, under, pace_s, opening), first


def exact_samples(
    subject: Subject, predicted: Predictions | None, opening: Any | None = None
) -> tuple[list[Sample], dict[str, Statement], dict[str, str]]:
    """Take what needs no clock: accuracy and parity with the reference on every example, and the model's size.

    The last is context: how far the answers are from those of the reference, at the batch size that is measured.
    """
    found, missing, context = list[Sample](), dict[str, Statement](), dict[str, str]()
    if predicted is not None and subject.y_true is not None:
        source = subject.scenario or "callable"
        named = name_columns(predicted.unnamed_columns, subject.classes, subject.y_true)
        first = None if opening is None else named(opening)
        right = correctness_throughout(named(predicted.labels), first, subject.y_true, source)
        found.append(right)
        if right.classes is None:
            missing = dict.fromkeys(BY_CLASS, state("no classes", most=MOST_CLASSES))
    if predicted is not None and subject.reference_predictions is not None:
        try:
            reference = subject.reference_predictions()
            compared, absent = _parity(subject, predicted, reference) if subject.classifies else ([], {})
            found.extend(compared)
            missing |= absent
            context["agreement"] = f"{told_differences(predicted, reference)} from {subject.reference}"
        except ScenarioUnavailable as reason:
            why = state("no reference", reference=subject.reference, why=str(reason))
            missing |= dict.fromkeys(PARITY, why)
    if subject.model_bytes is not None:
        values = array("d", [subject.model_bytes])
        found.append(Sample(metric="model_size", values=values, per="model", source=subject.size_source))
    return found, missing, context


def _parity(
    subject: Subject, predicted: Predictions, reference: Predictions
) -> tuple[list[Sample], dict[str, Statement]]:
    """Compare labels with the reference's, and probabilities where both have some."""
    source = f"against {subject.reference}"
    found = [flips(predicted.labels, reference.labels, source=source)]
    for one, scenario in ((predicted, subject.scenario), (reference, subject.reference)):
        if one.probabilities is None:
            return found, {PARITY[1]: state("no probabilities", scenario=scenario)}
    return [*found, probability_differences(predicted.probabilities, reference.probabilities, source=source)], {}


def arena_samples(subject: Subject) -> tuple[list[Sample], dict[str, Statement]]:
    """Take the peaks of the runtime's own allocator, in a separate session; nothing where the runtime has none."""
    if subject.arena is None:
        return [], {}
    try:
        peaks = subject.arena()
    except MeasurementError as error:
        return [], dict.fromkeys(ARENA, said(error))
    samples = [
        Sample(metric=metric, values=array("d", [peak]), per="session", source=subject.arena_source)
        for metric, peak in peaks.items()
    ]
    return samples, {}
