"""One pair of fresh processes: started, conducted through its program, and ended."""

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic

from pytest_hwperf.gate.chance import Chance
from pytest_hwperf.gate.channel import Connection, WorkerLostError, sockets
from pytest_hwperf.gate.lockstep import Pairing, PairTrace, Program
from pytest_hwperf.gate.parent import Parent
from pytest_hwperf.gate.serial import Apart
from pytest_hwperf.gate.shared_imports import SharedImports
from pytest_hwperf.host import workdirs
from pytest_hwperf.host.files import new_folder, replace_file
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.launch import Command, launch
from pytest_hwperf.host.opened_files import WATCHES_FILES
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.evidence import Side, Stage
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.affected import Watch
from pytest_hwperf.stats.hypotheses import SIDES

_WATCH = "watch.json"  # file with what a process watches


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Starts pairs, in any thread; every process that it starts is gone when its pair is over."""

    commands: Mapping[Side, Command]
    logs: Path  # the log of a lost pair is kept here
    plant: float  # share of work that is added to the candidate's calls
    watches: Mapping[Side, Watch]  # what rehearsals of both sides watch for changes
    clock: Callable[[], float]
    numbers: Iterator[int]  # of what is started, for its logs

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
    ) -> PairTrace:
        """Start a pair, or one side of it, conduct it through the program, and end it, early once `stop` is set."""
        began, started = self.clock(), next(self.numbers)
        order = sides if chance.toss() else sides[::-1]
        parent = shared.parent(until - self.clock()) if shared else None
        seeds: dict[str, int] = {side: parent.seed if parent else chance.hash_seed() for side in order}
        whole = len(order) == len(SIDES) or program.by_itself is not None
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
                trace = Pairing(connections, program, chance.toss).run()
            except WorkerLostError as error:
                trace = PairTrace()
                trace.lose(error)
            if trace.lost:
                trace.lost = state("lost, logged", log=str(self._kept(folder, sides, started)), **trace.lost.texts)
        trace.first, trace.hash_seeds, trace.is_forked = order[0], seeds, parent is not None
        trace.wall_s = self.clock() - began
        return trace

    def hold_apart(
        self, stage: Stage, program: Program, until: float, chance: Chance, *, stop: Event | None = None
    ) -> PairTrace:
        """Conduct processes of both sides through the program one after the other; see `gate.serial`."""
        order = SIDES if chance.toss() else SIDES[::-1]
        processes = 1 if stage == "rehearsal" else 2
        apart = Apart(program, self.clock, chance.toss, processes, PairTrace(first=order[0]))
        return apart.run(order, lambda one, side: self.hold(stage, one, until, chance, sides=[side], stop=stop))

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
