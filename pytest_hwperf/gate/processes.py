"""Memory and cold starts of both sides: each value comes from a fresh process, and both sides take turns."""

import math
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from time import monotonic

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.pair.parent import Parent
from pytest_hwperf.gate.pair.shared_imports import SharedImports
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.launch import Command, Launched
from pytest_hwperf.host.one_shot import Given, ask
from pytest_hwperf.host.worker_protocol import Role, WorkerResult, WorkerTask
from pytest_hwperf.records.errors import HwperfError, UsageProblem
from pytest_hwperf.records.evidence import (
    Evidence,
    Explanation,
    FixedSample,
    Hypothesis,
    Measurement,
    PairedProfiles,
    Side,
)
from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import METRICS
from pytest_hwperf.records.units import counted
from pytest_hwperf.stats.causes.explanations import explained
from pytest_hwperf.stats.pairs.hypotheses import (
    FEWEST_PROCESSES,
    SIDES,
    PairedAnswers,
    Questions,
    is_open,
    processes_needed,
)
from pytest_hwperf.stats.pairs.sequence import decide
from pytest_hwperf.stats.pairs.timetable import rounded_up

_SHARE = 0.5  # of the time that is left, where pairs follow
_LONGEST_REASON = 500  # characters that are kept of what a process says


def time_limit(questions: Questions, until: float, why_late: Statement) -> tuple[float, Statement, str]:
    """Return when fresh processes end: with the time, or halfway where pairs follow; and why, and a line about it."""
    tests = counted(len({one.measurement.test for one in questions.processes}), "test")
    left_s = max(0.0, until - monotonic())
    if questions.hypotheses:
        until -= _SHARE * left_s
        left_s *= 1 - _SHARE
        why_late = state("out of part", limit=round(left_s))
    text = f"memory and cold starts of {tests} come from fresh processes, in at most {rounded_up(left_s)} s"
    return until, why_late, text


@dataclass(slots=True)
class ProcessSampler:
    """Measures fresh processes of both sides; which begins is drawn for each pair of them."""

    commands: Callable[[str], Mapping[Side, Command]]  # node id → how each side runs the file of that test
    random: Random
    until: float = math.inf  # instant of `monotonic` at which the process is ended that runs then
    why_late: Statement | None = None  # reason of what is not measured then
    progress: Callable[[Progress], None] = lambda _: None
    serial: Collection[str] = ()  # node ids of tests that cannot bear both sides at once
    seconds: float = 0.0  # spent so far
    _asked: int = 0  # pairs of processes so far

    def samples(self, questions: Questions, alpha: float) -> Iterator[FixedSample]:
        """Yield a sample for each hypothesis about processes; one that cannot be had becomes a part not compared."""
        needed = processes_needed(questions.family, alpha)
        for number, hypothesis in enumerate(questions.processes, 1):
            here = Progress(
                stage="processes", pair=number, of=len(questions.processes), test=hypothesis.measurement.test
            )
            notes: dict[Side, dict[str, None]] = {side: {} for side in SIDES}
            try:
                values = self._values(hypothesis, FEWEST_PROCESSES, here, notes)
                if is_open(hypothesis, values):  # fresh values: those that raised the question cannot decide it
                    values = self._values(hypothesis, needed, here, notes)
            except HwperfError as error:
                if monotonic() >= self.until:
                    questions.parts[hypothesis.key] = ("inconclusive", self.why_late)
                    continue
                questions.parts[hypothesis.key] = ("not comparable", said(error.sentence))
                continue
            yield FixedSample(
                hypothesis=hypothesis,
                per="fresh process",
                baseline=array("d", values["baseline"]),
                candidate=array("d", values["candidate"]),
                warnings=_of_both(notes),
            )

    def _values(
        self, hypothesis: Hypothesis, count: int, shown: Progress, notes: Mapping[Side, dict[str, None]]
    ) -> dict[Side, list[float]]:
        """Ask pairs of processes until each side has `count` values."""
        here, metric, began = hypothesis.measurement, hypothesis.margin.metric, monotonic()
        role: Role = "memory" if METRICS[metric].taken == "memory" else "cold"
        task = WorkerTask(role=role, node=here.test, label=here.label, growth=False)  # it is not compared
        bears_both = role == "memory" and here.test not in self.serial  # peaks do not depend on neighbours, times do
        at_once = len(SIDES) if bears_both else 1
        values: dict[Side, list[float]] = {side: [] for side in SIDES}
        commands = self.commands(here.test)
        while len(values["baseline"]) < count:
            self._show(shown, count - len(values["baseline"]), monotonic() - began)
            sides = list(SIDES)
            self.random.shuffle(sides)
            results = ask(task, [commands[side] for side in sides], at_once=at_once, until=self.until)
            for side, result in zip(sides, results, strict=True):
                if metric not in result.values:
                    reason = result.reasons.get(metric, "not measured").partition("\n")[0]
                    raise UsageProblem(f"{side}: {reason[:_LONGEST_REASON]}")
                values[side].append(result.values[metric])
                notes[side].update(dict.fromkeys(result.notes))
            self._asked += 1
        self.seconds += monotonic() - began
        return values

    def _show(self, here: Progress, left: int, spent_s: float) -> None:
        """Show between the processes how far it is: pairs of them that are left take as long as those so far."""
        left += (here.of - here.pair) * FEWEST_PROCESSES
        pace = (self.seconds + spent_s) / self._asked if self._asked else None
        self.progress(replace(here, left_s=None if pace is None else pace * left))


