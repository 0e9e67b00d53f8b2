"""One pair of fresh processes: started, conducted through its program, and ended."""

import dataclasses
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from socket import socket
from time import monotonic

from pytest_hwperf.gate.pair.channel import Connection, WorkerLostError
from pytest_hwperf.gate.pair.lockstep import Pairing, PairTrace, Program
from pytest_hwperf.gate.pair.parent import Parent
from pytest_hwperf.gate.pair.shared_imports import SharedImports
from pytest_hwperf.host import workdirs
from pytest_hwperf.host.files import new_folder, replace_file
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.launch import Command, Launched, launch, sockets
from pytest_hwperf.host.opened_files import WATCHES_FILES
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.causes.changed_code import Watch
from pytest_hwperf.stats.pairs.hypotheses import SIDES

_WATCH = "watch.json"  # file with what a process watches


@dataclass(slots=True, kw_only=True)
class Holder:
    """Starts pairs, in any thread; every process that it starts is gone when its pair is over."""

    commands: Mapping[Side, Command]
    logs: Path  # the log of a lost pair is kept here
    plant: float = 0.0  # share of work that is added to the candidate's calls, to see it found
    watches: Mapping[Side, Watch] = field(default_factory=dict)  # what rehearsals of both sides watch for changes
    since: float = math.inf  # seconds since 1970 from which files count as new that processes of a rehearsal find
    clock: Callable[[], float] = monotonic
    numbers: Iterator[int] = field(default_factory=partial(count, 1))  # of what is started, for its logs

    def hold(
        self,
        program: Program,
        *,
        sides: Sequence[Side] = SIDES,
        shared: SharedImports | None = None,
        trace: PairTrace | None = None,
        hash_seeds: Mapping[str, int] | None = None,
    ) -> PairTrace:
        """Start a pair, or one side of it, conduct it through the program, and end it.

        What it shows is added to a trace, if one is given. Without `hash_seeds` those of the sides are drawn.
        """
        trace, began, started = trace or PairTrace(), self.clock(), next(self.numbers)
        order = sides if program.chance.toss() else sides[::-1]
        parent = shared.parent(program.until - self.clock()) if shared else None
        drawn: Mapping[str, int] = hash_seeds or {
            side: parent.seed if parent else program.chance.hash_seed() for side in order
        }
        seeds: dict[str, int] = {side: drawn[side] for side in order}
        with self._processes(program, seeds, order, parent) as (connections, folder):
            try:
                for side in sides:
                    connections[side].greet(program.silence_s)
                if shared:
                    shared.prepare()
                    program = dataclasses.replace(program, leave=shared.use)
                Pairing(connections, program, trace).run()
            except WorkerLostError as error:
                trace.lose(error)
            if trace.lost:
                trace.lost = self._logged(trace.lost, folder, sides, started)
        trace.first, trace.is_forked = order[0], parent is not None
        trace.hash_seeds |= {f"{side} 2" if side in trace.hash_seeds else side: seed for side, seed in seeds.items()}
        trace.wall_s += self.clock() - began
        return trace

    def hold_apart(self, program: Program, trace: PairTrace | None = None) -> PairTrace:
        """Conduct processes of both sides through the program in the order ABBA, of which one is alive at a time.

        Each goes through all tests by itself. One that is lost ends it.
        """
        trace, order = trace or PairTrace(), SIDES if program.chance.toss() else SIDES[::-1]
        processes = 1 if program.stage == "rehearsal" else 2
        program = dataclasses.replace(program, processes=processes)
        trace.begin_apart(program.nodes)
        starts_s, began_s = 0.0, trace.wall_s
        for side in (*order, *order[::-1])[: len(SIDES) * processes]:
            began = self.clock()
            trace.reached.clear()
            self.hold(program, sides=[side], trace=trace)
            ends = [*trace.reached.values(), self.clock()]
            starts_s += ends[0] - began if trace.reached else 0.0
            for (test, when), end in zip(trace.reached.items(), ends[1:], strict=True):
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
        self, program: Program, seeds: Mapping[str, int], order: Sequence[Side], parent: Parent | None
    ) -> Iterator[tuple[dict[Side, Connection], Path]]:
        """Start the sides, each with an end of a socket that has no address: nobody else can connect to it.

        Both are forked from their parent, where there is one.
        """
        with ExitStack() as stack:
            folder = stack.enter_context(parent).folder if parent else stack.enter_context(workdirs.workdir())
            ends = parent.connections if parent else {side: sockets() for side in order}
            for one in (one for both in ends.values() for one in both):
                stack.callback(one.close)
            tasks = [(side, self.commands[side], self._task(program, side, ends[side][1], folder)) for side in order]
            found = parent.fork(tasks) if parent else dict[Side, Launched]()
            for process in found.values():
                stack.callback(process.end)
            for side, command, task in [] if parent else tasks:
                with ends[side][1] as theirs, uninterrupted():
                    own = {"PYTHONHASHSEED": str(seeds[side])}
                    own |= {WATCHES_FILES: repr(self.since)} if program.stage == "rehearsal" else {}
                    now = replace(task, began_s=monotonic())
                    found[side] = launch(command, now, folder / side, own, [theirs.fileno()])
                    stack.callback(found[side].end)
            limits = program.until, self.clock, program.stop
            yield {side: Connection(ends[side][0], found[side], side, *limits) for side in order}, folder

    def _task(self, program: Program, side: Side, theirs: socket, folder: Path) -> WorkerTask:
        """Return what a side is to do; where its changes are to be watched, a file says which."""
        (folder / side).mkdir()
        plant, watch = self.plant if side == "candidate" else 0.0, ""
        if side in self.watches and program.stage == "rehearsal" and program.exact:
            watch = str(folder / side / _WATCH)
            replace_file(Path(watch), to_json(self.watches[side]))
        reply_to = str(theirs.fileno())
        return WorkerTask(
            role="pair",
            side=side,
            reply_to=reply_to,
            plant=plant,
            watch=watch,
            tells_states=program.exact,
            began_s=monotonic(),
        )

    def _logged(self, lost: Statement, workdir: Path, sides: Sequence[Side], started: int) -> Statement:
        """Copy the logs of a lost pair to where the user finds them; return why it was lost, and where they are."""
        texts = dict(lost.texts)
        try:
            folder = new_folder(self.logs, f"pair-{started}")
            for side in sides:
                shutil.copyfile(workdir / side / "log", folder / f"{side}.log")
        except OSError as error:  # as of a full disk, for which the pair may have been lost too
            texts["why"] = f"{texts['why'].removesuffix('.')} (no log in {self.logs}: {error.strerror})"
            return state("lost", **texts, **lost.numbers)
        return state("lost, logged", log=str(folder), **texts, **lost.numbers)
