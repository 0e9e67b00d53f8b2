"""Pairs of fresh processes, one or several at a time, until all of a build is decided or the time is up."""

import dataclasses
import math
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from random import Random
from threading import Event
from typing import Literal, TypeVar

from pytest_hwperf.gate.pair.lockstep import Chance, PairTrace, Program, random_of, recorded, why_silent
from pytest_hwperf.gate.pair.parent import ParentLostError
from pytest_hwperf.gate.pair.run import Holder
from pytest_hwperf.gate.pair.shared_imports import SharedImports
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.gate.schedule import GroupSchedule
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.records.evidence import Evidence, Hypothesis, Measurement, Pair, Side, Stage
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.run import Key, replace
from pytest_hwperf.records.verdict import Comparison
from pytest_hwperf.stats.pairs.hypotheses import Facts
from pytest_hwperf.stats.pairs.paired import is_ratio, pair_value
from pytest_hwperf.stats.pairs.sequence import Step, decide, next_step
from pytest_hwperf.stats.pairs.timetable import PAIR_PLAN, REHEARSAL_PLAN, BlockPlan, screen_plan, serial_plan

_PATIENCE = 3  # pairs in a row that are lost before a test is reached, after which a build ends
_MISSES = 2  # pairs in a row without a value, after which a hypothesis is dropped
_USUAL_SILENCE_S = 30.0  # A process that repeats what was rehearsed may be silent for this time,
_REHEARSALS_LONG = 3  # and for so many times what the rehearsal took.
_LONGEST_S = 86_400.0  # that a pair may take, where no end is given


