"""The far end of a line: a process of a pair that plays a script, and dies where the script says so."""

from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pytest_hwperf.gate.pair.channel import (
    AskEnergy,
    AskExact,
    BlockTimes,
    Bye,
    Collected,
    Connection,
    Ended,
    EnergyResult,
    ExactSamples,
    Finish,
    Frame,
    FromWorker,
    Pinned,
    PinTo,
    Ready,
    Select,
    TimeBlock,
    ToWorker,
    WorkerLostError,
)
from pytest_hwperf.records.evidence import EnergyWindow
from pytest_hwperf.records.run import Sample
from pytest_hwperf.stats.pairs.hypotheses import Facts, Recorded, SideOutcome

Taken = Callable[[int], int]  # number of a call, from 0 → its nanoseconds


@dataclass(kw_only=True)
class FakeMeasurement:
    """One `hwperf(...)` of a test."""

    label: str = ""
    taken: Taken = lambda _: 1_000_000
    facts: Facts = field(default_factory=Facts)
    exact: Sequence[Sample] = ()
    joules: float | None = None
    energy_source: str = "rapl:package-0"
    energy_window_s: float = 0.0  # asked for where the offered one is shorter
    cold: tuple[int, int] = (0, 0)  # first calls of a block, and how many nanoseconds more they take
    threads: int = 1
    spinning_blocks: int = 0  # first blocks in which one more thread computes
    switches: int = 0  # involuntary, in every block
    parts: Sequence[Mapping[str, float]] = ({},)  # medians of what calls consist of, in each block; then the last
    sits: Callable[..., str] = lambda *_: ""  # why it cannot stay on a processor, or on several with its pool
    dies_at_block: int | None = None  # the process ends in that turn, from 0
    fails_at_block: int | None = None  # the call raises in that turn


@dataclass(kw_only=True)
class FakeTest:
    """One test of the process."""

    measurements: Sequence[FakeMeasurement] = (FakeMeasurement(),)
    outcome: Literal["passed", "failed", "skipped", "lost"] = "passed"
    reason: str = ""
    recorded: Mapping[str, Recorded] = field(default_factory=dict)
    dies: bool = False  # before it measures anything


class FakeLine(Connection):
    """Answers what a worker would, at once."""

    def __init__(
        self, tests: Mapping[str, FakeTest], errors: Mapping[str, str] | None = None, files: Sequence[str] = ()
    ) -> None:
        self._said = self._session(tests, errors or {}, files)
        self._heard: ToWorker | None = None
        self.sent: list[ToWorker] = []  # all that was sent to it

    def send(self, message: ToWorker) -> None:
        self._heard = message
        self.sent.append(message)

    def receive(self, deadline_s: float) -> Frame:
        assert deadline_s > 0
        try:
            return next(self._said)
        except StopIteration:
            raise WorkerLostError("ended with code -9 in the middle of the pair") from None

    def _session(
        self, tests: Mapping[str, FakeTest], errors: Mapping[str, str], files: Sequence[str]
    ) -> Iterator[Frame]:
        yield _said(Collected(nodes=tuple(tests), errors=errors))
        assert isinstance(self._heard, Select)
        for node in self._heard.nodes:
            test = tests[node]
            if test.dies:
                return
            for index, measurement in enumerate(test.measurements):
                ended = yield from self._measured(node, index, measurement)
                if ended == "dead":
                    return
                if ended == "failed":
                    break
            ended_so = SideOutcome(outcome=test.outcome, reason=test.reason, recorded=test.recorded)
            yield _said(Ended(node=node, ended=ended_so))
        yield _said(Bye(files=tuple(files)))

    def _measured(self, node: str, index: int, measurement: FakeMeasurement) -> Generator[Frame, None, str]:
        yield _said(Ready(node=node, index=index, label=measurement.label, facts=measurement.facts))
        calls, blocks = 0, 0
        while True:
            match self._heard:
                case Finish():
                    return "on"
                case AskExact():
                    yield _said(ExactSamples(samples=tuple(measurement.exact)))
                case PinTo(processors=numbers):
                    why = "it has no pool of threads that last" if len(numbers) > measurement.threads else ""
                    yield _said(Pinned(reason=why or (measurement.sits(*numbers) if numbers else "")))
                case AskEnergy(seconds=seconds):
                    yield _said(EnergyResult(window=_energy(measurement, seconds)))
                case TimeBlock() as asked:
                    if blocks == measurement.dies_at_block:
                        return "dead"
                    if blocks == measurement.fails_at_block:
                        return "failed"
                    yield _block(measurement, asked, calls, blocks)
                    calls, blocks = calls + asked.calls, blocks + 1


def _said(message: FromWorker) -> Frame:
    return Frame(message=message)


def _block(measurement: FakeMeasurement, asked: TimeBlock, calls: int, blocks: int) -> Frame:
    cold_calls, cold_ns = measurement.cold
    taken = array(
        "q", (asked.batch * measurement.taken(calls + n) + cold_ns * (n < cold_calls) for n in range(asked.calls))
    )
    wall = sum(taken)
    parts = measurement.parts[min(blocks, len(measurement.parts) - 1)]
    threads = measurement.threads + (blocks < measurement.spinning_blocks)
    times = BlockTimes(cpu_ns=wall * threads, thread_ns=wall, switches=measurement.switches, parts=parts)
    return Frame(message=times, numbers=taken)


def _energy(measurement: FakeMeasurement, seconds: float) -> EnergyWindow:
    if seconds < measurement.energy_window_s:
        needed_s = measurement.energy_window_s
        return EnergyWindow(needed_s=needed_s, reason=f"windows of {needed_s:g} s are needed")
    return EnergyWindow(joules=measurement.joules, reason="no meter", source=measurement.energy_source)
