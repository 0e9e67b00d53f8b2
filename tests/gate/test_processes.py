"""Fresh processes of both sides, one after the other, that are played: which are asked, and until when."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fakes import gates
from fakes.clocks import HandClock
from fakes.gates import hypothesis

from pytest_hwperf.gate.processes import BothSides, ProcessSampler, answers_of, time_limit
from pytest_hwperf.gate.result import Progress
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Evidence, FixedSample, Hypothesis, Side
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Policy
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Questions
from pytest_hwperf.stats.verdicts import judge_comparison

LATE = state("out of time", limit=20)
PROCESS_S = 3.0


def peak(number: int) -> Hypothesis:
    return gates.asked("memory", 0.01, test=f"t_{number}.py::test", floor=1e6)


def command(side: str, node: str) -> Command:
    return Command(arguments=[side, node.partition("::")[0]], directory=Path(), environment={})


class Processes:
    """Answer what a test says for a side and the number of the process, and take three seconds each."""

    def __init__(self, clock: HandClock, peaks: Callable[[str, int], float]) -> None:
        self._clock = clock
        self._peaks = peaks
        self.asked = list[Sequence[str]]()
        self.at_once = list[int]()

    def ask(self, task: WorkerTask, commands: Sequence[Command], *, at_once: int, until: float) -> list[WorkerResult]:
        assert 2 == len(commands)
        self.at_once.append(at_once)
        self._clock.pass_time(PROCESS_S)
        if self._clock() >= until:
            raise WorkerError(f"{task.node}: a fresh process gave no answer within 2 s")
        self.asked.extend(one.arguments for one in commands)
        values = [self._peaks(one.arguments[0], len(self.asked) // 2) for one in commands]
        notes = [[f"peaks of {66 if one.arguments[0] == 'baseline' else 9} calls", "exact"] for one in commands]
        return [
            WorkerResult(values={"memory": value}, reasons={}, notes=said, runs=[])
            for value, said in zip(values, notes, strict=True)
        ]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    found = HandClock()
    monkeypatch.setattr("pytest_hwperf.gate.processes.monotonic", found)
    return found


def sampled(
    monkeypatch: pytest.MonkeyPatch,
    clock: HandClock,
    peaks: Callable[[str, int], float],
    hypotheses: Sequence[Hypothesis],
    time_s: float = 600.0,
    **more: Any,
) -> tuple[list[FixedSample], Questions, Processes]:
    processes, questions = Processes(clock, peaks), Questions(processes=[*hypotheses])
    monkeypatch.setattr("pytest_hwperf.gate.processes.ask", processes.ask)

    def commands(node: str) -> Mapping[Side, Command]:
        return {side: command(side, node) for side in SIDES}

    sampler = ProcessSampler(commands, Random(1), clock() + time_s, LATE, **more)
    return [*sampler.samples(questions, 0.01)], questions, processes


def test_each_process_runs_the_file_of_its_test_alone(monkeypatch: pytest.MonkeyPatch, clock: HandClock) -> None:
    """Of a test that cannot bear both sides one at a time; peaks of others do not depend on neighbours.

    What processes note is a note of the comparison: a peak of 66 calls says nothing of the hundredth.
    """
    shown = list[Progress]()
    serial = {"t_2.py::test"}
    found, _, processes = sampled(
        monkeypatch, clock, lambda *_: 5e6, [peak(1), peak(2)], serial=serial, progress=shown.append
    )
    assert [[5e6] * 3] * 2 == [list(one.baseline) for one in found]
    assert [["t_1.py"] * 6, ["t_2.py"] * 6] == [[file for _, file in processes.asked[n : n + 6]] for n in (0, 6)]
    assert ("exact", "baseline: peaks of 66 calls", "candidate: peaks of 9 calls") == found[0].warnings
    assert [2, 2, 2, 1, 1, 1] == processes.at_once
    assert [(1, None), (1, 15.0), (1, 12.0), (2, 9.0), (2, 6.0), (2, 3.0)] == [(one.pair, one.left_s) for one in shown]
    assert {("processes", 2)} == {(one.stage, one.of) for one in shown}


def test_what_is_open_is_asked_again(monkeypatch: pytest.MonkeyPatch, clock: HandClock) -> None:
    """Three processes a side raise the question, and seven fresh ones answer it: 2**-7 is less than 1 %."""
    found, _, processes = sampled(monkeypatch, clock, lambda side, _: 9e6 if side == "candidate" else 5e6, [peak(1)])
    assert [[9e6] * 7] == [list(one.candidate) for one in found]
    assert 2 * (3 + 7) == len(processes.asked)


def test_what_the_time_does_not_suffice_for_is_said(monkeypatch: pytest.MonkeyPatch, clock: HandClock) -> None:
    """Twenty seconds are six pairs of processes, of which the second test gets the last three."""
    found, questions, _ = sampled(monkeypatch, clock, lambda *_: 5e6, [peak(1), peak(2), peak(3)], time_s=20)
    assert [peak(1), peak(2)] == [one.hypothesis for one in found]
    assert {peak(3).key: ("inconclusive", LATE)} == questions.parts


def test_a_process_that_fails_before_that_is_named(monkeypatch: pytest.MonkeyPatch, clock: HandClock) -> None:
    def fail(side: str, number: int) -> float:
        raise WorkerError(f"{side} {number}: a fresh process ended with code 3")

    found, questions, _ = sampled(monkeypatch, clock, fail, [peak(1)])
    outcome, why = questions.parts[peak(1).key]
    assert ([], "not comparable") == (found, outcome)
    assert "ended with code 3" in str(why)


def test_pairs_are_left_half_of_the_time(clock: HandClock) -> None:
    clock.pass_time(100)
    alone = time_limit(Questions(processes=[peak(1), peak(2)]), clock() + 60, LATE)
    beside = time_limit(Questions(hypotheses=[gates.asked()], processes=[peak(1)]), clock() + 60, LATE)
    assert alone == (
        clock() + 60, LATE, "memory and cold starts of 2 tests come from fresh processes, in at most 60 s",
    )  # fmt: skip
    assert clock() + 30 == beside[0]
    assert "the part of the time that fresh processes have, 30 s, was up" == str(beside[1])
    assert "memory and cold starts of 1 test come from fresh processes, in at most 30 s" == beside[2]


def test_sides_at_once_that_are_silent_are_asked_one_by_one_for_longer(
    monkeypatch: pytest.MonkeyPatch, clock: HandClock
) -> None:
    limits_s = list[float]()

    def silent(*_: object, until: float, **__: object) -> None:
        limits_s.append(until - clock())
        raise WorkerError("a fresh process gave no answer")

    monkeypatch.setattr("pytest_hwperf.gate.processes.ask", silent)
    both = BothSides(
        commands=lambda node: {side: command(side, node) for side in SIDES},
        until=clock() + 600,
        at_once=2,
        patience_s=60,
    )
    assert ["baseline"] == [*both.ask(WorkerTask(role="functions", node="t.py::test"), SIDES)]
    assert [60, 600] == limits_s


TWO = (hypothesis(0), hypothesis(1))


def answered(evidence: Evidence) -> list[str]:
    """Return what is said of both tests, of which the pairs have observed nothing."""
    answers = answers_of(evidence, Questions(hypotheses=list(TWO)), {}, [one.measurement for one in TWO])
    key = TWO[0].margin.key
    found = [answers.of(one.measurement, [one.margin], [key], [key])[key] for one in TWO]
    assert ["inconclusive"] * 2 == [one.outcome for one in found]
    metric = metric_of(TWO[0].margin.metric)
    assert all(judge_comparison(metric, one, Policy(strict=True)).fails for one in found)
    return [one.reason for one in found]


def test_a_test_that_was_not_reached_says_so_and_fails_where_the_gate_is_strict() -> None:
    """Without a limit of time the reason is that of all."""
    late = Evidence(alpha=0.01, hypotheses=TWO, pairs=(), groups=(1,), stopped=LATE)
    assert ["the time of 20 s was too short", "not compared: the time of 20 s was too short"] == answered(late)
    assert ["three pairs were lost"] * 2 == answered(replace(late, stopped=said("three pairs were lost")))
