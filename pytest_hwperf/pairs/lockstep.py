"""One pair of processes in lock-step through the same tests: what each has reached, and who has to wait for whom."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.core.evidence import Measurement, Side
from pytest_hwperf.core.hypotheses import SIDES, Rehearsal, SideOutcome
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.statements import Statement
from pytest_hwperf.pairs.channel import Endpoint, WorkerLostError, loss
from pytest_hwperf.pairs.interleaving import BlockPlan, Interleaver, Interleaving
from pytest_hwperf.pairs.messages import Bye, Collected, Ended, Finish, Message, Ready, Select

_LONGEST_REASON = 500  # characters that are kept of what a process says

_Place = Ready | Ended | Bye
Wanted = Callable[[Measurement], Sequence[tuple[str, str]]]  # statistics to take of it; none: it is passed by


@dataclass(slots=True, kw_only=True)
class PairTrace(Rehearsal):
    """What a pair went through."""

    selected: list[str] = field(default_factory=list)  # node ids that both sides were told to run
    interleavings: dict[Measurement, Interleaving] = field(default_factory=dict)
    files: dict[Side, Sequence[str]] = field(default_factory=dict)  # of loaded modules
    lost: Statement | None = None  # why it ended early

    @property
    def unfinished(self) -> str:
        """The test in which a pair was lost, "" where it was between tests."""
        return next((node for node in self.selected if node not in self.outcomes), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a pair is to do."""

    nodes: Sequence[str]  # tests to run, in this order
    wanted: Wanted
    exact: bool = False  # ask for what needs no clock too
    plan: BlockPlan = field(default_factory=BlockPlan)
    silence_s: float = 300.0  # a process that trains a model in a fixture says nothing for long
    watch: Callable[[Measurement], None] = lambda _: None  # told which measurement begins
    draw: Callable[[], int | None] = lambda: None  # a processor for each measurement; None: the scheduler chooses


class Pairing:
    """Leads both processes through a program; a state machine over two lines that knows no clock of its own."""

    def __init__(self, lines: Mapping[Side, Endpoint], program: Program, toss: Callable[[], bool]) -> None:
        """Lead over `lines`, both of which have just been greeted."""
        self._lines = lines
        self._program = program
        self._toss = toss
        self._trace = PairTrace()

    def run(self) -> PairTrace:
        """Go through the whole program; a process that is lost ends it, and what was recorded until then is kept."""
        try:
            self._select()
            self._follow()
        except WorkerLostError as error:
            self._trace.lost = loss(error)
        return self._trace

    def _select(self) -> None:
        for side in SIDES:
            collected = self._receive(side)
            if not isinstance(collected, Collected):
                raise _out_of_turn(side, collected, Collected.__name__)
            self._trace.collected[side] = collected.nodes
            self._trace.errors[side] = {file: why[:_LONGEST_REASON] for file, why in collected.errors.items()}
        there = set(self._trace.collected["baseline"]) & set(self._trace.collected["candidate"])
        self._trace.selected = [node for node in self._program.nodes if node in there]
        for side in self._drawn():
            self._lines[side].send(Select(nodes=tuple(self._trace.selected)))

    def _follow(self) -> None:
        """Bring both sides to the same place again and again; whoever is ahead waits on its line."""
        at: dict[Side, _Place] = {side: self._place(side) for side in SIDES}
        while not all(isinstance(message, Bye) for message in at.values()):
            moved = self._moved(at)
            order = [side for side in self._drawn() if side in moved]
            for side in order:  # both go on before either is waited for, and a coin decides who goes on first
                if isinstance(at[side], Ready):
                    self._lines[side].send(Finish())
            for side in order:
                at[side] = self._place(side)
        self._trace.files = {side: message.files for side, message in at.items() if isinstance(message, Bye)}

    def _place(self, side: Side) -> _Place:
        """Return what a side has reached."""
        message = self._receive(side)
        if isinstance(message, Ready | Ended | Bye):
            return message
        raise _out_of_turn(side, message, "the next test")

    def _moved(self, at: Mapping[Side, _Place]) -> Sequence[Side]:
        """Do what both sides have reached; return those that go on.

        Raises:
            WorkerLostError: they went different ways.
        """
        match at["baseline"], at["candidate"]:
            case Ready() as one, Ready() as other if (one.node, one.index, one.label) == (
                other.node,
                other.index,
                other.label,
            ):
                self._meet({"baseline": one, "candidate": other})
                return SIDES
            case Ended() as one, Ended() as other if one.node == other.node:
                self._trace.outcomes[one.node] = {"baseline": _cut(one.ended), "candidate": _cut(other.ended)}
                return SIDES
        ahead = {side: message for side, message in at.items() if isinstance(message, Ready)}
        if not ahead:
            places = (f"{side}: {type(at[side]).__name__} {getattr(at[side], 'node', '')}" for side in SIDES)
            raise WorkerLostError(f"both sides went different ways ({' and '.join(places).strip()})")
        self._trace.uneven |= {_measurement(message): side for side, message in ahead.items()}
        return list(ahead)

    def _drawn(self) -> Sequence[Side]:
        return SIDES if self._toss() else SIDES[::-1]

    def _meet(self, at: Mapping[Side, Ready]) -> None:
        measurement, program = _measurement(at["baseline"]), self._program
        self._trace.facts[measurement] = {side: at[side].facts for side in SIDES}
        statistics = program.wanted(measurement)
        if not statistics:
            return
        program.watch(measurement)
        interleaver = Interleaver(self._lines, program.plan, self._toss, statistics, program.draw())
        if program.exact:
            self._trace.exact[measurement] = interleaver.exact()
        self._trace.interleavings[measurement] = interleaver.measure(measurement)

    def _receive(self, side: Side) -> Message:
        try:
            return self._lines[side].receive(self._program.silence_s).message
        except WorkerError as error:
            raise WorkerLostError(str(error), side=side) from error


def _out_of_turn(side: Side, message: Message, due: str) -> WorkerLostError:
    return WorkerLostError(f"sent {type(message).__name__!r} where {due} was due", side=side)


def _cut(ended: SideOutcome) -> SideOutcome:
    """Keep no more of a reason than is shown."""
    return replace(ended, reason=ended.reason[:_LONGEST_REASON])


def _measurement(ready: Ready) -> Measurement:
    return Measurement(test=ready.node, label=ready.label)
