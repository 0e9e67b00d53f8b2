"""Comparisons of two models without processes: what their rehearsals show, and how their pairs end."""

from collections.abc import Callable, Sequence

import pytest

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.records.evidence import Evidence, Measurement, Side
from pytest_hwperf.records.messages import Statement
from pytest_hwperf.records.run import Sample, Values, replace
from pytest_hwperf.stats.pairs.hypotheses import SIDES, Facts, SideOutcome

Ending = Callable[[Conductor, Evidence, Statement | None], Evidence]  # what becomes of the evidence that is asked for
Right = Callable[[Side], Values]  # which examples one process of a side gets right


def out_of_time(_: Conductor, evidence: Evidence, why_late: Statement | None) -> Evidence:
    """Let the time be up in the first pair."""
    return replace(evidence, stopped=why_late)


def play(monkeypatch: pytest.MonkeyPatch, ending: Ending, right: Right | None = None, label: str = "") -> list[str]:
    """Let every comparison of models be played.

    Args:
        monkeypatch: of the test.
        ending: of its pairs.
        right: of each process of a rehearsal; None where there are no labels.
        label: of the measurement.

    Returns:
        The test of each rehearsal, as they follow.
    """
    rehearsed: list[str] = []

    def rehearse(self: Conductor, nodes: Sequence[str], until: float = 0.0) -> PairTrace:
        del self, until
        (node,) = nodes
        rehearsed.append(node)
        here = Measurement(test=node, label=label)
        samples: dict[Side, Sequence[Sample]] = {
            side: [Sample(metric="accuracy", values=right(side), per="example", source="")] if right else []
            for side in SIDES
        }
        return PairTrace(
            collected=dict.fromkeys(SIDES, nodes),
            facts={here: dict.fromkeys(SIDES, Facts())},
            outcomes={node: dict.fromkeys(SIDES, SideOutcome(outcome="passed"))},
            exact={here: samples},
        )

    def conduct(self: Conductor, evidence: Evidence, until: float, why_late: Statement | None) -> Evidence:
        del until
        return ending(self, evidence, why_late)

    monkeypatch.setattr(Conductor, "rehearse", rehearse)
    monkeypatch.setattr(Conductor, "conduct", conduct)
    return rehearsed
