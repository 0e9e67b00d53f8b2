"""Both sides of a test asked at once: by fresh processes, forked from one parent where they may share imports."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from pytest_hwperf.core.errors import HwperfError
from pytest_hwperf.core.evidence import Measurement, Side
from pytest_hwperf.core.hypotheses import SIDES
from pytest_hwperf.host.command_line import Command
from pytest_hwperf.host.launch import Launched
from pytest_hwperf.host.one_shot import Given, ask
from pytest_hwperf.host.worker_protocol import Role, WorkerResult, WorkerTask
from pytest_hwperf.pairs.conductor import Conductor
from pytest_hwperf.pairs.lockstep import PairTrace
from pytest_hwperf.pairs.parent import Parent
from pytest_hwperf.pairs.shared_imports import SharedImports

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
