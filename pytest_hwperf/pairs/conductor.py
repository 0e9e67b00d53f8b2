"""Pairs of fresh processes, one after the other, until every hypothesis of the build is decided or the time is up."""

import dataclasses
import math
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from random import Random
from time import monotonic
from typing import Literal, Protocol

from pytest_hwperf.core.affected import Watch
from pytest_hwperf.core.block_plans import BlockPlan
from pytest_hwperf.core.evidence import Evidence, Hypothesis, Measurement, Pair, Side, Stage
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.paired import is_ratio, pair_value
from pytest_hwperf.core.records import Key, replace
from pytest_hwperf.core.sequence import Step, next_step
from pytest_hwperf.core.serialisation import to_json
from pytest_hwperf.core.statements import Statement, state
from pytest_hwperf.core.timetable import PAIR_PLAN, REHEARSAL_PLAN, Screening
from pytest_hwperf.host import workdirs
from pytest_hwperf.host.command_line import Command
from pytest_hwperf.host.files import new_folder, replace_file
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.launch import launch
from pytest_hwperf.host.opened_files import WATCHES_FILES
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.pairs.channel import Connection, WorkerLostError, sockets
from pytest_hwperf.pairs.lockstep import Pairing, PairTrace, Program
from pytest_hwperf.pairs.outcomes import recorded, why_silent
from pytest_hwperf.pairs.serial import Apart, both, of_one_kind

_PATIENCE = 3  # pairs in a row that are lost before a test is reached, after which a build ends
_WATCH = "watch.json"  # file with what a process watches
_MISSES = 2  # pairs in a row without a value, after which a hypothesis is dropped
_HASH_SEEDS = 2**32 - 1  # the largest PYTHONHASHSEED


class Schedule(Protocol):
    """What a build needs to know to compare its tests in groups."""

    @property
    def screening(self) -> Screening:
        """How its tests are screened."""

    def next_group(self, evidence: Evidence, left_s: float, screened_s: float) -> int:
        """Return how many hypotheses are asked next, 0 where there is no time for any.

        Args:
            evidence: of the groups so far.
            left_s: of the time that is given.
            screened_s: that the screens of these groups took.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the pairs are, or what is done beside them."""

    stage: Stage | Literal["checkout", "processes", "operators", "explain"]
    pair: int  # of this stage, from 1; of what is explained and the like, its number
    of: int  # pairs until the next decision
    test: str  # being measured, "" between tests
    decided: int = 0  # hypotheses
    hypotheses: int = 0
    left_s: float | None = None  # until the next decision, from the pairs so far; None: not known yet


