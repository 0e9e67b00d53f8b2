"""One measurement of one pair: both sides warm up and take turns in blocks whose order is drawn.

Of tests that cannot bear both sides at once, processes of each side are measured one after the other. A drift that is
the same from process to process cancels out of the two processes of each side.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from random import Random
from statistics import fmean, geometric_mean, harmonic_mean, median
from typing import TypeVar

from pytest_hwperf.gate.pair.channel import (
    AskEnergy,
    AskExact,
    BlockTimes,
    Bye,
    Connection,
    Ended,
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
from pytest_hwperf.records.run import Sample, Values
from pytest_hwperf.stats.figures.ranks import quantile
from pytest_hwperf.stats.pairs.hypotheses import SIDES
from pytest_hwperf.stats.pairs.paired import least_calls, pooled_percentile
from pytest_hwperf.stats.pairs.timetable import BlockPlan

M = TypeVar("M")

_SECOND = 1_000_000_000  # ns
_HALF = 0.5  # a fair coin
_BORNE = 1000  # calls in a turn of which no time is kept
_TURNS = 4  # of a double block
_STEADY = 3  # successive warm-up blocks that have to agree
ENERGY_WINDOW_S = 0.6  # half a second at least, with a reserve for calls that have got faster
_LONGEST_ENERGY_WINDOW_S = 20.0  # boards need 12.5 s at their slowest
_POOL = 0.2  # CPU time of other threads over that of the one that calls, from which a pool was at work
_COMPUTES_ON = "computes on in threads of its own between the calls, which slows both sides"
_LEAST_CPU_NS = 1_000_000  # CPU time below which the clocks' own cost would look like threads


@dataclass(slots=True, kw_only=True)
class Block:
    """One turn of one side."""

    taken_s: Values  # seconds of each call or batch mean, the cold ones left out
    cpu_s: float  # per call, the cold ones included
    preempted: bool | None  # None: not known
    parts: Mapping[str, float]  # metric → median, in seconds
    is_busy: bool  # whether its threads went on to compute after it


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How one measurement is taken, as its warm-up finds the calls."""

    call_s: float
    batch: int
    calls: int  # or batches, in a block
    cold: int
    doubles: int  # double blocks


