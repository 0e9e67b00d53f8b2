"""One measurement of one pair: both sides warm up and take turns in blocks whose order is drawn."""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from statistics import fmean, harmonic_mean, median
from typing import TypeVar

from pytest_hwperf.gate.channel import (
    AskEnergy,
    AskExact,
    BlockTimes,
    Ended,
    Endpoint,
    EnergyResult,
    ExactSamples,
    Numbers,
    Pinned,
    PinTo,
    TimeBlock,
    ToWorker,
    WorkerLostError,
)
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Assignment, EnergyWindow, Measurement, Observation, Side
from pytest_hwperf.records.messages import Difference, Statement, said, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY, metric_of
from pytest_hwperf.records.run import Sample, Values, replace
from pytest_hwperf.stats.block_plans import BlockPlan
from pytest_hwperf.stats.hypotheses import SIDES
from pytest_hwperf.stats.paired import least_calls, pooled_percentile
from pytest_hwperf.stats.ranks import quantile

M = TypeVar("M")

_SECOND = 1_000_000_000  # ns
_TURNS = 4  # of a double block
_STEADY = 3  # successive warm-up blocks that have to agree
ENERGY_WINDOW_S = 0.6  # half a second at least, with a reserve for calls that have got faster
_LONGEST_ENERGY_WINDOW_S = 20.0  # boards need 12.5 s at their slowest
_POOL = 0.2  # CPU time of other threads over that of the one that calls, from which a pool was at work
_LEAST_CPU_NS = 1_000_000  # CPU time below which the clocks' own cost would look like threads


@dataclass(slots=True, kw_only=True)
class Block:
    """One turn of one side."""

    taken_s: Values  # seconds of each call or batch mean, the cold ones left out
    cpu_s: float  # per call, the cold ones included
    preempted: bool
    parts: Mapping[str, float]  # metric → median, in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """A side that has warmed up."""

    call_s: float
    pool: bool  # whether other threads are at work too
    pace_s: float  # of its schedule
    warning: str = ""


@dataclass(slots=True, kw_only=True)
class Interleaving:
    """What one measurement of a pair gave."""

    assignment: Assignment
    observations: list[Observation]
    cpu_s: Mapping[Side, float] = field(default_factory=dict)  # of a call
    pools: frozenset[Side] = frozenset()  # sides with more threads at work than the one that calls
    refused: dict[tuple[str, str], Statement] = field(default_factory=dict)  # (metric, statistic) without a value → why


