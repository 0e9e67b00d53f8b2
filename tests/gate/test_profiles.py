"""Which measurements both sides are asked about, and what becomes of a side that does not answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from fakes import gates
from fakes.clocks import HandClock

from pytest_hwperf.gate.conductor import Progress
from pytest_hwperf.gate.explaining import Explainer
from pytest_hwperf.gate.processes import BothSides
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Evidence, Measurement, Side
from pytest_hwperf.records.profiles import ProfiledCalls
from pytest_hwperf.stats.hypotheses import SIDES, Facts

FOUND = ProfiledCalls(source="fake", operators=(), call_s=1e-3, calls=20, rows=256)


class Processes:
    """Answer for every side but one, and take three seconds each."""

    def __init__(self, clock: HandClock, broken: str) -> None:
        self._clock = clock
        self._broken = broken
        self.asked = list[tuple[str, str]]()
        self.lost = list[str]()  # what the profiler says of those that gave nothing

    def ask(self, task: WorkerTask, commands: Sequence[Command], *, until: float, **_: object) -> list[WorkerResult]:
        (command,) = commands
        self._clock.pass_time(3.0)
        self.asked.append((command.arguments[0], task.node))
        if self._broken == f"{command.arguments[0]} crashes" or self._clock() > until:
            raise WorkerError("a fresh process ended with code 1")
        found = None if self._broken == f"{command.arguments[0]} has none" else FOUND
        reasons = {} if found else {"operators": "it shows none"}
        return [WorkerResult(values={}, reasons=reasons, notes=[], runs=[], operators=found)]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Two tests got slower, one did not."""
    return gates.build([0.3, 0.0, 0.3], Random(2))


def commands(node: str) -> Mapping[Side, Command]:
    return {side: Command(arguments=[side, node], directory=Path(), environment={}) for side in SIDES}


def facts_of(evidence: Evidence, known: Sequence[int] = (0, 1, 2)) -> dict[Measurement, dict[Side, Facts]]:
    return {
        one.measurement: dict.fromkeys(SIDES, Facts(scenario="onnx_fp32", has_operators=number in known))
        for number, one in enumerate(evidence.hypotheses)
    }


def profiled(
    monkeypatch: pytest.MonkeyPatch,
    evidence: Evidence,
    facts: Mapping[Measurement, Mapping[Side, Facts]],
    *,
    asked: bool = False,
    broken: str = "",
    time_s: float = 600.0,
) -> tuple[list[str], Processes]:
    """Return the last letters of the tests that were profiled, and the processes."""
    clock = HandClock()
    processes = Processes(clock, broken)
    monkeypatch.setattr("pytest_hwperf.gate.explaining.monotonic", clock)
    monkeypatch.setattr("pytest_hwperf.gate.explaining.REPEATS", 1)
    monkeypatch.setattr("pytest_hwperf.gate.processes.ask", processes.ask)
    shown = list[Progress]()
    sides = BothSides(commands=commands, until=clock() + time_s)
    profiler = Explainer(sides=sides, wanted="auto", operators=asked, progress=shown.append)
    found = profiler.profiles(evidence, facts)
    assert profiler.profiling_s == pytest.approx(3.0 * len(processes.asked))
    processes.lost = profiler.lost
    assert all(one.pair <= one.of and (one.pair == 1) == (one.left_s is None) for one in shown)
    return [one.measurement.test[-1] for one in found], processes


@pytest.mark.parametrize(("asked", "tests"), [(False, ["0", "2"]), (True, ["0", "1", "2"])])
def test_what_got_slower_is_profiled_and_on_demand_all(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence, tests: list[str], *, asked: bool
) -> None:
    found, processes = profiled(monkeypatch, evidence, facts_of(evidence), asked=asked)
    assert tests == sorted(found)
    assert [*SIDES] * len(tests) == [side for side, _ in processes.asked]


def test_a_runtime_without_operators_is_not_asked(monkeypatch: pytest.MonkeyPatch, evidence: Evidence) -> None:
    """Nor a measurement that only one side makes."""
    found, _ = profiled(monkeypatch, evidence, facts_of(evidence, known=[2]))
    nothing, processes = profiled(monkeypatch, evidence, {})
    assert ["2"] == found
    assert ([], []) == (nothing, processes.asked)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("baseline crashes", "operators of the baseline are not known: a fresh process ended with code 1"),
        ("candidate crashes", "operators of the candidate are not known: a fresh process ended with code 1"),
        ("candidate has none", "operators of the candidate are not known: it shows none"),
    ],
)
def test_a_side_that_gives_no_profile_leaves_the_verdict_alone_and_says_why(
    monkeypatch: pytest.MonkeyPatch, evidence: Evidence, broken: str, why: str
) -> None:
    found, processes = profiled(monkeypatch, evidence, facts_of(evidence, known=[2]), broken=broken)
    assert [] == found
    assert [why] == [line.partition(": ")[2] for line in processes.lost]


def test_no_process_is_started_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch, evidence: Evidence) -> None:
    found, processes = profiled(monkeypatch, evidence, facts_of(evidence), time_s=6.0)
    assert ["0"] == found
    assert 2 == len(processes.asked)


def test_unasked_at_most_five_are_profiled(monkeypatch: pytest.MonkeyPatch) -> None:
    many = gates.build([0.5] * 6, Random(3))
    facts = facts_of(many, known=range(6))
    assert 5 == len(profiled(monkeypatch, many, facts)[0])
    assert 6 == len(profiled(monkeypatch, many, facts, asked=True)[0])
