"""One pair of processes in lock-step through the same tests: what each has reached, and which has to wait.

One process may also go through them alone: to show whether it needs something that only one process can have, or as one
of several that are alive one after the other. What each of them shows is added to one trace.
"""

import dataclasses
import math
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from threading import Event
from time import monotonic

from pytest_hwperf.gate.pair.channel import (
    Bye,
    Collected,
    Connection,
    Ended,
    Finish,
    Message,
    Ready,
    Select,
    WorkerLostError,
    loss,
)
from pytest_hwperf.gate.pair.interleaving import Interleaver, Interleaving
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Hypothesis, Measurement, Observation, Pair, Seen, SeenMetric, Side, Stage
from pytest_hwperf.records.messages import Statement, said
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Key, replace
from pytest_hwperf.stats.causes.changed_code import Usage
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Rehearsal, is_too_short
from pytest_hwperf.stats.pairs.timetable import BlockPlan

WHOLE_PROCESS = Measurement(test="", label="")
_LONGEST_REASON = 500  # characters that are kept of a reason

_HASH_SEEDS = 2**32 - 1  # the largest PYTHONHASHSEED
_Position = Ready | Ended | Bye


def random_of(seed: int, pair: int) -> Random:
    """Return the generator of one pair of a build, which nothing else draws from."""
    return Random(f"{seed}:{pair}")  # noqa: S311 - fair coins whose throws can be repeated, no secret


@dataclass(frozen=True, slots=True)
class Chance:
    """What is drawn for one pair."""

    random: Random
    processors: Sequence[int] = ()  # the first is drawn for each measurement; none: the scheduler chooses

    def toss(self) -> bool:
        """Toss a fair coin."""
        return self.random.random() < 0.5  # noqa: PLR2004 - a fair coin

    def order(self) -> tuple[int, ...]:
        """Draw the first processor for one measurement, and return it with those that follow it."""
        if not self.processors:
            return ()
        first = self.processors.index(self.random.choice(self.processors))
        return (*self.processors[first:], *self.processors[:first])

    def hash_seed(self) -> int:
        """Draw a PYTHONHASHSEED."""
        return self.random.randrange(_HASH_SEEDS)


