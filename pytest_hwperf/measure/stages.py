"""Stages of a call, such as its preprocessing, timed in calls of their own: no timer is part of a reported latency."""

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from statistics import median
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from pytest_hwperf.host.tracing import untraced
from pytest_hwperf.measure.plan import SamplingLimits, collection
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.records.contracts import CallStage
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.messages import Remark, state
from pytest_hwperf.records.metrics import LONGEST_STAGE, stage_metric
from pytest_hwperf.records.run import Sample, Values
from pytest_hwperf.records.text import shortened

SOURCE = "separate calls by perf_counter"

_SECOND = 1_000_000_000  # ns
_MOST_CALLS, _FEWEST_CALLS = 200, 5
_SHARE_OF_TIME = 0.1  # of the longest sampling
_LARGEST_GAP = 0.10  # of the whole, between it and the sum of its stages
_UNTIMED = nullcontext()

Clock = Callable[[], int]


class Stages:
    """The stages that a measured call names itself, by `with hwperf.stage("preprocess"):`."""

    def __init__(self) -> None:
        """Begin without any; their times are taken only while `timed` is entered."""
        self.names = dict[str, None]()  # of the stages so far, in their order
        self._clock_ns: Clock | None = None  # while they are timed
        self._spent_ns = dict[str, int]()  # since they were last taken
        self._open = list[_Timed]()  # the innermost last

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Return the context of one stage, which does nothing unless stages are being timed."""
        if self._clock_ns is None:
            self.names[name] = None
            return _UNTIMED
        return _Timed(name, self._clock_ns, self._spent_ns, self._open)

    @contextmanager
    def timed(self, clock_ns: Clock) -> Iterator[None]:
        self._clock_ns = clock_ns
        try:
            yield
        finally:
            self._clock_ns = None

    def taken(self) -> dict[str, int]:
        """Return the nanoseconds of each stage, and start again from none."""
        found = dict(self._spent_ns)
        self._spent_ns.clear()
        return found


def _running() -> object:
    """Return the task, or else the thread, that runs now."""
    asyncio = sys.modules.get("asyncio")
    with suppress(RuntimeError):  # no loop runs here
        if asyncio and (task := asyncio.current_task()):
            return task
    return get_ident()


class _Timed:
    """One stage that is being timed; the time of a stage within it, of the same task or thread, is not its own."""

    def __init__(self, name: str, clock_ns: Clock, spent_ns: dict[str, int], opened: "list[_Timed]") -> None:
        self._name, self._clock_ns, self._spent_ns, self._open = name, clock_ns, spent_ns, opened
        self.inner_ns = 0

    def __enter__(self) -> None:
        self.by = _running()
        self._open.append(self)
        self._began_ns = self._clock_ns()

    def __exit__(self, *_: object) -> None:
        taken = self._clock_ns() - self._began_ns
        self._open.remove(self)
        if around := next((one for one in reversed(self._open) if one.by == self.by), None):
            around.inner_ns += taken
        self._spent_ns[self._name] = self._spent_ns.get(self._name, 0) + taken - self.inner_ns


@dataclass(slots=True)
class StageTimes:
    """Seconds of the stages of some calls, and of each of these calls as a whole."""

    whole_s: Values = field(default_factory=lambda: array("d"))
    sums_s: Values = field(default_factory=lambda: array("d"))  # of the stages within each call
    stages_s: dict[str, Values] = field(default_factory=dict)  # of each call that has the stage
    after: tuple[str, ...] = ()  # stages that follow the call

    def add(self, whole_ns: float, spent_ns: dict[str, int]) -> None:
        self.whole_s.append(whole_ns / _SECOND)
        self.sums_s.append(sum(ns for name, ns in spent_ns.items() if name not in self.after) / _SECOND)
        for name, ns in spent_ns.items():
            self.stages_s.setdefault(name, array("d")).append(ns / _SECOND)


def time_named(stages: Stages, stream: Stream, limits: SamplingLimits, clock_ns: Clock = perf_counter_ns) -> StageTimes:
    """Time the stages that a call names itself, in calls made for that; without any, nothing is called."""
    times = StageTimes()
    for name in stages.names:
        _check_name(name)
    if stages.names:
        with stages.timed(clock_ns):

            def one_call() -> None:
                stages.taken()
                taken = stream.times(1, clock_ns)
                times.add(taken[0], stages.taken())

            _repeat(one_call, limits, clock_ns)
        stream.forget()
    return times


def time_chained(
    chain: Sequence[CallStage],
    inputs: Sequence[Any],
    stream: Stream,
    limits: SamplingLimits,
    clock_ns: Clock = perf_counter_ns,
) -> StageTimes:
    """Time stages that are made one by one, each from the value of the one before, in turn with whole calls."""
    times = StageTimes(after=tuple(stage.name for stage in chain if stage.is_after))
    turns = cycle(inputs)

    def one_call() -> None:
        value, spent = next(turns), dict[str, int]()
        for stage in chain:
            began = clock_ns()
            value = stage.call(value)
            spent[stage.name] = clock_ns() - began
        times.add(stream.times(1, clock_ns)[0], spent)

    _repeat(one_call, limits, clock_ns)
    stream.forget()
    return times


def stage_samples(times: StageTimes, latency_s: float, warnings: Sequence[Remark] = ()) -> list[Sample]:
    """Return a sample for each stage, with what has to be known of all."""
    remarks = (*warnings, *_doubts(times, latency_s))
    return [
        Sample(
            metric=stage_metric(name),
            values=values,
            per="call",
            source=SOURCE,
            warnings=(*remarks, state("stage after", stage=name)) if name in times.after else remarks,
        )
        for name, values in times.stages_s.items()
    ]


def _doubts(times: StageTimes, latency_s: float) -> Iterator[Remark]:
    """Yield where the stages miss the whole, and where timing them has made the whole another one."""
    if not times.stages_s:
        return
    whole, together = median(times.whole_s), median(times.sums_s)
    if abs(whole - together) > _LARGEST_GAP * whole:
        yield state("stages miss", sum=together, whole=whole)
    if abs(whole - latency_s) > _LARGEST_GAP * latency_s:
        yield state("stages apart", whole=whole, latency=latency_s)


def _repeat(one_call: Callable[[], None], limits: SamplingLimits, clock_ns: Clock) -> None:
    time_ns = limits.max_time_s * _SHARE_OF_TIME * _SECOND
    with collection(held=limits.hold_collector, freezes=limits.freezes):
        untraced(partial(_repeat_until, one_call, clock_ns() + time_ns, clock_ns))


def _repeat_until(one_call: Callable[[], None], until_ns: float, clock_ns: Clock) -> None:
    for count in range(_MOST_CALLS):
        if count >= _FEWEST_CALLS and clock_ns() >= until_ns:
            return
        one_call()


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name.isidentifier() or len(name) > LONGEST_STAGE:
        raise UsageProblem(
            f"hwperf.stage({shortened(str(name))}): a stage is named by letters, digits and underscores, at most "
            f"{LONGEST_STAGE}, such as hwperf.stage('preprocess')"
        )