def _of_both(notes: Mapping[Side, Mapping[str, None]]) -> tuple[str, ...]:
    """Return what the processes noted about their values; of which side, where the other one did not."""
    both = [text for text in notes["baseline"] if text in notes["candidate"]]
    return (*both, *(f"{side}: {text}" for side in SIDES for text in notes[side] if text not in both))


_FORKED: Collection[Role] = ("functions", "operators")  # what a process that imports nothing itself can tell
_PATIENCE_S, _PATIENCE = 30.0, 3  # that both at once may take: so long, and times what the rehearsal took


@dataclass(slots=True, kw_only=True)
class BothSides:
    """Asks both sides of a test; where they have not answered at once, each is asked by itself."""

    commands: Callable[[str], Mapping[Side, Command]]  # node id → how each side runs the file of that test
    until: float  # instant of `monotonic` at which the process is ended that runs then
    at_once: int = 1  # sides
    spare: int = 0  # processors beside those of both sides
    patience_s: float = _PATIENCE_S  # that they may take at once
    alone: set[str] = field(default_factory=set)  # node ids of tests that one side at a time goes through
    shared: SharedImports | None = None  # imports that one process makes for both sides

    @classmethod
    def of(
        cls, conductor: Conductor, trace: PairTrace, commands: Callable[[str], Mapping[Side, Command]], until: float
    ) -> "BothSides":
        """Return what asks the sides of a build; threads of one side's calls would wait for those of the other."""
        return cls(
            commands=commands,
            until=until,
            at_once=min(len(SIDES), max(1, len(conductor.processors))),
            spare=max(0, len(conductor.processors) - len(SIDES)),
            patience_s=_PATIENCE_S + _PATIENCE * trace.wall_s,
            alone=conductor.serial | {here.test for here, one in trace.interleavings.items() if one.pools},
            shared=conductor.shared,
        )

    def ask(self, task: WorkerTask, order: Sequence[Side]) -> dict[Side, WorkerResult | HwperfError]:
        """Return what each side answers, or why it does not; after one that does not, the other is not asked."""
        commands, found = self.commands(task.node), dict[Side, WorkerResult | HwperfError]()
        if self.at_once == len(SIDES) and task.node not in self.alone:
            try:
                return dict(zip(order, self._at_once(task, order, [commands[side] for side in order]), strict=True))
            except HwperfError:
                self.alone.add(task.node)  # which side it was, and whether it is so by itself, is seen below
        for side in order:
            try:
                (found[side],) = ask(task, [commands[side]], until=self.until)
            except HwperfError as error:
                found[side] = error
                break
        return found

    def _at_once(self, task: WorkerTask, order: Sequence[Side], commands: Sequence[Command]) -> list[WorkerResult]:
        until = min(self.until, monotonic() + self.patience_s)
        with ExitStack() as stack:
            parent = self._parent(task, until)
            if parent is None:
                return ask(task, commands, at_once=len(SIDES), until=until)
            forked = partial(_forked, stack.enter_context(parent), order)
            if self.shared is not None:
                self.shared.use(self.spare)  # no import disturbs a profile
            return ask(task, commands, at_once=len(SIDES), until=until, start=forked)

    def _parent(self, task: WorkerTask, until: float) -> Parent | None:
        """Return what both sides are forked from, None where each has to import everything itself."""
        shared, here = self.shared, Measurement(test=task.node, label=task.label)
        if shared is None or task.role not in _FORKED or shared.is_new([here]):
            return None
        shared.prepare(self.at_once)  # that of the next repeat imports beside it, on the other processor
        return shared.parent(until - monotonic())


def _forked(parent: Parent, order: Sequence[Side], given: Sequence[Given]) -> Sequence[Launched]:
    """Start both sides by a fork."""
    started = parent.fork([(side, command, task) for side, (command, task, _) in zip(order, given, strict=True)])
    return [started[side] for side in order]


def answers_of(
    evidence: Evidence,
    questions: Questions,
    dropped: Mapping[Hypothesis, Statement],
    met: Collection[Measurement],
    found: tuple[Sequence[PairedProfiles], Sequence[Explanation]] = ((), ()),
) -> PairedAnswers:
    """Decide what was observed, and give the reason for everything else."""
    comparisons = explained(decide(evidence), *found)
    questions.parts.update({one.key: ("not comparable", why) for one, why in dropped.items()})
    silent = {key for one in evidence.hypotheses if (key := one.key) not in comparisons} - questions.parts.keys()
    questions.parts.update(dict.fromkeys(silent, ("inconclusive", evidence.stopped)))
    if evidence.stopped is not None and evidence.stopped.kind == "out of time":
        late = state("not reached", limit=evidence.stopped.numbers["limit"])
        questions.parts.update({one.key: ("inconclusive", late) for one in evidence.unreached})
    return PairedAnswers(comparisons=comparisons, questions=questions, met=frozenset(met))