@dataclass(slots=True, kw_only=True)
class Conductor(Holder):
    """Decides which pairs are started, and keeps what they give."""

    seed: int = field(default_factory=partial(secrets.randbits, 63))  # of every random choice, kept with the evidence
    plan: BlockPlan = PAIR_PLAN
    at_once: int = 1  # pairs side by side; where `processors` are given, no more than these
    schedule: GroupSchedule | None = None  # None: all tests are one group, and are screened as they are confirmed
    processors: Sequence[int] = ()  # one is drawn for each measurement of a pair; none: the scheduler chooses
    progress: Callable[[Progress], None] = lambda _: None
    tell: Callable[[Hypothesis, Comparison], None] = lambda *_: None  # called when a regression is decided
    say: Callable[[str], None] = lambda _: None  # called with the plan, once a usual pair has shown what pairs take
    also: Sequence[Key] = ()  # statistics that are taken too, of the calls that are made for what is asked
    serial: set[str] = field(default_factory=set)  # node ids of tests that one side at a time goes through
    shared: SharedImports | None = None  # imports that one process makes for both sides of a pair
    seconds: dict[str, float] = field(default_factory=dict)  # stage → where the time went
    met: list[Mapping[Measurement, Mapping[Side, Facts]]] = field(default_factory=list)  # in pairs
    dropped: dict[Hypothesis, Statement] = field(default_factory=dict)  # that gave no value again and again → why
    so_far: Evidence | None = None  # of the build that is conducted: what an interruption leaves of it
    random: Random = field(init=False)  # of all choices that are no pair's
    _misses: Counter[Hypothesis] = field(default_factory=Counter)  # pairs in a row without its value
    _crashes: Counter[str] = field(default_factory=Counter)  # node id → pairs that were lost in that test
    _conducted: int = 0  # pairs, without rehearsals
    _has_said: bool = False  # how long the comparison takes

    def __post_init__(self) -> None:
        """Begin the random choices; what else is taken of the same calls needs more of them."""
        if self.also and self.plan == PAIR_PLAN:
            self.plan = BlockPlan()
        self.random = Random(self.seed)  # noqa: S311 - fair coins whose throws can be repeated, no secret

    def rehearse(
        self,
        nodes: Sequence[str],
        until: float = math.inf,
        silence_s: float = math.inf,
        *,
        as_in_pairs: Mapping[str, Sequence[Key]] | None = None,
        trace: PairTrace | None = None,
    ) -> PairTrace:
        """Run a first pair whose times are discarded: it finds what crashes, and takes all that needs no clock.

        What it shows is added to a trace, if one is given.
        """
        trace, began = trace or PairTrace(), self.clock()
        before_s = trace.wall_s
        here = Progress(stage="rehearsal", pair=1, of=1, test="")
        shared, apart = ([node for node in nodes if (node in self.serial) == serial] for serial in (False, True))
        program = Program(
            nodes=shared,
            as_in_pairs=as_in_pairs or {},
            chance=Chance(self.random, self.processors),
            until=until,
            clock=self.clock,
            exact=True,
            plan=self._patient(self.plan, self._silence_s) if as_in_pairs else self._patient(REHEARSAL_PLAN),
            silence_s=min(self._silence_s, silence_s),
            shown=here,
            progress=self.progress,
        )
        self.progress(here)
        if shared or not apart:
            self.hold(program, trace=trace)
            trace.reached_s = {test: when - began for test, when in trace.reached.items()}
        if apart and not trace.lost:
            program = dataclasses.replace(program, nodes=apart, silence_s=self._silence_s)
            self.hold_apart(program, trace)
        self._spend("rehearsal", trace.wall_s - before_s)
        return trace

    def alone(self, side: Side, nodes: Sequence[str], until: float = math.inf) -> PairTrace:
        """Let one side go through tests with the other side closed: nothing is measured."""
        program = Program(
            nodes=nodes,
            chance=Chance(self.random, self.processors),
            until=until,
            silence_s=self._silence_s,
        )
        trace = self.hold(program, sides=[side])
        self._spend("rehearsal", trace.wall_s)
        return trace

    def bear(self, side: Side, node: str, calls: int, rehearsed: PairTrace, until: float = math.inf) -> PairTrace:
        """Let one process of a side make calls of a test, to see whether it bears them, or hangs."""
        usual_s = self._usual_silence_s(rehearsed)
        slowest_s = _slowest_s(node, rehearsed)
        block_s = self.plan.patience_s + 3 * calls * slowest_s if slowest_s else usual_s
        program = Program(
            nodes=[node],
            chance=Chance(self.random, self.processors),
            stage="confirm",
            until=until,
            clock=self.clock,
            exact=True,
            plan=dataclasses.replace(self.plan, first_block_s=min(self._silence_s, block_s)),
            silence_s=usual_s,
            processes=1,
            calls=max(1, calls),
        )
        trace = self.hold(program, sides=[side])
        self._spend("failures", trace.wall_s)
        return trace

    def share_imports(self, rehearsed: PairTrace) -> SharedImports:
        """Let further pairs share imports that an accepted rehearsal has shown; its processes end when it is closed."""
        seeds = Random(f"{self.seed}:parents")  # noqa: S311 - hash seeds that can be drawn again, no secret
        self.shared = SharedImports(self.commands, rehearsed, seeds, ahead=self.at_once == 1 < len(self.processors))
        return self.shared

    def conduct(self, evidence: Evidence, until: float, why_late: Statement | None) -> Evidence:
        """Run pairs until every hypothesis is decided."""
        lost = 0
        while True:
            self.so_far = evidence
            evidence, step = self._next(evidence, until, why_late)
            if step.stage is None:
                return evidence
            if together := [one for one in step.hypotheses if one.measurement.test not in self.serial]:
                step = step.only(together)  # what cannot bear both sides at once is measured when these are done
            if self.clock() >= until:
                return replace(evidence, stopped=why_late)
            found = self._side_by_side(evidence, step, until)
            evidence = replace(evidence, pairs=(*evidence.pairs, *(pair for pair, _ in found)))
            self._tell(evidence, step)
            if self.schedule is not None and not self._has_said and self.schedule.is_typical(evidence):
                self._has_said = True
                spent_s = sum(self.seconds.get(stage, 0.0) for stage in ("screen", "confirm"))
                self.say(self.schedule.said(evidence, until - self.clock() + spent_s, self.seconds.get("screen", 0.0)))
            if any(pair.lost for pair, _ in found) and self.clock() >= until:
                return replace(evidence, stopped=why_late)
            for ahead, (pair, trace) in enumerate(found):
                evidence = self._without_silent(evidence, step.after(ahead).hypotheses, pair, trace)
                self._crashes[trace.unfinished] += bool(pair.lost)
                lost = lost + 1 if pair.lost and not trace.unfinished else 0
                if lost >= _PATIENCE:
                    return replace(evidence, stopped=state("pairs lost", lost=lost, why=str(pair.lost)))

    def _tell(self, evidence: Evidence, step: Step) -> None:
        """Tell which of the hypotheses that a pair was for have regressed by it."""
        found = decide(evidence) if step.stage == "confirm" else {}
        for hypothesis in step.hypotheses:
            if hypothesis in found and found[hypothesis].outcome == "regressed":
                self.tell(hypothesis, found[hypothesis])

    def _side_by_side(self, evidence: Evidence, step: Step, until: float) -> Sequence[tuple[Pair, PairTrace]]:
        """Run as many pairs of a step at the same time as may be; each has its own chance and its own processors."""
        began, stop = self.clock(), Event()
        until = min(until, began + _LONGEST_S)
        pairs = 1 if self._is_serial(step) else min(self.at_once, step.pairs)
        jobs = []
        for ahead in range(pairs):
            program = Program(
                stage=step.stage or "screen",
                nodes=(),
                chance=Chance(random_of(self.seed, self._conducted + 1 + ahead), self.processors[ahead::pairs]),
                until=until,
                stop=stop,
                clock=self.clock,
                shown=self._progress(evidence, step, pairs) if not ahead else None,
                progress=self.progress,
            )
            jobs.append(partial(self._pair, evidence, step.after(ahead), program, len(evidence.pairs) + 1 + ahead))
        self._conducted += pairs
        found = run_side_by_side(jobs, stop)
        tried_s = min(trace.tried_s for _, trace in found)
        # What a crash or a hang takes tells nothing of how long the next pairs take.
        stage = "failures" if all(pair.lost for pair, _ in found) else step.stage or "screen"
        self._spend(stage, self.clock() - began - tried_s)
        if tried_s:
            self._spend("imports", tried_s)
        return found

    def _next(self, evidence: Evidence, until: float, why_late: Statement | None) -> tuple[Evidence, Step]:
        """Return what the next pair is for; where a group is over, the next one is begun if there is time."""
        while True:
            step, begun = next_step(evidence), sum(evidence.groups)
            if self.schedule is None:
                return evidence, step
            times = until - self.clock(), self.seconds.get("screen", 0.0)
            if begun and step.stage == "screen":
                size = self.schedule.shortened(evidence, *times)
                if size == evidence.groups[-1]:
                    return evidence, step
                evidence = replace(evidence, groups=(*evidence.groups[:-1], size))
            elif begun == len(evidence.hypotheses) or (begun and step.stage):
                return evidence, step
            else:
                size = self.schedule.next_group(evidence, *times)
                if not size:
                    return replace(evidence, stopped=why_late), Step(stage=None)
                evidence = replace(evidence, groups=(*evidence.groups, size))

    def _without_silent(
        self, evidence: Evidence, waiting: Sequence[Hypothesis], pair: Pair, trace: PairTrace
    ) -> Evidence:
        """Drop hypotheses that gave no value again and again where they should have: the pairs would never end.

        What is decided waits for none and stays. Of a test that only now and then crashes, or that another one's crash
        has cut off, more pairs are run.
        """
        seen = {one.key for one in pair.observations}
        for hypothesis in waiting:
            if hypothesis.key in seen:
                self._misses[hypothesis] = 0
                continue
            if pair.lost and hypothesis.measurement.test != trace.unfinished:
                continue
            self._misses[hypothesis] += 1
            if self._misses[hypothesis] >= _MISSES:
                why = why_silent(pair, trace, hypothesis)
                side, calls = why.texts.get("side", ""), why.numbers.get("calls", 0.0)
                self.dropped[hypothesis] = state("no value", pairs=_MISSES, why=str(why), side=side, calls=calls)
        return replace(evidence, dropped=tuple(self.dropped))

    def _pair(self, evidence: Evidence, step: Step, program: Program, number: int) -> tuple[Pair, PairTrace]:
        measurements, plan = step.measurements, self.plan
        if self._is_serial(step):
            plan = serial_plan(plan)
        elif self.schedule is not None and program.stage == "screen":
            plan = screen_plan(plan, self.schedule.screening)
        program = dataclasses.replace(
            program,
            nodes=sorted(  # what has crashed comes last: it cuts off what follows
                dict.fromkeys(measurement.test for measurement in measurements), key=lambda node: self._crashes[node]
            ),
            asked=[one for one in evidence.hypotheses if one.measurement in measurements],
            also=self.also,
            plan=dataclasses.replace(
                plan, first_block_s=self._usual_silence_s(self.shared.rehearsed if self.shared else None)
            ),
            silence_s=self._silence_s,
        )
        trace = self.hold_apart(program) if self._is_serial(step) else self._held(program, measurements)
        self.met.append(trace.facts)
        interleavings = trace.interleavings.values()
        pair = Pair(
            number=number,
            stage=program.stage,
            first=trace.first,
            hash_seeds=trace.hash_seeds,
            assignments=tuple(interleaving.assignment for interleaving in interleavings),
            observations=tuple(
                replace(one, change=pair_value(one) if is_ratio(one) else None)
                for one in chain(
                    *(interleaving.observations for interleaving in interleavings),
                    recorded(trace, evidence.hypotheses, measurements),
                )
            ),
            seen=tuple(trace.seen),
            lost=trace.lost,
        )
        return pair, trace

    def _held(self, program: Program, measurements: Sequence[Measurement]) -> PairTrace:
        """Conduct a pair whose sides share imports; one that does not go as rehearsed is repeated without that."""
        shared = self.shared
        if shared is None or shared.why_not:
            return self.hold(program)
        asked, is_new = program, shared.is_new(measurements)
        if is_new:  # a library that hangs in a forked process is not waited for as long as one that trains a model
            asked = dataclasses.replace(program, exact=True, silence_s=self._usual_silence_s(shared.rehearsed))
        began = self.clock()
        try:
            trace = self.hold(asked, shared=shared)
        except ParentLostError as error:
            shared.stop(str(error))
            return self.hold(program)
        is_stopped = program.stop is not None and program.stop.is_set()
        if trace.lost and self.clock() < program.until and not is_stopped:
            shared.stop(str(trace.lost))  # what was observed before counts, as of any pair that is lost
        if trace.lost or not trace.is_forked or not is_new or shared.is_as_rehearsed(trace, measurements):
            return trace
        tried_s = self.clock() - began
        # With the seed of the forked pair, what follows from the order of a set is the same in both.
        again = self.hold(dataclasses.replace(program, exact=True), hash_seeds=trace.hash_seeds)
        again.tried_s = tried_s
        shared.learn(trace, again, measurements)
        return again

    @property
    def imports(self) -> str:
        """What pairs have shared, "" where there were none."""
        return self.shared.said if self.shared and self._conducted else ""

    def _progress(self, evidence: Evidence, step: Step, pairs: int) -> Progress:
        """Return how far the first of the next pairs is."""
        stage, measurements, left = step.stage or "screen", step.measurements, step.pairs
        whole = sum(pair.stage == stage and not pair.lost for pair in evidence.pairs)
        asked = {one.key for one in evidence.hypotheses if one.measurement in measurements}
        done = sum(
            pair.stage == stage and any(one.key in asked for one in pair.observations) for pair in evidence.pairs
        )
        tests = {one.measurement.test for one in evidence.hypotheses}
        open_ = {one.test for one in measurements} | {one.measurement.test for one in evidence.unreached}
        return Progress(
            stage=stage,
            pair=done + 1,
            beside=pairs - 1,
            of=done + left,
            test="",
            decided=len(tests - open_),
            tests=len(tests),
            left_s=self.seconds.get(stage, 0.0) / whole * left if whole else None,
        )

    @property
    def _silence_s(self) -> float:
        """The longest that a process may be silent: while it starts, in a fixture that trains a model."""
        return max(command.deadline_s for command in self.commands.values())

    def _usual_silence_s(self, rehearsed: PairTrace | None) -> float:
        """Return how long a process may be silent that does what a rehearsal has shown, where there was one."""
        if rehearsed is None:
            return self._silence_s
        return min(self._silence_s, _USUAL_SILENCE_S + _REHEARSALS_LONG * rehearsed.wall_s)

    def _patient(self, plan: BlockPlan, patience_s: float | None = None) -> BlockPlan:
        """Let the first block of a measurement take as long: nothing is known of it yet."""
        patience_s = plan.patience_s if patience_s is None else patience_s
        return dataclasses.replace(plan, first_block_s=self._silence_s, patience_s=patience_s)

    def _is_serial(self, step: Step) -> bool:
        """Whether one side at a time goes through the tests of a step."""
        return self.serial.issuperset(measurement.test for measurement in step.measurements)

    def _spend(self, stage: Stage | Literal["imports", "failures"], seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


def _slowest_s(node: str, rehearsed: PairTrace) -> float:
    """Return the longest usual call of a test that a rehearsal has seen on a side; 0 where it was not measured."""
    found = (one for here, taken in rehearsed.interleavings.items() if here.test == node for one in taken.observations)
    values = (chain(one.baseline, one.candidate) for one in found if (one.metric, one.statistic) == MEDIAN_LATENCY)
    return max(chain.from_iterable(values), default=0.0)


T = TypeVar("T")


def run_side_by_side(jobs: Sequence[Callable[[], T]], stop: Event) -> list[T]:
    """Run jobs at the same time, the first of them in this thread; return what they return, in their order.

    Signals reach the main thread only, and the first job as if it was alone. Where it, or one of the others, is ended
    by an error, `stop` is set: the other jobs end themselves then, and are waited for.
    """
    first, *others = jobs
    if not others:
        return [first()]
    with ThreadPoolExecutor(len(others)) as pool:
        try:
            with uninterrupted():
                beside = [pool.submit(job) for job in others]
            return [first(), *(job.result() for job in beside)]
        except BaseException:
            stop.set()
            with uninterrupted():
                pool.shutdown()
            raise
