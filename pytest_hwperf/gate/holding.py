"""One pair of fresh processes: started, conducted through its program, and ended."""

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from time import monotonic

from pytest_hwperf.gate.chance import Chance
from pytest_hwperf.gate.channel import Connection, WorkerLostError, sockets
from pytest_hwperf.gate.lockstep import Pairing, PairTrace, Program
from pytest_hwperf.gate.parent import Parent
from pytest_hwperf.gate.shared_imports import SharedImports
from pytest_hwperf.host import workdirs
from pytest_hwperf.host.files import new_folder, replace_file
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.launch import Command, launch
from pytest_hwperf.host.opened_files import WATCHES_FILES
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.evidence import Measurement, Side, Stage
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.affected import Watch
from pytest_hwperf.stats.hypotheses import SIDES

_WATCH = "watch.json"  # file with what a process watches


@dataclass(slots=True, kw_only=True)
class Holder:
    """Starts pairs, in any thread; every process that it starts is gone when its pair is over."""

    commands: Mapping[Side, Command]
    logs: Path  # the log of a lost pair is kept here
    plant: float = 0.0  # share of work that is added to the candidate's calls, to see it found
    watches: Mapping[Side, Watch] = field(default_factory=dict)  # what rehearsals of both sides watch for changes
    clock: Callable[[], float] = monotonic
    numbers: Iterator[int] = field(default_factory=partial(count, 1))  # of what is started, for its logs

    def hold(  # noqa: PLR0913 - a pair, and what a part of it alone needs
        self,
        stage: Stage,
        program: Program,
        until: float,
        chance: Chance,
        *,
        sides: Sequence[Side] = SIDES,
        stop: Event | None = None,
        shared: SharedImports | None = None,
        trace: PairTrace | None = None,
    ) -> PairTrace:
        """Start a pair, or one side of it, conduct it through the program, and end it, early once `stop` is set.

        What it shows is added to a trace, if one is given.
        """
        trace, began, started = trace or PairTrace(), self.clock(), next(self.numbers)
        order = sides if chance.toss() else sides[::-1]
        parent = shared.parent(until - self.clock()) if shared else None
        seeds: dict[str, int] = {side: parent.seed if parent else chance.hash_seed() for side in order}
        whole = len(order) == len(SIDES) or program.processes
        watches = self.watches if stage == "rehearsal" and whole else {}
        noted = {WATCHES_FILES: "1"} if stage == "rehearsal" else {}
        end = until, stop
        processes = self._forked(order, parent, end) if parent else self._processes(order, seeds, end, watches, noted)
        with processes as (connections, folder):
            try:
                for side in sides:
                    connections[side].greet(program.silence_s)
                if shared:
                    shared.prepare()
                    program = dataclasses.replace(program, leave=shared.use)
                Pairing(connections, program, chance.toss, trace).run()
            except WorkerLostError as error:
                trace.lose(error)
            if trace.lost:
                trace.lost = state("lost, logged", log=str(self._kept(folder, sides, started)), **trace.lost.texts)
        trace.first, trace.is_forked = order[0], parent is not None
        trace.hash_seeds |= {f"{side} 2" if side in trace.hash_seeds else side: seed for side, seed in seeds.items()}
        trace.wall_s += self.clock() - began
        return trace

    def hold_apart(
        self,
        stage: Stage,
        program: Program,
        until: float,
        chance: Chance,
        *,
        stop: Event | None = None,
        trace: PairTrace | None = None,
    ) -> PairTrace:
        """Conduct processes of both sides through the program in the order ABBA, of which one is alive at a time.

        Each goes through all tests by itself. One that is lost ends it.
        """
        trace, order = trace or PairTrace(), SIDES if chance.toss() else SIDES[::-1]
        program = dataclasses.replace(program, processes=1 if stage == "rehearsal" else 2, margin=lambda _: 0.0)
        trace.begin_apart(program.nodes)
        starts_s, began_s = 0.0, trace.wall_s
        for side in (*order, *order[::-1])[: len(SIDES) * program.processes]:
            began, reached = self.clock(), dict[str, float]()

            def watch(here: Measurement, reached: dict[str, float] = reached) -> None:
                reached.setdefault(here.test, self.clock())
                program.watch(here)

            noted = dataclasses.replace(program, watch=watch)
            self.hold(stage, noted, until, chance, sides=[side], stop=stop, trace=trace)
            starts_s += next(iter(reached.values()), began) - began
            for (test, when), end in zip(reached.items(), [*reached.values(), self.clock()][1:], strict=True):
                trace.apart[test] = trace.apart.get(test, 0.0) + end - when
            if trace.lost:
                break
        trace.first = order[0]
        trace.apart_start_s = max(trace.apart_start_s, starts_s)
        trace.apart_wall_s += trace.wall_s - began_s
        trace.end_apart(program.nodes)
        return trace

    @contextmanager
    def _processes(
        self,
        order: Sequence[Side],
        seeds: Mapping[str, int],
        end: tuple[float, Event | None],
        watches: Mapping[Side, Watch],
        variables: Mapping[str, str],
    ) -> Iterator[tuple[dict[Side, Connection], Path]]:
        """Start both processes, each with an end of a socket that has no address: nobody else can connect to it."""
        with workdirs.workdir() as folder, ExitStack() as stack:
            connections, clock = dict[Side, Connection](), self._ended_by(*end)
            for side in order:
                ours, theirs = sockets()
                stack.callback(ours.close)
                with theirs, uninterrupted():
                    place, plant = folder / side, self.plant if side == "candidate" else 0.0
                    place.mkdir()
                    watch = str(place / _WATCH) if side in watches else ""
                    if watch:
                        replace_file(Path(watch), to_json(watches[side]))
                    whole = WorkerTask(role="pair", side=side, reply_to=str(theirs.fileno()), plant=plant, watch=watch)
                    task = replace(whole, began_s=monotonic())
                    own = {"PYTHONHASHSEED": str(seeds[side]), **variables}
                    process = launch(self.commands[side], task, place, own, [theirs.fileno()])
                    stack.callback(process.end)
                connections[side] = Connection(ours, process, side, end[0], clock)
            yield connections, folder

    @contextmanager
    def _forked(
        self, order: Sequence[Side], parent: Parent, end: tuple[float, Event | None]
    ) -> Iterator[tuple[dict[Side, Connection], Path]]:
        """Fork both processes from one that has imported for them."""
        with parent, ExitStack() as stack:
            tasks = list[tuple[Side, Command, WorkerTask]]()
            for side in order:
                theirs, plant = parent.connections[side][1], self.plant if side == "candidate" else 0.0
                task = WorkerTask(role="pair", side=side, reply_to=str(theirs.fileno()), plant=plant)
                tasks.append((side, self.commands[side], replace(task, began_s=monotonic())))
            clock = self._ended_by(*end)
            connections = dict[Side, Connection]()
            for side, process in parent.fork(tasks).items():
                stack.callback(process.end)
                connections[side] = Connection(parent.connections[side][0], process, side, end[0], clock)
            yield connections, parent.folder

    def _kept(self, workdir: Path, sides: Sequence[Side], started: int) -> Path:
        """Copy the logs of a lost pair to where the user finds them."""
        folder = new_folder(self.logs, f"pair-{started}")
        for side in sides:
            shutil.copyfile(workdir / side / "log", folder / f"{side}.log")
        return folder

    def _ended_by(self, until: float, stop: Event | None) -> Callable[[], float]:
        """Return a clock that is past the end as soon as a pair has to stop: whatever is waited for is given up."""
        return lambda: until + 1 if stop is not None and stop.is_set() else self.clock()
