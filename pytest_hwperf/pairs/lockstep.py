"""One pair of processes in lock-step through the same tests: what each has reached, and who has to wait for whom."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.core.evidence import Measurement, Side
from pytest_hwperf.core.hypotheses import SIDES, Facts, Recorded, Rehearsal, TestOutcome
from pytest_hwperf.pairs.channel import Endpoint, WorkerLostError
from pytest_hwperf.pairs.frames import Frame
from pytest_hwperf.pairs.interleaving import BlockPlan, Interleaver, Interleaving
from pytest_hwperf.pairs.validation import mapping, number, texts

if TYPE_CHECKING:
    from pytest_hwperf.core.metrics import Better

_LONGEST_REASON = 500  # characters that are kept of what a process says

Wanted = Callable[[Measurement], Sequence[tuple[str, str]]]  # statistics to take of it; none: it is passed by


@dataclass(slots=True, kw_only=True)
class PairTrace(Rehearsal):
    """What a pair went through."""

    selected: list[str] = field(default_factory=list)  # node ids that both sides were told to run
    interleavings: dict[Measurement, Interleaving] = field(default_factory=dict)
    files: dict[Side, Sequence[str]] = field(default_factory=dict)  # of loaded modules
    lost: str = ""  # why it ended early

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
            self._trace.lost = str(error)
        return self._trace

    def _select(self) -> None:
        for side in SIDES:
            frame = self._heard(side, "collected")
            self._trace.collected[side] = texts(side, frame, "nodes")
            errors = mapping(side, frame, "errors")
            self._trace.errors[side] = {file: str(why)[:_LONGEST_REASON] for file, why in errors.items()}
        there = set(self._trace.collected["baseline"]) & set(self._trace.collected["candidate"])
        self._trace.selected = [node for node in self._program.nodes if node in there]
        for side in self._drawn():
            self._lines[side].send("select", nodes=self._trace.selected)

    def _follow(self) -> None:
        """Bring both sides to the same place again and again; whoever is ahead waits on its line."""
        at = {side: self._heard(side) for side in SIDES}
        while any(frame.kind != "bye" for frame in at.values()):
            ready = [side for side in SIDES if at[side].kind == "ready"]
            if len(ready) == len(SIDES) and _place(at["baseline"]) == _place(at["candidate"]):
                self._meet(at)
                moved: Sequence[Side] = SIDES
            elif ready:
                moved = ready
                self._trace.uneven |= {_measurement(at[side]): side for side in ready}
            elif all(frame.kind == "tested" for frame in at.values()) and len({_node(f) for f in at.values()}) == 1:
                self._trace.outcomes[_node(at["baseline"])] = {side: _outcome(side, at[side]) for side in SIDES}
                moved = SIDES
            else:
                kinds = " and ".join(f"{side}: {at[side].kind} {at[side].fields.get('node', '')}" for side in SIDES)
                raise WorkerLostError(f"both sides went different ways ({kinds.strip()})")
            order = [side for side in self._drawn() if side in moved]
            for side in order:  # both go on before either is waited for, and a coin decides who goes on first
                if side in ready:
                    self._lines[side].send("finish")
            for side in order:
                at[side] = self._heard(side)
        self._trace.files = {side: texts(side, at[side], "files") for side in SIDES}

    def _drawn(self) -> Sequence[Side]:
        return SIDES if self._toss() else SIDES[::-1]

    def _meet(self, at: Mapping[Side, Frame]) -> None:
        measurement, program = _measurement(at["baseline"]), self._program
        self._trace.facts[measurement] = {side: _facts(side, at[side]) for side in SIDES}
        statistics = program.wanted(measurement)
        if not statistics:
            return
        program.watch(measurement)
        interleaver = Interleaver(self._lines, program.plan, self._toss, statistics, program.draw())
        if program.exact:
            self._trace.exact[measurement] = interleaver.exact()
        self._trace.interleavings[measurement] = interleaver.measure(measurement)

    def _heard(self, side: Side, kind: str = "") -> Frame:
        try:
            frame = self._lines[side].receive(self._program.silence_s)
        except WorkerError as error:
            raise WorkerLostError(f"{side}: {error}") from error
        if frame.kind not in ({kind} if kind else {"ready", "tested", "bye"}):
            raise WorkerLostError(f"{side}: said {frame.kind!r} where {kind or 'the next test'!r} was due")
        return frame


def _outcome(side: Side, frame: Frame) -> TestOutcome:
    """Return how a test ended, checked like everything that a process says."""
    recorded = mapping(side, frame, "recorded")
    return TestOutcome(
        outcome=str(frame.fields.get("outcome")),
        reason=str(frame.fields.get("reason", ""))[:_LONGEST_REASON],
        recorded={name: one for name, plain in recorded.items() if (one := _recorded(plain)) is not None},
    )


def _recorded(plain: object) -> Recorded | None:
    """Return a recorded metric; None where its value is no number, which is the same as none."""
    facts = plain if isinstance(plain, dict) else {}
    value, margin = number(facts.get("value")), number(facts.get("margin"))
    if value is None or margin is None:
        return None
    better: Better = "higher" if facts.get("better") == "higher" else "lower"
    return Recorded(value=value, better=better, margin=margin, label=str(facts.get("label")))


def _facts(side: Side, frame: Frame) -> Facts:
    """Return what the measurement of a side is, so that another quantity is recognised."""
    given = mapping(side, frame, "facts")
    conditions = given.get("conditions")
    return Facts(
        conditions={str(name): str(value) for name, value in conditions.items()}
        if isinstance(conditions, dict)
        else {},
        scenario=str(given.get("scenario", "")),
    )


def _place(frame: Frame) -> tuple[object, ...]:
    return tuple(frame.fields.get(name) for name in ("node", "index", "label"))


def _node(frame: Frame) -> str:
    return str(frame.fields.get("node"))


def _measurement(frame: Frame) -> Measurement:
    return Measurement(test=_node(frame), label=str(frame.fields.get("label")))