@dataclass(slots=True, kw_only=True)
class Conductor:
    """Starts pairs and conducts them; every process it starts is gone when a pair is over."""

    commands: Mapping[Side, Command]
    logs: Path  # the log of a lost pair is kept here
    seed: int = field(default_factory=partial(secrets.randbits, 63))  # of every random choice, kept with the evidence
    plan: BlockPlan = PAIR_PLAN
    schedule: Schedule | None = None  # None: all tests are one group, and are screened as they are confirmed
    processors: Sequence[int] = ()  # one is drawn for each measurement of a pair; none: the scheduler chooses
    progress: Callable[[Progress], None] = lambda _: None
    plant: float = 0.0  # share of work that is added to the candidate's calls, to see it found
    also: Sequence[Key] = ()  # statistics that are taken too, of the calls that are made for what is asked
    watches: Mapping[Side, Watch] = field(default_factory=dict)  # what rehearsals of both sides watch for changes
    serial: set[str] = field(default_factory=set)  # node ids of tests that one side at a time goes through
    clock: Callable[[], float] = monotonic
    seconds: dict[str, float] = field(default_factory=dict)  # stage → where the time went
    dropped: dict[Hypothesis, Statement] = field(default_factory=dict)  # that gave no value again and again → why
    random: Random = field(init=False)
    _misses: Counter[Hypothesis] = field(default_factory=Counter)  # pairs in a row without its value
    _crashes: Counter[str] = field(default_factory=Counter)  # node id → pairs that were lost in that test
    _started: int = 0

    def __post_init__(self) -> None:
        """Begin the random choices; what else is taken of the same calls needs more of them."""
        if self.also and self.plan == PAIR_PLAN:
            self.plan = BlockPlan()
        self.random = Random(self.seed)  # noqa: S311 - fair coins whose throws can be repeated, no secret

    def rehearse(self, nodes: Sequence[str], until: float = math.inf, silence_s: float = math.inf) -> PairTrace:
        """Run a first pair whose times are discarded: it finds what crashes, and takes all that needs no clock.

        Args:
            nodes: ids of the tests.
            until: instant of `clock` at which it is cut off.
            silence_s: the longest that a process may be silent, where it is less than for other pairs.
        """
        began, reached = self.clock(), dict[str, float]()

        def watch(measurement: Measurement) -> None:
            if measurement.test:
                reached.setdefault(measurement.test, self.clock() - began)
            self.progress(Progress(stage="rehearsal", pair=1, of=1, test=measurement.test))

        shared, apart = ([node for node in nodes if (node in self.serial) == serial] for serial in (False, True))
        program = Program(
            nodes=shared,
            wanted=lambda _: [MEDIAN_LATENCY],
            exact=True,
            plan=self._patient(REHEARSAL_PLAN),
            silence_s=min(self._silence_s, silence_s),
            watch=watch,
            draw=self._draw,
        )
        watch(Measurement(test="", label=""))
        held = list[PairTrace]()
        if shared or not apart:
            held.append(self._hold("rehearsal", program, until))
            held[0].reached_s = dict(reached)
        if apart and not (held and held[0].lost):
            program = dataclasses.replace(program, nodes=apart, silence_s=self._silence_s)
            held.append(self._hold_apart("rehearsal", program, until))
        return reduce(both, held)

    def alone(self, side: Side, nodes: Sequence[str], until: float = math.inf) -> PairTrace:
        """Let one side go through tests with the other side closed: nothing is measured.

        Args:
            side: which it is.
            nodes: ids of the tests.
            until: instant of `clock` at which it is cut off.
        """
        program = Program(nodes=nodes, wanted=lambda _: (), silence_s=self._silence_s)
        return self._hold("rehearsal", program, until, [side])

    def conduct(self, evidence: Evidence, until: float, why_late: Statement | None) -> Evidence:
        """Run pairs until every hypothesis is decided.

        Args:
            evidence: hypotheses and fixed samples; its pairs are continued.
            until: instant of `clock` at which the pair is cut off that runs then; no other is begun.
            why_late: reason of hypotheses that are undecided then.

        Returns:
            The same with the pairs that were run; `stopped` says why hypotheses were left undecided.
        """
        lost = 0
        while True:
            evidence, step = self._next(evidence, until, why_late)
            step = of_one_kind(step, self.serial)
            if step.stage is None:
                return evidence
            if self.clock() >= until:
                return replace(evidence, stopped=why_late)
            pair, trace = self._pair(evidence, step, until)
            evidence = replace(evidence, pairs=(*evidence.pairs, pair))
            if pair.lost and self.clock() >= until:
                return replace(evidence, stopped=why_late)
            evidence = self._without_silent(evidence, step.hypotheses, pair, trace)
            self._crashes[trace.unfinished] += bool(pair.lost)
            lost = lost + 1 if pair.lost and not trace.unfinished else 0
            if lost >= _PATIENCE:
                return replace(evidence, stopped=state("pairs lost", lost=lost, why=str(pair.lost)))

    def _next(self, evidence: Evidence, until: float, why_late: Statement | None) -> tuple[Evidence, Step]:
        """Return what the next pair is for; where a group is over, the next one is begun if there is time."""
        step, begun = next_step(evidence), sum(evidence.groups)
        if self.schedule is None or begun == len(evidence.hypotheses) or (begun and step.stage):
            return evidence, step
        size = self.schedule.next_group(evidence, until - self.clock(), self.seconds.get("screen", 0.0))
        if not size:
            return replace(evidence, stopped=why_late), Step(stage=None)
        evidence = replace(evidence, groups=(*evidence.groups, size))
        return evidence, next_step(evidence)

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
                why = str(why_silent(pair, trace, hypothesis))
                self.dropped[hypothesis] = state("no value", pairs=_MISSES, why=why)
        return replace(evidence, dropped=tuple(self.dropped))

    def _pair(self, evidence: Evidence, step: Step, until: float) -> tuple[Pair, PairTrace]:
        stage, measurements, plan = step.stage or "screen", step.measurements, self.plan
        if self.schedule is not None and stage == "screen":
            plan = self.schedule.screening.plan(plan)
        program = Program(
            nodes=sorted(  # what has crashed comes last: it cuts off what follows
                dict.fromkeys(measurement.test for measurement in measurements), key=lambda node: self._crashes[node]
            ),
            wanted=lambda here: [
                one.margin.key for one in evidence.hypotheses if one.measurement == here and here in measurements
            ],
            also=self.also,
            plan=self._patient(plan),
            silence_s=self._silence_s,
            watch=self._watch(evidence, stage, measurements, step.pairs),
            draw=self._draw,
        )
        hold = self._hold_apart if self.serial.issuperset(program.nodes) else self._hold
        trace = hold(stage, program, until)
        interleavings = trace.interleavings.values()
        pair = Pair(
            number=len(evidence.pairs) + 1,
            stage=stage,
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
            lost=trace.lost,
        )
        return pair, trace

    def _watch(
        self, evidence: Evidence, stage: Stage, measurements: Sequence[Measurement], left: int
    ) -> Callable[[Measurement], None]:
        """Return what shows the progress when a measurement of the next pair begins."""
        whole = sum(pair.stage == stage for pair in evidence.pairs)
        asked = {one.key for one in evidence.hypotheses if one.measurement in measurements}
        done = sum(
            pair.stage == stage and any(one.key in asked for one in pair.observations) for pair in evidence.pairs
        )
        here = Progress(
            stage=stage,
            pair=done + 1,
            of=done + left,
            test="",
            decided=len({hypothesis.measurement for hypothesis in evidence.hypotheses} - set(measurements)),
            hypotheses=len(evidence.hypotheses),
            left_s=self.seconds.get(stage, 0.0) / whole * left if whole else None,
        )
        return lambda measurement: self.progress(dataclasses.replace(here, test=measurement.test))

    @property
    def _silence_s(self) -> float:
        """The longest that a process may be silent: while it starts, in a fixture that trains a model."""
        return max(command.deadline_s for command in self.commands.values())

    def _patient(self, plan: BlockPlan) -> BlockPlan:
        """Let the first block of a measurement take as long: nothing is known of it yet."""
        return dataclasses.replace(plan, first_block_s=self._silence_s)

    def _hold(self, stage: Stage, program: Program, until: float, sides: Sequence[Side] = SIDES) -> PairTrace:
        """Start a pair, or one side of it, conduct it through the program, and end it."""
        began = self.clock()
        order = sides if self._toss() else sides[::-1]
        seeds: dict[str, int] = {side: self.random.randrange(_HASH_SEEDS) for side in order}
        self._started += 1
        whole = len(order) == len(SIDES) or program.by_itself is not None
        watches = self.watches if stage == "rehearsal" and whole else {}
        noted = {WATCHES_FILES: "1"} if stage == "rehearsal" else {}
        with self._processes(order, seeds, until, watches, noted) as (connections, folder):
            try:
                for side in sides:
                    connections[side].greet(program.silence_s)
                trace = Pairing(connections, program, self._toss).run()
            except WorkerLostError as error:
                trace = PairTrace()
                trace.lose(error)
            if trace.lost:
                trace.lost = state("lost, logged", log=str(self._kept(folder, sides)), **trace.lost.texts)
        trace.first, trace.hash_seeds = order[0], seeds
        trace.wall_s = self.clock() - began
        self.seconds[stage] = self.seconds.get(stage, 0.0) + trace.wall_s
        return trace

    def _hold_apart(self, stage: Stage, program: Program, until: float) -> PairTrace:
        """Conduct processes of both sides through the program one after the other; see `pairs.serial`."""
        order = SIDES if self._toss() else SIDES[::-1]
        processes = 1 if stage == "rehearsal" else 2
        apart = Apart(program, self.clock, self._toss, processes, PairTrace(first=order[0]))
        return apart.run(order, lambda one, side: self._hold(stage, one, until, [side]))

    @contextmanager
    def _processes(
        self,
        order: Sequence[Side],
        seeds: Mapping[str, int],
        until: float,
        watches: Mapping[Side, Watch],
        variables: Mapping[str, str],
    ) -> Iterator[tuple[dict[Side, Connection], Path]]:
        """Start both processes, each with an end of a socket that has no address: nobody else can connect to it."""
        with workdirs.workdir() as folder, ExitStack() as stack:
            connections = dict[Side, Connection]()
            for side in order:
                ours, theirs = sockets()
                stack.callback(ours.close)
                with theirs, uninterrupted():
                    place, plant = folder / side, self.plant if side == "candidate" else 0.0
                    place.mkdir()
                    watch = str(place / _WATCH) if side in watches else ""
                    if watch:
                        replace_file(Path(watch), to_json(watches[side]))
                    task = WorkerTask(role="pair", side=side, reply_to=str(theirs.fileno()), plant=plant, watch=watch)
                    own = {"PYTHONHASHSEED": str(seeds[side]), **variables}
                    process = launch(self.commands[side], task, place, own, [theirs.fileno()])
                    stack.callback(process.end)
                connections[side] = Connection(ours, process, side, until, self.clock)
            yield connections, folder

    def _kept(self, workdir: Path, sides: Sequence[Side]) -> Path:
        """Copy the logs of a lost pair to where the user finds them."""
        folder = new_folder(self.logs, f"pair-{self._started}")
        for side in sides:
            shutil.copyfile(workdir / side / "log", folder / f"{side}.log")
        return folder

    def _draw(self) -> int | None:
        return self.random.choice(self.processors) if self.processors else None

    def _toss(self) -> bool:
        return self.random.random() < 0.5  # noqa: PLR2004 - a fair coin
