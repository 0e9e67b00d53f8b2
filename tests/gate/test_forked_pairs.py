"""Pairs whose sides share imports, as the conductor asks for them: which count, and when nothing is shared any more."""

import os
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.holding import Holder
from pytest_hwperf.gate.interleaving import Interleaving
from pytest_hwperf.gate.lockstep import PairTrace, Program
from pytest_hwperf.gate.parent import ParentLostError
from pytest_hwperf.host.launch import Command
from pytest_hwperf.records.evidence import Assignment, Evidence, Hypothesis, Measurement, Observation, Side
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.verdict import Margin
from pytest_hwperf.stats.hypotheses import SIDES

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing is shared on this system")

NODE = "t.py::test"
HERE = Measurement(test=NODE, label="")
TRIAL = Hypothesis(measurement=HERE, margin=Margin(metric="latency", statistic="p50", size=0.02), better="lower")
PAIRS = 3 + 8  # a screen that shows enough, and a first look

Hold = Callable[[int], PairTrace]  # of the number of the forked pair, from 1


def trace(*, forked: bool, pools: frozenset[Side] = frozenset(), lost: str = "") -> PairTrace:
    """Return a pair whose candidate is three times as slow."""
    seen = Observation(
        measurement=HERE, metric="latency", statistic="p50", baseline=array("d", [1.0]), candidate=array("d", [3.0])
    )
    taken = Interleaving(assignment=Assignment(measurement=HERE, turns=""), observations=[seen], pools=pools)
    return PairTrace(
        interleavings={HERE: taken},
        is_forked=forked,
        modules=cast("Any", {side: {"numpy": "/site/numpy.py"} for side in SIDES}),
        lost=said(lost) if lost else None,
    )


def conducted(monkeypatch: pytest.MonkeyPatch, forked: Hold) -> tuple[Conductor, Evidence, list[bool], list[bool]]:
    """Conduct a build; return which of its pairs were to be forked, and which of these gave what needs no clock."""
    asked, exact = list[bool](), list[bool]()

    def hold(_: Holder, program: Program, shared: Any = None) -> PairTrace:
        asked.append(shared is not None)
        if shared is None:
            return trace(forked=False)
        exact.append(program.exact)
        return forked(sum(asked))

    monkeypatch.setattr(Holder, "hold", hold)
    command = Command(arguments=[], directory=Path(), environment={})
    conductor = Conductor(commands={side: command for side in SIDES}, logs=Path("logs"), seed=7)  # noqa: C420 - typed
    conductor.share_imports(trace(forked=False))
    evidence = Evidence(alpha=0.01, hypotheses=(TRIAL,), pairs=())
    return conductor, conductor.conduct(evidence, conductor.clock() + 600, None), asked, exact


def test_all_pairs_are_forked_and_the_first_one_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    conductor, evidence, asked, exact = conducted(monkeypatch, lambda _: trace(forked=True))
    assert [True] * PAIRS == asked
    assert [True, *[False] * (PAIRS - 1)] == exact
    assert PAIRS == len(evidence.pairs)
    assert "imported once" in conductor.imports


def test_a_pair_that_works_otherwise_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place is taken by one whose sides share nothing; after the second, all are such pairs."""
    conductor, evidence, asked, _ = conducted(monkeypatch, lambda _: trace(forked=True, pools=frozenset(SIDES)))
    assert [True, False, True, False, *[False] * (PAIRS - 2)] == asked
    assert PAIRS == len(evidence.pairs)
    assert f"each side imports everything itself: {NODE} uses other threads in a forked process" == conductor.imports


def test_one_that_does_so_by_chance_is_left_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def forked(number: int) -> PairTrace:
        return trace(forked=True, pools=frozenset(SIDES) if number == 1 else frozenset())

    _, evidence, asked, exact = conducted(monkeypatch, forked)
    assert [True, False, *[True] * (PAIRS - 1)] == asked
    assert [True, True, *[False] * (PAIRS - 2)] == exact
    assert PAIRS == len(evidence.pairs)


def test_a_pair_that_is_lost_counts_as_any_other_and_ends_the_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    conductor, evidence, asked, _ = conducted(
        monkeypatch, lambda _: trace(forked=True, lost="candidate: was silent for 60 s")
    )
    assert [True, *[False] * (PAIRS - 1)] == asked
    assert evidence.pairs[0].lost is not None
    assert "each side imports everything itself: candidate: was silent for 60 s" == conductor.imports


def test_a_parent_that_cannot_fork_costs_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    def forked(_: int) -> PairTrace:
        raise ParentLostError("the parent of a pair has ended")

    conductor, evidence, asked, _ = conducted(monkeypatch, forked)
    assert [True, *[False] * PAIRS] == asked
    assert [None] * PAIRS == [pair.lost for pair in evidence.pairs]
    assert "each side imports everything itself: the parent of a pair has ended" == conductor.imports
