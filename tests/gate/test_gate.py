"""The line that sums up a gate, and how it parts its time."""

from pathlib import Path
from random import Random

import pytest
from fakes import gates

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.gate import conducted, own_calls_s
from pytest_hwperf.gate.result import GateResult, summary
from pytest_hwperf.records.evidence import Evidence, Gate
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.run import replace
from pytest_hwperf.stats.pairs.hypotheses import PairedAnswers, Questions
from pytest_hwperf.stats.pairs.timetable import completeness


def test_pairs_are_counted() -> None:
    for pairs, shown in (
        (0, "no pairs of fresh processes"),
        (1, "1 screen pair of fresh"),
        (2, "2 screen pairs of fresh"),
    ):
        evidence = Evidence(alpha=0.01, hypotheses=(), pairs=(gates.pair("screen", ()),) * pairs)
        result = GateResult(
            gate=Gate(against="HEAD", revision="", seed=0, evidence=evidence, shared={}, seconds={}),
            answers=PairedAnswers(comparisons={}, questions=Questions(), met=frozenset()),
            changed=frozenset(),
            completeness=completeness([], evidence, {}),
            gone=frozenset(),
        )
        assert shown in summary(result, 3, "HEAD")


@pytest.mark.parametrize(
    ("change", "stopped", "ends"),
    [
        (0.3, "out of time", [90.0]),  # time is left to explain it
        (0.0, "out of time", [90.0, 100.0]),  # nothing to explain: all the time is for pairs
        (0.0, "pairs lost", [90.0]),
        (0.3, None, [90.0]),
    ],
)
def test_the_end_of_the_time_is_for_an_explanation_where_there_is_one(
    change: float, stopped: str | None, ends: list[float]
) -> None:
    asked, late = gates.build([change], Random(1)), state("out of time", limit=100.0)
    given = list[float]()

    class Played(Conductor):
        def conduct(self, evidence: Evidence, until: float, why_late: Statement | None) -> Evidence:
            given.append(until)
            assert evidence.stopped is None
            why = {"out of time": why_late, "pairs lost": state("pairs lost", lost=3, why="?")}
            return replace(evidence, stopped=why.get(stopped or ""))

    conducted(Played(commands={}, logs=Path()), asked, 100.0, late, kept_s=10.0)
    assert ends == given


def test_time_is_kept_for_the_calls_of_the_session() -> None:
    assert [0.0, 4.0, 50.0, 60.0] == [
        own_calls_s(rehearsed_s, time_s=600.0) for rehearsed_s in (0.0, 8.0, 100.0, 400.0)
    ]
