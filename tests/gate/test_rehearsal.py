"""A rehearsal that is cut off by the time limit, or that cannot come to its tests; played, without any process."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.evidence import Side
from pytest_hwperf.core.hypotheses import MeasuredTest, SideOutcome
from pytest_hwperf.core.statements import state
from pytest_hwperf.gate.tests import GateRequest, _rehearsed
from pytest_hwperf.host.command_line import PytestCommand
from pytest_hwperf.pairs.lockstep import PairTrace

NODES = [f"test_work.py::test_{number}" for number in range(4)]


class PlayedConductor:
    """Rehearses as far as its script says, in the time that it says."""

    def __init__(self, done: int, spent_s: float, start_s: float | None, *, side: Side | None, over: bool) -> None:
        self.seconds = {"checkout": 1.0}
        self.now_s = 1.0
        self.rehearsals = 0
        self._script = done, spent_s, start_s, side, over

    def clock(self) -> float:
        return self.now_s

    def rehearse(self, nodes: Sequence[str], until: float) -> PairTrace:
        done, spent_s, start_s, side, over = self._script
        passed = SideOutcome(outcome="passed")
        self.rehearsals += 1
        self.now_s = min(until, self.now_s + spent_s)
        self.seconds["rehearsal"] = self.seconds.get("rehearsal", 0.0) + spent_s
        trace = PairTrace(selected=list(nodes) if start_s is not None else [], start_s=start_s)
        trace.outcomes = {node: {"baseline": passed, "candidate": passed} for node in nodes[:done]}
        trace.files = {"baseline": (), "candidate": ()} if over else {}
        trace.lost = state("lost, logged", why="was cut off", side=side or "", log="logs/pair-1")
        return trace


def refusal(conductor: PlayedConductor, limit_s: float = 7.0) -> str:
    command = PytestCommand(
        inherited=[], neutral=[], root=Path("/p"), inipath=None, directory=Path("/p"), environment={}
    )
    request = GateRequest(
        tests=[MeasuredTest(node=node, margins=(), named=frozenset(), budgeted=frozenset()) for node in NODES],
        files=[],
        command=command,
        against="HEAD",
        name="HEAD",
        alpha=0.01,
        time_s=limit_s,
        logs=Path("/p/logs"),
    )
    with pytest.raises(UsageProblem) as caught:
        _rehearsed(cast("Any", conductor), request, min(math.inf, limit_s))
    return str(caught.value)


def test_a_limit_below_the_rehearsal_names_the_time_that_is_needed() -> None:
    """As in `test_completeness.py`: 1 s of checkout, 10 s of rehearsal, 13.75 pairs of 20 s."""
    said = refusal(PlayedConductor(1, 6.0, 2.0, side="candidate", over=False))

    begins = f"the time of 7 s was up in the rehearsal of HEAD with the present code, in {NODES[1]}: was cut off (log: "
    assert (
        f"{begins}logs/pair-1); about 290 s are needed. Give --hwperf-gate-time=290, or select fewer tests with -k"
        == said
    )


def test_a_limit_below_the_start_names_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    conductor = PlayedConductor(0, 6.0, None, side="candidate", over=False)

    assert "; at least 180 s are needed. Give --hwperf-gate-time=180, or select" in refusal(conductor)
    monkeypatch.setattr("pytest_hwperf.gate.tests.LONGEST_GATE_S", 100)
    assert refusal(conductor).endswith(" s are needed. Select fewer tests with -k")


def test_sides_that_end_by_themselves_are_not_rehearsed_again() -> None:
    """Each of the tests would be tried twice, and blamed."""
    conductor = PlayedConductor(0, 6.0, 2.0, side=None, over=True)

    said = refusal(conductor, math.inf)
    assert "the rehearsal of HEAD with the present code failed: was cut off (log: logs/pair-1)" == said
    assert 1 == conductor.rehearsals
