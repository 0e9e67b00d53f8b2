"""Tests that cannot bear both sides at once: processes of each side, alive one after the other in the order ABBA.

Each process goes through all of these tests by itself and is measured in blocks without a break. A drift that is the
same from process to process cancels out of the two processes of each side.
"""

import dataclasses
import math
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean, median

from pytest_hwperf.gate.channel import Endpoint
from pytest_hwperf.gate.interleaving import Block, Interleaver, Interleaving, Warm, also_taken, block_of, values_of
from pytest_hwperf.gate.lockstep import ApartTimes, PairTrace, Program
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.records.evidence import Assignment, EnergyWindow, Measurement, Observation, Side
from pytest_hwperf.records.messages import Difference, said, state
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Sample, Values, replace
from pytest_hwperf.stats.affected import Usage
from pytest_hwperf.stats.hypotheses import SIDES, Facts, SideOutcome
from pytest_hwperf.stats.sequence import Step

Hold = Callable[[Program, Side], PairTrace]  # starts a process of a side, and ends it when it has gone through


def of_one_kind(step: Step, serial: Collection[str]) -> Step:
    """Leave in a step what can share a pair: all that bears both sides at once, and what does not when that is done."""
    shared = [one for one in step.hypotheses if one.measurement.test not in serial]
    return step.only(shared) if shared else step


def both(shared: PairTrace, apart: PairTrace) -> PairTrace:
    """Join what a rehearsal has shown of tests that bear both sides at once, and then of the others."""
    shared.uneven = {here: side for here, side in shared.uneven.items() if here.test not in apart.outcomes}
    shared.facts |= apart.facts
    shared.exact |= apart.exact
    shared.uneven |= apart.uneven
    shared.outcomes |= apart.outcomes
    shared.interleavings |= apart.interleavings
    shared.selected += apart.selected
    for side in apart.collected:  # a file may not even be collected next to the other side
        shared.collected[side] = _united(shared.collected.get(side, ()), apart.collected[side])
    for side in SIDES:
        shared.files[side] = _united(shared.files.get(side, ()), apart.files.get(side, ()))
        first, second = (one.opened.get(side, Opened()) for one in (shared, apart))
        shared.opened[side] = first.joined(second)
        used = [one.usages[side].used for one in (shared, apart) if side in one.usages]
        if used:
            of_each = {test: _united(*(one.get(test, ()) for one in used)) for one in used for test in one}
            shared.usages[side] = Usage(used=of_each)
    shared.lost, shared.is_silent = apart.lost, apart.is_silent
    if apart.lost:  # it was not both sides that ended by themselves
        shared.files.clear()
    shared.wall_s += apart.wall_s
    shared.apart = ApartTimes(
        start_s=max(shared.apart.start_s, apart.apart.start_s),
        tests_s={**shared.apart.tests_s, **apart.apart.tests_s},
        wall_s=shared.apart.wall_s + apart.apart.wall_s,
    )
    return shared