@dataclass(slots=True)
class Interleaver:
    """Conducts the processes of a pair through one measurement.

    Both sides are alive at once and take turns; or processes are alive one after the other, which take
    their blocks without a break, all as the first of them finds its calls.
    """

    connections: Mapping[Side, Connection]  # to the sides that are alive, each waiting for its turn
    plan: BlockPlan
    random: Random
    statistics: Sequence[tuple[str, str]]  # (metric, statistic) wanted: of latency, CPU time or energy
    margin: float = 0.0  # relative, the smallest of what is asked: turns may end early; 0: they do not
    processors: Sequence[int] = ()  # that both sides share in their turns: the first, or with a pool of threads all
    also: Sequence[tuple[str, str]] = ()  # statistics of the same calls, for which no more are made
    leave: Callable[[int], None] = lambda _: None  # called with how many processors they leave to others, at least
    processes: int = 0  # of each side, which are alive one after the other; 0: both sides are alive at once
    pools: set[Side] = field(default_factory=set)  # sides with more threads at work than the one that calls
    blocks: dict[Side, list[list[Block]]] = field(default_factory=dict)  # of each process
    asked: dict[Side, int] = field(default_factory=dict)  # calls that each side was asked for
    _windows: dict[Side, list[EnergyWindow]] = field(default_factory=dict)
    _turns: str = ""
    _warnings: dict[str, None] = field(default_factory=dict)
    _shape: _Shape | None = None

    def measure(self) -> None:
        """Let the processes that are alive warm up and take their turns, then fill a window of energy if asked to."""
        self.leave(0)
        warm = {side: self._warm_up(side) for side in self._drawn_sides()}
        self.pools |= {side for side, one in warm.items() if one.pool}
        self._warnings |= {f"{side}: {one.warning}": None for side, one in warm.items() if one.warning}
        if self._shape is None:
            self._shape = self._shaped(list(warm.values()))
        if self.processors:
            self._pin()
        self.leave(1 if self.processors and not self.pools else 0)
        self._take(self._shape, warm)
        self.leave(0)  # whatever else computes has a part in an energy window
        if any(metric_of(metric).in_turns == "window" for metric, _ in self.statistics):
            self._fill_windows(self._shape.call_s)
        self.leave(1)

    def _shaped(self, warm: Sequence[Warm]) -> _Shape:
        """Return how the measurement is taken: the same, whichever side is which."""
        call_s = geometric_mean(one.call_s for one in warm)
        spaced_s = max(call_s, *(one.pace_s for one in warm))
        batch = self._batch(spaced_s)
        plan = self.plan.paced() if any(one.pace_s for one in warm) else self.plan
        both_s = [max(one.call_s, one.pace_s) for one in warm]
        doubles = plan.doubles_of(both_s * 2 if self.processes else both_s)
        if self.pools and (self.processes or len(self.processors) == 1):
            self.processors = ()
        needed = math.ceil(self._needed / (2 * doubles))
        calls, cold = plan.block(spaced_s * batch, pool=bool(self.pools), needed=needed)
        return _Shape(call_s=call_s, batch=batch, calls=calls, cold=cold, doubles=doubles)

    def _take(self, shape: _Shape, warm: Mapping[Side, Warm]) -> None:
        """Let the sides take their turns, until these tell enough."""
        taken_s = {side: max(one.call_s, one.pace_s) * shape.batch * shape.calls for side, one in warm.items()}
        turns = [*warm] * math.ceil(2 * shape.doubles / (self.processes or 1))
        if not self.processes:
            turns = self._drawn(shape.doubles)
            is_paced = any(one.pace_s > one.call_s for one in warm.values())
            if self.processors and shape.calls > 1 and not is_paced:
                for side in turns[:2]:  # caches of a processor that is new to both
                    self._turn(side, shape.calls // 2, shape.batch, rest=bool(self.pools), expected_s=taken_s[side])
        taken: dict[Side, list[Block]] = {side: [] for side in warm}
        for side, blocks in taken.items():
            self.blocks.setdefault(side, []).append(blocks)
        for done, (side, following) in enumerate(zip_longest(turns, turns[1:]), 1):
            rest = bool(self.pools) and side != following  # without a pool nothing spins on after the calls
            block, taken_ns = self._turn(side, shape.calls, shape.batch, rest=rest, expected_s=taken_s[side])
            taken[side].append(_block_of(block, taken_ns, shape))
            if not self.processes and done % _TURNS == 0 and self._is_enough(taken):
                break
        self._turns += "".join(side[0].upper() for side in ([*warm] if self.processes else turns[:done]))

    def bear(self, calls: int) -> None:
        """Let the only side that is alive make so many calls, and keep none of their times."""
        (side,) = self.connections
        block, taken_ns = self._turn(side, 1, 1, rest=False, expected_s=None)
        each_s = max(sum(taken_ns) / _SECOND, block.pace_s)
        for first in range(1, calls, _BORNE):
            count = min(_BORNE, calls - first)
            block, taken_ns = self._turn(side, count, 1, rest=False, expected_s=each_s * count)
            each_s = max(sum(taken_ns) / _SECOND / count, block.pace_s)

    @property
    def is_whole(self) -> bool:
        """Whether all processes have been measured."""
        return all(len(self.blocks.get(side, ())) == max(1, self.processes) for side in SIDES)

    def found(self, measurement: Measurement) -> Interleaving:
        """Reduce what was taken to what each wanted statistic needs."""
        whole = {side: [*chain(*self.blocks[side])] for side in SIDES}
        processor = next(iter(self.processors), None)
        found = Interleaving(
            assignment=Assignment(measurement=measurement, turns=self._turns, processor=processor),
            observations=[],
            cpu_s={} if self.processes else {side: fmean(one.cpu_s for one in whole[side]) for side in SIDES},
            pools=frozenset(self.pools),
        )
        known = [block.preempted for side in SIDES for block in whole[side] if block.preempted is not None]
        busy = [side for side in SIDES if 2 * sum(block.is_busy for block in whole[side]) > len(whole[side])]
        preempted = fmean(known) if known and not busy else None  # what interrupts them is no work of others
        warnings = (*self._warnings, *(f"the {side} {_COMPUTES_ON}" for side in busy))
        for metric, statistic in dict.fromkeys((*self.statistics, *self._also_taken())):
            is_window, key = metric_of(metric).in_turns == "window", (metric, statistic)
            values = self._joules(found, key) if is_window else {side: self._values(side, *key) for side in SIDES}
            if values and 0 < len(values["baseline"]) == len(values["candidate"]):  # a stream may have no items
                found.observations.append(
                    Observation(
                        measurement=measurement,
                        metric=metric,
                        statistic=statistic,
                        baseline=values["baseline"],
                        candidate=values["candidate"],
                        preempted=None if is_window else preempted,
                        warnings=warnings,
                        apart=bool(self.processes),
                    )
                )
        return found

    def _values(self, side: Side, metric: str, statistic: str) -> Values:
        """Return the values of a side; of processes apart one of each, or one of all calls where it takes many."""
        processes = self.blocks[side]
        pools_calls = metric_of(metric).in_turns in ("seconds", "rate") and statistic != "p50"
        if pools_calls or not self.processes:
            return _values_of([*chain(*processes)], metric, statistic)
        found = (_values_of(blocks, metric, statistic) for blocks in processes)
        return array("d", (median(values) for values in found if values))

    def _joules(self, found: Interleaving, key: tuple[str, str]) -> dict[Side, Values]:
        """Return the joules of each process; nothing where one has none, or where they were counted differently."""
        windows = [(side, window) for side, taken in self._windows.items() for window in taken]
        why = next((f"{side}: {window.reason}" for side, window in windows if window.joules is None), "")
        sources = {side: window.source for side, window in windows}
        if why:
            found.refused[key] = said(why)
        elif len({window.source for _, window in windows}) > 1:
            found.refused[key] = state("other conditions", (Difference(name="source", **sources),))
        if key in found.refused:
            return {}
        return {side: array("d", (window.joules or 0.0 for window in self._windows[side])) for side in SIDES}

    def _is_enough(self, blocks: Mapping[Side, Sequence[Block]]) -> bool:
        """Whether no further turns are needed, by the medians that are asked for."""
        medians = [_values_of(blocks[side], *MEDIAN_LATENCY) for side in SIDES]
        if min(map(min, medians)) <= 0:
            return False
        changes = [math.log(new) - math.log(old) for old, new in zip(*medians, strict=True)]
        return self.plan.is_enough(changes, self.margin)

    def _pin(self) -> None:
        """Let the sides that are alive stay on a processor, threads of a pool on one each; where one may not, neither.

        Processors differ in speed, and do so from one second to the next where others share the machine: two sides on
        two processors would measure these. Two threads of a pool that wake up on one of them would take turns.
        """
        chosen = self.processors if self.pools and not self.processes else self.processors[:1]
        refused = [(side, why) for side in self.connections if (why := self._pinned(side, chosen))]
        if refused and self.processes:
            side, why = refused[0]
            self._warnings[f"{side}: it does not stay on the processor of the others: {why}"] = None
        elif refused:
            self.processors = ()
            for side in SIDES:
                self._pinned(side, ())
            if not self.pools:
                self._warnings[f"the sides do not share a processor: {'; '.join(map(': '.join, refused))}"] = None

    def _pinned(self, side: Side, chosen: Sequence[int]) -> str:
        return self._ask(side, PinTo(processors=tuple(chosen)), Pinned)[0].reason

    def _drawn_sides(self) -> Sequence[Side]:
        sides = [side for side in SIDES if side in self.connections]
        return sides if self.random.random() < _HALF else sides[::-1]

    def _drawn(self, doubles: int) -> list[Side]:
        """Draw the order of all turns, two of either side in a row: fewer hand-overs, and drift cancels."""
        turns = list[Side]()
        for _ in range(doubles):
            one, other = self._drawn_sides()
            turns += [one, other, other, one]
        return turns

    def exact(self) -> dict[Side, Sequence[Sample]]:
        """Ask the sides that are alive for what needs no clock."""
        return {side: self._ask(side, AskExact(), ExactSamples)[0].samples for side in self.connections}

    def _warm_up(self, side: Side) -> Warm:
        """Let a side warm up until its blocks agree."""
        plan, medians, pools, spent, count, pace_s = self.plan, list[float](), list[bool](), 0.0, 1, 0.0
        while len(medians) < plan.warm_blocks and spent < plan.warm_s:
            expected_s = max(medians[-1], pace_s) * count if medians else None
            block, taken_ns = self._turn(side, count, 1, rest=True, expected_s=expected_s)
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
    def _needed(self) -> int:
        """Values of a side that what is wanted takes."""
        return max((least_calls(statistic) for _, statistic in self.statistics), default=0)

    def _batch(self, call_s: float) -> int:
        """Return the calls that share a clock reading; one where percentiles of calls are wanted."""
        single = any(
            metric_of(metric).in_turns == "seconds" and statistic != "p50"
            for metric, statistic in (*self.statistics, *self.also)
        )
        if single or call_s >= self.plan.batch_below_s:
            return 1
        return max(2, round(self.plan.batch_s / max(call_s, 10e-9)))

    def _turn(
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
        if isinstance(question, TimeBlock | AskEnergy):
            calls = question.calls * (question.batch if isinstance(question, TimeBlock) else 1)
            self.asked[side] = self.asked.get(side, 0) + calls
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
        if isinstance(frame.message, Bye):
            raise WorkerLostError("its pytest ended in the middle of a turn", side=side)
        if not isinstance(frame.message, kind):
            given = type(frame.message).__name__
            raise WorkerLostError(f"sent {given!r} where {kind.__name__!r} was due", side=side)
        return frame.message, frame.numbers

    def _fill_windows(self, call_s: float) -> None:
        """Let each process fill a window of energy, until one cannot."""
        for side in self._drawn_sides():
            window = self._window(side, call_s)
            self._windows.setdefault(side, []).append(window)
            if window.joules is None:
                return

    def _also_taken(self) -> Iterator[tuple[str, str]]:
        """Yield what else so many calls give: a percentile has at least one call beyond it."""
        calls = sum(len(block.taken_s) for block in chain(*self.blocks["baseline"]))
        for metric, statistic in self.also:
            if calls * (1 - quantile(statistic)) >= 1:
                yield metric, statistic

    def _window(self, side: Side, call_s: float) -> EnergyWindow:
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


def _block_of(block: BlockTimes, taken_ns: Numbers, shape: _Shape) -> Block:
    """Read what a side reports of a turn, without its cold calls."""
    return Block(
        taken_s=array("d", (ns / shape.batch / _SECOND for ns in taken_ns[shape.cold :])),
        cpu_s=block.cpu_ns / (len(taken_ns) * shape.batch) / _SECOND,
        preempted=None if block.switches is None else block.switches > 0,
        parts=block.parts,
        is_busy=block.is_busy,
    )


def _values_of(blocks: Sequence[Block], metric: str, statistic: str) -> Values:
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