@dataclass(slots=True)
class Interleaver:
    """Conducts both sides through one measurement."""

    connections: Mapping[Side, Endpoint]  # both sides, each waiting for its turn; or one of them, see `gate.serial`
    plan: BlockPlan
    toss: Callable[[], bool]  # a fair coin
    statistics: Sequence[tuple[str, str]]  # (metric, statistic) wanted: of latency, CPU time or energy
    margin: float = 0.0  # relative, the smallest of what is asked: turns may end early; 0: they do not
    processor: int | None = None  # that both sides share in their turns; None leaves them to the scheduler
    also: Sequence[tuple[str, str]] = ()  # statistics of the same calls, for which no more are made
    leave: Callable[[int], None] = lambda _: None  # called with how many processors they leave to others, at least

    def measure(self, measurement: Measurement) -> Interleaving:
        """Warm both sides up and let them take turns."""
        order = SIDES if self.toss() else SIDES[::-1]
        self.leave(0)
        warm = {side: self.warm_up(side) for side in order}
        call_s = math.sqrt(warm["baseline"].call_s * warm["candidate"].call_s)  # the same, whichever side is which
        spaced_s = max(call_s, *(one.pace_s for one in warm.values()))
        batch = self.batch(spaced_s)
        pool = any(one.pool for one in warm.values())
        plan = self.plan.paced() if any(one.pace_s for one in warm.values()) else self.plan
        doubles = plan.doubles_of([max(one.call_s, one.pace_s) for one in warm.values()])
        needed = math.ceil(self.needed / (2 * doubles))
        calls, cold = plan.block(spaced_s * batch, pool=pool, needed=needed)
        refused = "" if pool or self.processor is None else self._pin_both(self.processor)
        shared = None if pool or refused else self.processor
        self.leave(0 if shared is None else 1)
        turns, blocks = self._drawn(doubles), dict[Side, list[Block]]({"baseline": [], "candidate": []})
        if shared is not None and calls > 1 and not spaced_s > call_s:  # caches of a processor that is new to both
            for side in turns[:2]:
                self.turn(side, calls // 2, batch, rest=False, expected_s=warm[side].call_s * batch * calls)
        for side, following in zip_longest(turns, turns[1:]):
            expected_s = max(warm[side].call_s, warm[side].pace_s) * batch * calls
            rest = pool and side != following  # without a pool nothing spins on after the calls
            block, taken_ns = self.turn(side, calls, batch, rest=rest, expected_s=expected_s)
            blocks[side].append(block_of(block, taken_ns, batch, cold))
            done = sum(map(len, blocks.values()))
            if done % _TURNS == 0 and self._is_enough(blocks):
                break
        letters = "".join(side[0].upper() for side in turns[:done])
        interleaving = Interleaving(
            assignment=Assignment(measurement=measurement, turns=letters, processor=shared),
            observations=[],
            cpu_s={side: fmean(block.cpu_s for block in blocks[side]) for side in SIDES},
            pools=frozenset(side for side in SIDES if warm[side].pool),
        )
        self.leave(0)  # whatever else computes has a part in an energy window
        warnings = [f"{side}: {one.warning}" for side, one in warm.items() if one.warning]
        warnings += [f"the sides do not share a processor: {refused}"] if refused else []
        observed = chain(self._observed(measurement, blocks), self._energy(interleaving, call_s))
        interleaving.observations.extend(replace(one, warnings=tuple(warnings)) for one in observed)
        self.leave(1)
        return interleaving

    def _is_enough(self, blocks: Mapping[Side, Sequence[Block]]) -> bool:
        """Whether no further turns are needed, by the medians that are asked for."""
        medians = [values_of(blocks[side], *MEDIAN_LATENCY) for side in SIDES]
        if min(map(min, medians)) <= 0:
            return False
        changes = [math.log(new) - math.log(old) for old, new in zip(*medians, strict=True)]
        return self.plan.is_enough(changes, self.margin)

    def _pin_both(self, processor: int) -> str:
        """Let both sides share `processor`, or neither; return why not.

        Processors differ in speed, and do so from one second to the next where others share the machine: two sides on
        two processors would measure these.
        """
        refused = [f"{side}: {why}" for side in SIDES if (why := self.pinned(side, processor))]
        if refused:
            for side in SIDES:
                self.pinned(side, None)
        return "; ".join(refused)

    def pinned(self, side: Side, processor: int | None) -> str:
        """Let a side run on a processor in its turns, None: wherever it may; return why not."""
        return self._ask(side, PinTo(processor=processor), Pinned)[0].reason

    def _drawn(self, doubles: int) -> list[Side]:
        """Draw the order of all turns, two of either side in a row: fewer hand-overs, and drift cancels."""
        turns = list[Side]()
        for _ in range(doubles):
            one, other = SIDES if self.toss() else SIDES[::-1]
            turns += [one, other, other, one]
        return turns

    def exact(self) -> dict[Side, Sequence[Sample]]:
        """Ask the sides that are there for what needs no clock."""
        there = [side for side in SIDES if side in self.connections]
        return {side: self._ask(side, AskExact(), ExactSamples)[0].samples for side in there}

    def warm_up(self, side: Side) -> Warm:
        """Let a side warm up until its blocks agree."""
        plan, medians, pools, spent, count, pace_s = self.plan, list[float](), list[bool](), 0.0, 1, 0.0
        while len(medians) < plan.warm_blocks and spent < plan.warm_s:
            expected_s = max(medians[-1], pace_s) * count if medians else None
            block, taken_ns = self.turn(side, count, 1, rest=True, expected_s=expected_s)
            call_s, pace_s = max(median(taken_ns) / _SECOND, 1e-9), block.pace_s
            spent += max(sum(taken_ns) / _SECOND, pace_s * count)
            own_ns = block.thread_ns  # of a caller that only waits for others it is next to nothing
            pools.append(block.cpu_ns - own_ns > _POOL * max(own_ns, _LEAST_CPU_NS))
            count = max(1, min(round(plan.warm_block_s / max(call_s, pace_s)), 20_000))
            medians.append(call_s)
            latest = medians[-_STEADY:]
            if len(latest) == _STEADY and max(latest) <= min(latest) * plan.steady_ratio:
                return Warm(call_s=call_s, pool=_mostly(pools), pace_s=pace_s)
        slow = len(medians) < _STEADY
        doubt = "calls too slow for a warm-up of three blocks" if slow else "no steady state in its warm-up"
        return Warm(call_s=medians[-1], pool=_mostly(pools), pace_s=pace_s, warning=doubt)

    @property
    def needed(self) -> int:
        """Values of a side that what is wanted takes."""
        return max((least_calls(statistic) for _, statistic in self.statistics), default=0)

    def batch(self, call_s: float) -> int:
        """Return the calls that share a clock reading; one where percentiles of calls are wanted."""
        single = any(
            metric_of(metric).in_turns == "seconds" and statistic != "p50"
            for metric, statistic in (*self.statistics, *self.also)
        )
        if single or call_s >= self.plan.batch_below_s:
            return 1
        return max(2, round(self.plan.batch_s / max(call_s, 10e-9)))

    def turn(
        self, side: Side, calls: int, batch: int, *, rest: bool, expected_s: float | None
    ) -> tuple[BlockTimes, Numbers]:
        """Let a side time one block; return what it reports, and the nanoseconds of each call or batch."""
        question = TimeBlock(calls=calls, batch=batch, rest=rest)
        block, taken_ns = self._ask(side, question, BlockTimes, expected_s)
        if len(taken_ns) != calls:
            raise WorkerLostError(f"answered with {len(taken_ns)} times where {calls} were due", side=side)
        if min(taken_ns) < 0 or not sum(taken_ns):
            raise WorkerLostError("answered with calls that took no time at all", side=side)
        return block, taken_ns

    def _ask(self, side: Side, question: ToWorker, kind: type[M], expected_s: float | None = None) -> tuple[M, Numbers]:
        """Ask a side, and wait for an answer of one kind; longest where nothing is known of how long it takes."""
        connection, plan = self.connections[side], self.plan
        connection.send(question)
        try:
            frame = connection.receive(plan.first_block_s if expected_s is None else plan.patience_s + 3 * expected_s)
        except WorkerError as error:
            if isinstance(error, WorkerLostError) and error.side:
                raise
            raise WorkerLostError(str(error), side=side) from error
        if isinstance(frame.message, Ended):
            reason = frame.message.ended.reason
            raise WorkerLostError(f"the measured call failed in the middle of its turn: {reason}", side=side)
        if not isinstance(frame.message, kind):
            given = type(frame.message).__name__
            raise WorkerLostError(f"sent {given!r} where {kind.__name__!r} was due", side=side)
        return frame.message, frame.numbers

    def _observed(self, measurement: Measurement, blocks: Mapping[Side, Sequence[Block]]) -> Iterator[Observation]:
        """Reduce the blocks to what each wanted statistic needs."""
        preempted = fmean(block.preempted for side in SIDES for block in blocks[side])
        for metric, statistic in dict.fromkeys((*self.statistics, *also_taken(self.also, blocks["baseline"]))):
            values = {side: values_of(blocks[side], metric, statistic) for side in SIDES}
            if 0 < len(values["baseline"]) == len(values["candidate"]):  # a stream may have no items in some block
                yield Observation(
                    measurement=measurement,
                    metric=metric,
                    statistic=statistic,
                    baseline=values["baseline"],
                    candidate=values["candidate"],
                    preempted=preempted,
                )

    def _energy(self, interleaving: Interleaving, call_s: float) -> Iterator[Observation]:
        asked = next((key for key in self.statistics if metric_of(key[0]).in_turns == "window"), None)
        if asked is None:
            return
        readings, sources = dict[Side, float](), dict[Side, str]()
        for side in SIDES if self.toss() else SIDES[::-1]:
            window = self.window(side, call_s)
            if window.joules is None:
                interleaving.refused[asked] = said(f"{side}: {window.reason}")
                return
            readings[side], sources[side] = window.joules, window.source
        if sources["baseline"] != sources["candidate"]:
            interleaving.refused[asked] = state("other conditions", (Difference(name="source", **sources),))
            return
        yield Observation(
            measurement=interleaving.assignment.measurement,
            metric=asked[0],
            statistic=asked[1],
            baseline=array("d", [readings["baseline"]]),
            candidate=array("d", [readings["candidate"]]),
        )

    def window(self, side: Side, call_s: float) -> EnergyWindow:
        """Let a side fill one window of its energy meter; where its meter needs a longer one, a longer one follows."""
        seconds: float = ENERGY_WINDOW_S
        window = EnergyWindow()
        for _ in range(2):
            calls = max(1, math.ceil(seconds / call_s))
            question = AskEnergy(calls=calls, seconds=calls * call_s)
            window = self._ask(side, question, EnergyResult, question.seconds)[0].window
            if window.needed_s is None or not seconds < window.needed_s <= _LONGEST_ENERGY_WINDOW_S:
                break
            seconds = window.needed_s
        return window


def also_taken(also: Sequence[tuple[str, str]], blocks: Sequence[Block]) -> Iterator[tuple[str, str]]:
    """Yield what else so many calls give: a percentile has at least one call beyond it."""
    calls = sum(len(block.taken_s) for block in blocks)
    for metric, statistic in also:
        if calls * (1 - quantile(statistic)) >= 1:
            yield metric, statistic


def block_of(block: BlockTimes, taken_ns: Numbers, batch: int, cold: int) -> Block:
    """Read what a side reports of a turn, without its cold calls."""
    return Block(
        taken_s=array("d", (ns / batch / _SECOND for ns in taken_ns[cold:])),
        cpu_s=block.cpu_ns / (len(taken_ns) * batch) / _SECOND,
        preempted=block.switches > 0,
        parts=block.parts,
    )


def values_of(blocks: Sequence[Block], metric: str, statistic: str) -> Values:
    """Reduce the blocks of a side to what a statistic needs: a value of each block, or one of all."""
    taken = metric_of(metric).in_turns
    if taken == "CPU seconds":
        return array("d", (block.cpu_s for block in blocks))
    parts = array("d", (block.parts[metric] for block in blocks if metric in block.parts))
    if taken == "rate":  # calls over time: blocks have equally many, so that of a load it is their harmonic mean
        return array("d", [harmonic_mean(parts) if parts else 1 / _seconds(blocks, statistic)[0]])
    if taken == "part":
        return parts
    return _seconds(blocks, statistic) if taken == "seconds" else array("d")


def _seconds(blocks: Sequence[Block], statistic: str) -> Values:
    """Return the time of a call: a median for each block, any other statistic of the calls of all blocks."""
    if statistic == "p50":
        return array("d", (median(block.taken_s) for block in blocks))
    pooled = [call_s for block in blocks for call_s in block.taken_s]
    if statistic == "mean":
        return array("d", [sum(pooled) / len(pooled)])
    return array("d", [pooled_percentile(pooled, statistic)])


def _mostly(pools: Sequence[bool]) -> bool:
    """Whether most of the last blocks had other threads at work; a pool that has just been created spins for 30 ms."""
    return 2 * sum(pools[-_STEADY:]) > len(pools[-_STEADY:])