def _united(*parts: Sequence[str]) -> tuple[str, ...]:
    """Return everything that is in some part, once."""
    return tuple(dict.fromkeys(chain(*parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How one measurement is taken in every process of a pair, as the first of them finds its calls."""

    call_s: float
    batch: int
    calls: int  # or batches, in a block
    cold: int
    blocks: int  # of each process
    processor: int | None


@dataclass(slots=True, kw_only=True)
class _Taken:
    """What the processes of a pair gave of one measurement, in time order."""

    shape: _Shape
    statistics: Sequence[tuple[str, str]]
    turns: str = ""
    blocks: dict[Side, list[Sequence[Block]]] = field(default_factory=dict)  # of each process
    windows: dict[Side, list[EnergyWindow]] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Apart:
    """Conducts processes through a program, one after the other."""

    program: Program
    clock: Callable[[], float]
    toss: Callable[[], bool]
    processes: int  # of each side, 1 or 2
    trace: PairTrace = field(default_factory=PairTrace)
    _taken: dict[Measurement, _Taken] = field(default_factory=dict)
    _reached: list[tuple[str, float]] = field(default_factory=list)  # test, and when this process reached it

    def run(self, first: Sequence[Side], hold: Hold) -> PairTrace:
        """Run the processes of both sides; one that is lost ends it."""
        for side in (*first, *first[::-1])[: len(SIDES) * self.processes]:
            began = self.clock()
            self._reached.clear()
            found = hold(dataclasses.replace(self.program, by_itself=self._measure), side)
            self._add(side, found)
            self._add_times(began)
            if found.lost:
                break
        self._end()
        return self.trace

    def _measure(self, side: Side, endpoint: Endpoint, here: Measurement, facts: Facts) -> None:
        """Measure what a process has reached."""
        if here.test not in dict(self._reached):
            self._reached.append((here.test, self.clock()))
        self.trace.facts.setdefault(here, {})[side] = facts
        statistics = self.program.wanted(here)
        if not statistics:
            return
        self.program.watch(here)
        line = Interleaver({side: endpoint}, self.program.plan, self.toss, statistics, also=self.program.also)
        warm = line.warm_up(side)
        taken = self._taken.get(here)
        if taken is None:
            taken = self._taken[here] = _Taken(shape=self._shape(line, warm), statistics=statistics)
        self._take(line, side, warm, taken)
        if self.program.exact:
            samples: dict[Side, Sequence[Sample]] = self.trace.exact.setdefault(here, {})
            samples.update(line.exact())

    def _take(self, line: Interleaver, side: Side, warm: Warm, taken: _Taken) -> None:
        """Let a process that has warmed up time its blocks, and fill a window of energy where one is asked for."""
        shape = taken.shape
        refused = "" if shape.processor is None else line.pinned(side, shape.processor)
        if refused:
            taken.warnings[f"{side}: it does not stay on the processor of the others: {refused}"] = None
        if warm.warning:
            taken.warnings[f"{side}: {warm.warning}"] = None
        expected_s = max(warm.call_s, warm.pace_s) * shape.batch * shape.calls
        turns = (
            line.turn(side, shape.calls, shape.batch, rest=False, expected_s=expected_s) for _ in range(shape.blocks)
        )
        blocks = [block_of(block, taken_ns, shape.batch, shape.cold) for block, taken_ns in turns]
        taken.blocks.setdefault(side, []).append(blocks)
        taken.turns += side[0].upper()
        if any(metric_of(metric).in_turns == "window" for metric, _ in taken.statistics):
            taken.windows.setdefault(side, []).append(line.window(side, shape.call_s))

    def _shape(self, line: Interleaver, warm: Warm) -> _Shape:
        """Return how the processes of a pair measure; by its first one, which a coin has chosen."""
        spaced_s = max(warm.call_s, warm.pace_s)
        plan, batch = self.program.plan.paced() if warm.pace_s else self.program.plan, line.batch(spaced_s)
        blocks = 2 * plan.doubles_of((spaced_s, spaced_s))  # of a side
        needed = math.ceil(line.needed / blocks)
        calls, cold = plan.block(spaced_s * batch, pool=warm.pool, needed=needed)
        return _Shape(
            call_s=warm.call_s,
            batch=batch,
            calls=calls,
            cold=cold,
            blocks=math.ceil(blocks / self.processes),
            processor=None if warm.pool else self.program.draw(),
        )

    def _add(self, side: Side, found: PairTrace) -> None:
        """Take over what one process has shown beside its times."""
        trace = self.trace
        trace.collected |= found.collected
        trace.errors |= found.errors
        trace.files |= found.files
        trace.opened |= found.opened
        trace.usages |= found.usages
        for one, seed in found.hash_seeds.items():
            trace.hash_seeds = {**trace.hash_seeds, f"{one} 2" if one in trace.hash_seeds else one: seed}
        for node, ended in found.outcomes.items():
            before = trace.outcomes.setdefault(node, {}).get(side)
            if before is None or before.outcome == "passed":
                trace.outcomes[node][side] = _with_first(before, ended[side])
        there = [set(nodes) for nodes in trace.collected.values()]
        trace.selected = [node for node in self.program.nodes if all(node in nodes for nodes in there)]
        trace.wall_s += found.wall_s
        if found.lost:
            trace.lost, trace.is_silent = found.lost, found.is_silent
            trace.outcomes = {node: sides for node, sides in trace.outcomes.items() if node in found.outcomes}

    def _add_times(self, began: float) -> None:
        """Add what a process took until its first test and in each."""
        if not self._reached:
            return
        apart, tests_s = self.trace.apart, dict(self.trace.apart.tests_s)
        ends = [*(when for _, when in self._reached[1:]), self.clock()]
        for (test, when), end in zip(self._reached, ends, strict=True):
            tests_s[test] = tests_s.get(test, 0.0) + end - when
        start_s = apart.start_s + self._reached[0][1] - began
        self.trace.apart = ApartTimes(start_s=start_s, tests_s=tests_s, wall_s=self.trace.wall_s)

    def _end(self) -> None:
        """Reduce what both sides gave, once they have ended."""
        trace = self.trace
        if not trace.lost:
            trace.outcomes = {node: sides for node, sides in trace.outcomes.items() if len(sides) == len(SIDES)}
        one_side = {here: facts for here, facts in trace.facts.items() if len(facts) == 1}
        trace.uneven = {here: side for here, facts in one_side.items() if here.test in trace.selected for side in facts}
        trace.facts = {here: facts for here, facts in trace.facts.items() if len(facts) == len(SIDES)}
        for here, taken in self._taken.items():
            if all(len(taken.blocks.get(side, ())) == self.processes for side in SIDES):
                trace.interleavings[here] = _reduced(here, taken, self.program)


def _with_first(before: SideOutcome | None, ended: SideOutcome) -> SideOutcome:
    """Return how a test ended in a further process; what it has recorded is that of the first one."""
    return ended if before is None else replace(ended, recorded=before.recorded)


def _reduced(here: Measurement, taken: _Taken, program: Program) -> Interleaving:
    """Reduce what the processes of a pair gave to what each wanted statistic needs."""
    assignment = Assignment(measurement=here, turns=taken.turns, processor=taken.shape.processor)
    found = Interleaving(assignment=assignment, observations=[])
    preempted = fmean(block.preempted for side in SIDES for block in chain(*taken.blocks[side]))
    asked = dict.fromkeys((*taken.statistics, *also_taken(program.also, [*chain(*taken.blocks["baseline"])])))
    for metric, statistic in asked:
        if metric_of(metric).in_turns == "window":
            values = dict(_energies(found, (metric, statistic), taken.windows))
        else:
            values = {side: _values(taken.blocks[side], metric, statistic) for side in SIDES}
        if values and 0 < len(values["baseline"]) == len(values["candidate"]):
            found.observations.append(
                Observation(
                    measurement=here,
                    metric=metric,
                    statistic=statistic,
                    baseline=values["baseline"],
                    candidate=values["candidate"],
                    preempted=preempted,
                    warnings=tuple(taken.warnings),
                    apart=True,
                )
            )
    return found


def _values(processes: Sequence[Sequence[Block]], metric: str, statistic: str) -> Values:
    """Return a value of each process; of a percentile or a mean, which takes many calls, one of all its calls."""
    if metric_of(metric).in_turns in ("seconds", "rate") and statistic != "p50":
        return values_of([*chain(*processes)], metric, statistic)
    found = (values_of(blocks, metric, statistic) for blocks in processes)
    return array("d", (median(values) for values in found if values))


def _energies(
    found: Interleaving, key: tuple[str, str], windows: Mapping[Side, Sequence[EnergyWindow]]
) -> Iterator[tuple[Side, Values]]:
    """Yield the joules of each process; nothing where one has none, or where they were counted differently."""
    whole = [(side, window) for side in SIDES for window in windows.get(side, ())]
    why = next((f"{side}: {window.reason}" for side, window in whole if window.joules is None), "")
    sources = {side: window.source for side, window in whole}
    if why:
        found.refused[key] = said(why)
    elif len({window.source for _, window in whole}) > 1:
        found.refused[key] = state("other conditions", (Difference(name="source", **sources),))
    else:
        for side in SIDES:
            yield side, array("d", (window.joules for window in windows[side] if window.joules is not None))
