"""The line that sums up a gate."""

import pytest

from pytest_hwperf.core.completeness import completeness
from pytest_hwperf.core.evidence import Evidence, Gate, Pair
from pytest_hwperf.core.hypotheses import PairedAnswers, Questions
from pytest_hwperf.gate.tests import GateResult, summary


@pytest.mark.parametrize(
    ("pairs", "shown"),
    [(0, "no pairs of fresh processes"), (1, "1 screen pair of fresh"), (2, "2 screen pairs of fresh")],
)
def test_pairs_are_counted(pairs: int, shown: str) -> None:
    lost = Pair(number=1, stage="screen", first="baseline", hash_seeds={}, assignments=(), observations=())
    evidence = Evidence(alpha=0.01, hypotheses=(), pairs=(lost,) * pairs, fixed_samples=())
    result = GateResult(
        gate=Gate(against="HEAD", revision="", seed=0, evidence=evidence, shared={}, seconds={}),
        answers=PairedAnswers(comparisons={}, questions=Questions(), met=frozenset()),
        changed=frozenset(),
        completeness=completeness([], evidence, {}),
        gone=frozenset(),
    )

    assert shown in summary(result, 3)