@dataclass(slots=True, kw_only=True)
class PairTrace(Rehearsal):
    """What happened in one pair."""

    first: Side = "baseline"  # started first
    hash_seeds: dict[str, int] = field(default_factory=dict)  # side → PYTHONHASHSEED
    is_forked: bool = False  # whether one parent has imported for both
    selected: list[str] = field(default_factory=list)  # node ids that both sides run
    interleavings: dict[Measurement, Interleaving] = field(default_factory=dict)
    files: dict[Side, Sequence[str]] = field(default_factory=dict)  # of loaded modules
    modules: dict[Side, Mapping[str, str]] = field(default_factory=dict)  # in a rehearsal: name → file
    # Those of them that the tree has imported → digits of what it had run before.
    asked: dict[Side, Mapping[str, str]] = field(default_factory=dict)
    states: dict[Side, Mapping[str, str]] = field(default_factory=dict)  # module → digits of what it held
    usages: dict[Side, Usage] = field(default_factory=dict)  # of what each side was to watch
    opened: dict[Side, Opened] = field(default_factory=dict)  # of a rehearsal
    seen: list[Seen] = field(default_factory=list)
    lost: Statement | None = None  # why it ended early
    is_silent: bool = False  # whether it was lost since a process hung
    is_cut_off: bool = False  # whether it was lost since the time of the gate was up
    wall_s: float = 0.0  # from the start of the processes to their end
    tried_s: float = 0.0  # that a pair took whose place this one has: its sides shared imports, and worked otherwise
    reached: dict[str, float] = field(default_factory=dict)  # test → instant at which its processes reached it
    reached_s: Mapping[str, float] = field(default_factory=dict)  # of a rehearsal: the same, since the start of a pair
    apart: dict[str, float] = field(default_factory=dict)  # test with one side alive at a time → what both sides took
    apart_start_s: float = 0.0  # of both sides together, until their first tests of these
    apart_wall_s: float = 0.0  # from their starts to their ends
    taken: dict[Measurement, Interleaver] = field(default_factory=dict)  # by processes of which more are to follow

    def lose(self, error: WorkerLostError, calls: int = 0) -> None:
        """Note that it ended early, why, and for how many calls the side that was lost had been asked."""
        self.lost = loss(error, calls)
        self.is_silent = error.is_silent
        self.is_cut_off = error.is_cut_off

    def begin_apart(self, nodes: Collection[str]) -> None:
        """Forget what was seen of tests that processes go through now that are alive one after the other."""
        self.outcomes = {node: sides for node, sides in self.outcomes.items() if node not in nodes}
        self.uneven = {here: side for here, side in self.uneven.items() if here.test not in nodes}
        self.facts = {here: facts for here, facts in self.facts.items() if here.test not in nodes}
        self.apart = {node: seconds for node, seconds in self.apart.items() if node not in nodes}

    def end_apart(self, nodes: Sequence[str]) -> None:
        """Keep what both sides have shown of these tests, once their processes have ended."""
        there = [*map(set, self.collected.values())]
        ran = [node for node in nodes if all(node in found for found in there)]
        self.selected = [*(node for node in self.selected if node not in nodes), *ran]
        if self.lost:  # it was not both sides that ended by themselves
            self.files.clear()
        else:
            self.outcomes = {node: sides for node, sides in self.outcomes.items() if len(sides) == len(SIDES)}
        for here in [here for here, facts in self.facts.items() if len(facts) == 1]:
            (side,) = self.facts.pop(here)
            if here.test in ran:
                self.uneven[here] = side
        self.interleavings |= {here: taken.found(here) for here, taken in self.taken.items() if taken.is_whole}
        self.taken.clear()

    @property
    def start_s(self) -> float | None:
        """From the start of the processes to the first test that measures; None: none was reached."""
        return min(self.reached_s.values(), default=self.apart_start_s if self.apart else None)

    @property
    def unfinished(self) -> str:
        """The test in which a pair was lost, "" where it was between tests."""
        return next((node for node in self.selected if node not in self.outcomes), "")

    @property
    def is_cut_short(self) -> bool:
        """Whether both sides have ended by themselves before all tests were over: their pytest will not run them."""
        return len(self.files) == len(SIDES) and bool(self.unfinished)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a pair is to do."""

    nodes: Sequence[str]  # tests to run, in this order
    chance: Chance
    stage: Stage = "rehearsal"
    asked: Sequence[Hypothesis] = ()  # what a pair is to answer
    as_in_pairs: Mapping[str, Sequence[Key]] = field(default_factory=dict)  # of a rehearsal: test → what it takes
    until: float = math.inf  # instant at which it is cut off
    stop: Event | None = None  # set: it has to end early
    clock: Callable[[], float] = monotonic
    also: Sequence[Key] = ()  # statistics to take of the same calls, where something is wanted
    exact: bool = False  # ask for what needs no clock too
    plan: BlockPlan = field(default_factory=BlockPlan)
    silence_s: float = 300.0  # the longest between two messages of a process
    shown: Progress | None = None  # how far it is, told when a measurement begins
    progress: Callable[[Progress], None] = lambda _: None
    leave: Callable[[int], None] = lambda _: None  # called with how many processors the pair leaves, at least
    processes: int = 0  # of each side, alive one after the other; 0: both sides at once, and one alone is not measured
    calls: int = 0  # of each measurement, whose times nobody wants; 0: what is asked is measured

    def wanted(self, here: Measurement) -> Sequence[Key]:
        """Return the statistics to take of a measurement; none: it is skipped."""
        if self.stage == "rehearsal" or self.calls:
            return self.as_in_pairs.get(here.test, [MEDIAN_LATENCY])
        return [one.margin.key for one in self.asked if one.measurement == here]

    def margin(self, here: Measurement) -> float:
        """Return the margin of what is asked for nothing but its median; 0 of others: all turns are taken."""
        margins = [one.margin for one in self.asked if one.measurement == here]
        is_median = not self.also and not self.processes and {one.key for one in margins} == {MEDIAN_LATENCY}
        return min(one.size for one in margins) if is_median else 0.0


@dataclass(slots=True)
class Pairing:
    """Conducts processes through a program; a state machine over one or two connections that reads no clock itself."""

    connections: Mapping[Side, Connection]  # on which nothing has been sent yet
    program: Program
    trace: PairTrace = field(default_factory=PairTrace)  # to which is added
    _nodes: Sequence[str] = ()  # that these processes run
    _done: set[str] = field(default_factory=set)  # that they have run

    def run(self) -> PairTrace:
        """Go through the whole program; a process that is lost ends it, and what was recorded until then is kept."""
        try:
            self._select()
            self._follow()
        except WorkerLostError as error:
            trace, left = self.trace, {*self.program.nodes} - self._done
            asked = next((one.asked for one in reversed(trace.taken.values())), dict[Side, int]())
            trace.lose(error, asked.get(error.side, 0) if error.side else 0)
            trace.outcomes = {node: sides for node, sides in trace.outcomes.items() if node not in left}
        return self.trace

    def _select(self) -> None:
        there = list[set[str]]()
        for side in self._sides:
            collected = self._receive(side)
            if not isinstance(collected, Collected):
                raise _out_of_turn(side, collected, Collected.__name__)
            there.append({*collected.nodes})
            self.trace.collected[side] = _united(self.trace.collected.get(side, ()), collected.nodes)
            self.trace.errors[side] = {file: why[:_LONGEST_REASON] for file, why in collected.errors.items()}
        self._nodes = [node for node in self.program.nodes if all(node in nodes for nodes in there)]
        self.trace.selected = [*_united(self.trace.selected, self._nodes)]
        for side in self._drawn():
            self.connections[side].send(Select(nodes=tuple(self._nodes)))

    def _follow(self) -> None:
        """Bring the sides to the same position again and again; the one that is ahead waits."""
        at: dict[Side, _Position] = {side: self._position(side) for side in self._sides}
        while not all(isinstance(message, Bye) for message in at.values()):
            moved = self._moved(at)
            order = [side for side in self._drawn() if side in moved]
            for side in order:  # both go on before the next message of either is awaited; which is first is drawn
                if isinstance(at[side], Ready):
                    self.connections[side].send(Finish())
            for side in order:
                at[side] = self._position(side)
        over = {side: message for side, message in at.items() if isinstance(message, Bye)}
        for side, message in over.items():
            self._end(side, message)
        self._note("memory", {side: message.peak_bytes for side, message in over.items()})
        if len(over) == len(SIDES):
            self.trace.modules = {side: message.modules for side, message in over.items() if message.modules}
            self.trace.asked = {side: message.asked for side, message in over.items()}
            self.trace.states = {side: message.states for side, message in over.items() if message.states}
        if left := next((node for node in self._nodes if node not in self._done), ""):
            raise WorkerLostError(f"both sides ended without having run {left}")

    def _end(self, side: Side, message: Bye) -> None:
        """Add what a process says when it ends to what others of its side have said."""
        trace = self.trace
        trace.files[side] = _united(trace.files.get(side, ()), message.files)
        trace.opened[side] = trace.opened.get(side, Opened()).joined(message.opened)
        if message.usage:
            used = [message.usage.used, trace.usages[side].used if side in trace.usages else {}]
            of_each = {test: _united(*(one.get(test, ()) for one in used[::-1])) for one in used for test in one}
            trace.usages[side] = Usage(used=of_each)

    def _position(self, side: Side) -> _Position:
        """Return what a side has reached."""
        message = self._receive(side)
        if isinstance(message, Ready | Ended | Bye):
            return message
        raise _out_of_turn(side, message, "the next test")

    def _moved(self, at: Mapping[Side, _Position]) -> Sequence[Side]:
        """Do what the sides have reached; return those that go on."""
        ended = {side: message for side, message in at.items() if isinstance(message, Ended)}
        if len(ended) == len(at) and len({message.node for message in ended.values()}) == 1:
            for side, message in ended.items():
                self._add_outcome(side, message)
            return self._sides
        ahead = {side: message for side, message in at.items() if isinstance(message, Ready)}
        together = 1 if self.program.processes else len(SIDES)
        if len(ahead) == together and len({(one.node, one.index, one.label) for one in ahead.values()}) == 1:
            self._measure(ahead)
            return self._sides
        if not ahead:
            positions = (f"{side}: {type(at[side]).__name__} {getattr(at[side], 'node', '')}" for side in SIDES)
            raise WorkerLostError(f"both sides went different ways ({' and '.join(positions).strip()})")
        self.trace.uneven |= {_measurement(message): side for side, message in ahead.items()}
        return list(ahead)

    def _add_outcome(self, side: Side, message: Ended) -> None:
        """Keep how a test ended; a failure in any process of a side counts, and what the first of them recorded."""
        self._done.add(message.node)
        ended = replace(message.ended, reason=message.ended.reason[:_LONGEST_REASON])
        outcomes = self.trace.outcomes.setdefault(message.node, {})
        before = outcomes.get(side)
        if before is None or before.outcome == "passed":
            outcomes[side] = ended if before is None else replace(ended, recorded=before.recorded)

    @property
    def _sides(self) -> Sequence[Side]:
        return [side for side in SIDES if side in self.connections]

    def _drawn(self) -> Sequence[Side]:
        return self._sides if self.program.chance.toss() else self._sides[::-1]

    def _measure(self, at: Mapping[Side, Ready]) -> None:
        """Measure what the sides have reached that are alive."""
        program, trace, is_pair = self.program, self.trace, len(at) == len(SIDES)
        measurement = _measurement(next(iter(at.values())))
        if all(one.start_s for one in at.values()):
            self._note("cold_start", {side: one.start_s for side, one in at.items()})
        facts = trace.facts.setdefault(measurement, {})
        facts |= {side: one.facts for side, one in at.items()}
        is_left_out = is_pair and program.stage == "rehearsal" and is_too_short(facts)  # decided there for all pairs
        statistics = () if is_left_out else program.wanted(measurement)
        if not statistics:
            return
        trace.reached.setdefault(measurement.test, program.clock())
        if program.shown is not None:
            program.progress(dataclasses.replace(program.shown, test=measurement.test))
        if measurement not in trace.taken:
            trace.taken[measurement] = self._interleaver(measurement, statistics)
        interleaver = trace.taken[measurement]
        interleaver.connections = self.connections
        if program.calls:
            interleaver.bear(program.calls)
        else:
            interleaver.measure()
        if program.exact:  # after the calls: what they change in a model counts
            trace.exact.setdefault(measurement, {}).update(interleaver.exact())
        if is_pair:
            found = trace.interleavings[measurement] = trace.taken.pop(measurement).found(measurement)
            self._note("cpu_time", found.cpu_s, measurement)
            self._note("first_call", {side: one.facts.first_call_s for side, one in at.items()}, measurement)

    def _interleaver(self, measurement: Measurement, statistics: Sequence[tuple[str, str]]) -> Interleaver:
        program = self.program
        return Interleaver(
            self.connections,
            program.plan,
            program.chance.random,
            statistics,
            margin=program.margin(measurement),
            processors=program.chance.order(),
            also=program.also,
            leave=program.leave,
            processes=program.processes,
        )

    def _note(
        self,
        metric: SeenMetric,
        sides: Mapping[Side, float],
        of: Measurement = WHOLE_PROCESS,
    ) -> None:
        """Keep what both sides have shown beside what they were asked."""
        if len(sides) == len(SIDES) and all(sides.values()):
            self.trace.seen.append(
                Seen(measurement=of, metric=metric, baseline=sides["baseline"], candidate=sides["candidate"])
            )

    def _receive(self, side: Side) -> Message:
        try:
            return self.connections[side].receive(self.program.silence_s).message
        except WorkerLostError as error:
            raise WorkerLostError(
                error.what, side=side, is_silent=error.is_silent, is_cut_off=error.is_cut_off
            ) from error
        except WorkerError as error:
            raise WorkerLostError(str(error), side=side) from error


def _out_of_turn(side: Side, message: Message, due: str) -> WorkerLostError:
    return WorkerLostError(f"sent {type(message).__name__!r} where {due} was due", side=side)


def _measurement(ready: Ready) -> Measurement:
    return Measurement(test=ready.node, label=ready.label)


def _united(*parts: Sequence[str]) -> tuple[str, ...]:
    """Return everything that is in some part, once."""
    return tuple(dict.fromkeys(chain(*parts)))


def recorded(
    trace: PairTrace, hypotheses: Sequence[Hypothesis], measurements: Sequence[Measurement]
) -> Iterator[Observation]:
    """Yield what the tests of a pair recorded themselves, for hypotheses that ask for it."""
    for hypothesis in hypotheses:
        sides = trace.outcomes.get(hypothesis.measurement.test, {})
        metric = hypothesis.margin.metric
        found = [sides[side].recorded.get(metric) for side in SIDES if side in sides]
        values = [one.value for one in found if one is not None]
        if hypothesis.measurement in measurements and len(values) == len(SIDES):
            yield Observation(
                measurement=hypothesis.measurement,
                metric=metric,
                statistic=hypothesis.margin.statistic,
                baseline=array("d", [values[0]]),
                candidate=array("d", [values[1]]),
            )


def why_silent(pair: Pair, trace: PairTrace, hypothesis: Hypothesis) -> Statement:
    """Say why a hypothesis got no value in this pair."""
    if pair.lost:
        return pair.lost
    test, interleaving = hypothesis.measurement.test, trace.interleavings.get(hypothesis.measurement)
    key = hypothesis.margin.key
    if interleaving is not None and key in interleaving.refused:
        return interleaving.refused[key]
    failures = [f"{side}: {ended.reason}" for side, ended in trace.outcomes.get(test, {}).items() if ended.reason]
    return said("; ".join(failures) or "it was not measured there")
