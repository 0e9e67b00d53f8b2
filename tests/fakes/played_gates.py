"""Gates without a process: both sides go through every test, and pairs find what a test says of them."""

from collections.abc import Sequence
from typing import Any

import pytest
from fakes.instant_pairs import played_pair

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.pair.shared_imports import SharedImports
from pytest_hwperf.records.evidence import Evidence, Measurement, Side
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Facts, SideOutcome
from pytest_hwperf.stats.pairs.sequence import next_step


def play(monkeypatch: pytest.MonkeyPatch, *, slower: str = "no such test", is_late: bool = False, **shown: Any) -> None:
    """Let gates of this process be played.

    Args:
        monkeypatch: of the test.
        slower: end of the id of a test whose candidate takes half as long again.
        is_late: whether the time is up before anything is confirmed.
        shown: of `PairTrace`, where the rehearsal is to show something else; of outcomes, those of some tests.
    """

    def rehearse(self: Conductor, nodes: Sequence[str], *limits: float, **named: Any) -> PairTrace:
        del limits, named
        self.seconds["rehearsal"] = 1.0
        trace: dict[str, Any] = {
            "collected": dict.fromkeys(SIDES, nodes),
            "errors": {side: {} for side in SIDES},
            "selected": [*nodes],
            "facts": {Measurement(test=node, label=""): dict.fromkeys(SIDES, Facts()) for node in nodes},
            "files": {side: [] for side in SIDES},
            "wall_s": 1.0,
            "reached_s": dict.fromkeys(nodes, 0.5),
            **shown,
        }
        passed = dict.fromkeys(SIDES, SideOutcome(outcome="passed"))
        trace["outcomes"] = {node: dict(passed) for node in nodes} | shown.get("outcomes", {})
        return PairTrace(**trace)

    def alone(self: Conductor, side: Side, nodes: Sequence[str], *limits: float) -> PairTrace:
        trace = rehearse(self, nodes, *limits)
        trace.outcomes = {node: {side: sides[side]} for node, sides in trace.outcomes.items()}
        return trace

    def conduct(self: Conductor, evidence: Evidence, until: float, why_late: Statement | None) -> Evidence:
        del until
        self.seconds["screen"] = 0.0
        while (step := next_step(evidence)).stage is not None:
            if is_late and step.stage == "confirm":
                return replace(evidence, stopped=why_late)
            evidence = replace(evidence, pairs=(*evidence.pairs, played_pair(evidence, step, slower)))
        return evidence

    monkeypatch.setattr(Conductor, "rehearse", rehearse)
    monkeypatch.setattr(Conductor, "alone", alone)
    monkeypatch.setattr(Conductor, "conduct", conduct)
    monkeypatch.setattr(SharedImports, "try_out", lambda *_: None)
