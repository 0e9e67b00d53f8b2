"""What the sides of a build share, by their rehearsal; and what a forked pair is dropped for."""

import os
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from pytest_hwperf.core.evidence import Assignment, Measurement, Side
from pytest_hwperf.core.hypotheses import SIDES, SideOutcome
from pytest_hwperf.core.records import Sample
from pytest_hwperf.core.statements import said
from pytest_hwperf.host.command_line import Command
from pytest_hwperf.pairs import shared_imports
from pytest_hwperf.pairs.interleaving import Interleaving
from pytest_hwperf.pairs.lockstep import PairTrace
from pytest_hwperf.pairs.parent import Parent, ParentLostError
from pytest_hwperf.pairs.shared_imports import SharedImports

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing is shared on this system")

NODE = "t.py::test"
HERE = Measurement(test=NODE, label="")
SAME = {"numpy": "/site/numpy.py", "numpy.linalg": "/site/linalg.py"}


def commands(**variables: tuple[str, str]) -> dict[Side, Command]:
    """Return both commands; a variable of the environment has a value on each side."""
    return {
        side: Command(
            arguments=[], directory=Path(side), environment={"HOME": "/home"} | {n: v[at] for n, v in variables.items()}
        )
        for at, side in enumerate(SIDES)
    }


def rehearsed(**modules: Mapping[str, str]) -> PairTrace:
    return PairTrace(modules=cast("Any", {side: modules.get(side, SAME) for side in SIDES}))


def sharing(found: Sequence[PairTrace], both: Mapping[Side, Command] | None = None) -> SharedImports:
    return SharedImports(both or commands(), found, Random(7), (0, 1))


def test_what_both_sides_load_from_one_file_is_shared_in_its_order() -> None:
    baseline = {"only": "/site/only.py", **SAME, "code": "/old/code.py", "pluggy_like": "/site/p.py"}
    candidate = {"pluggy_like": "/site/p.py", **SAME, "code": "/new/code.py"}
    found = sharing([rehearsed(baseline=baseline, candidate=candidate)], commands(TMPDIR=("/a", "/b")))

    assert ["pluggy_like", "numpy", "numpy.linalg"] == list(found.imports.modules)
    assert {"HOME": "/home"} == found.imports.environment
    assert {"TMPDIR"} == found.imports.differing
    assert "2 packages imported once for both sides of a pair" == found.said


def test_plugins_of_pytest_are_imported_by_each_side_but_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their assertions are rewritten when pytest imports them; it warns where that is too late."""

    class Dist:
        def __init__(self, name: str, *files: str) -> None:
            self.name, self.files = name, [Path(file) for file in files]

    class Entry:
        def __init__(self, dist: Dist) -> None:
            self.dist = dist

    points = [Entry(Dist("anyio", "anyio/plugin.py", "data.txt")), Entry(Dist("pytest-hwperf", "pytest_hwperf/a.py"))]
    monkeypatch.setattr(shared_imports, "entry_points", lambda **_: points)
    modules = {"anyio.plugin": "/site/anyio/plugin.py", "pytest_hwperf": "/site/pytest_hwperf/__init__.py"}

    assert ["pytest_hwperf"] == list(sharing([rehearsed(baseline=modules, candidate=modules)]).imports.modules)


@pytest.mark.parametrize(
    ("both", "modules", "why"),
    [
        (commands(), None, "no rehearsal says what the sides import"),
        (commands(LD_PRELOAD=("/a", "/b")), SAME, "the sides differ by LD_PRELOAD"),
        (commands(PYTHONOPTIMIZE=("", "1")), SAME, "the sides differ by PYTHONOPTIMIZE"),
        (
            commands(PYTHONPATH=("/old", "/new")),
            {**SAME, "sitecustomize": "/new/sitecustomize.py"},
            "the sides start with code of their own",
        ),
        (commands(PYTHONPATH=("/old", "/new")), {**SAME, "sitecustomize": "/site/sitecustomize.py"}, ""),
    ],
)
def test_what_keeps_the_sides_apart(both: Mapping[Side, Command], modules: Mapping[str, str] | None, why: str) -> None:
    found = sharing([rehearsed(baseline=modules, candidate=modules)] if modules else [PairTrace()], both)

    assert why == found.why_not
    assert not why or found.parent() is None


def test_interpreters_of_their_own_share_nothing() -> None:
    both = commands()
    both["baseline"] = Command(arguments=[], directory=Path(), environment={}, interpreter="/other/python")

    assert "each side has an interpreter of its own" == sharing([rehearsed()], both).why_not


class Played:
    """A parent that answers as it is told."""

    def __init__(self, answer: Mapping[str, str] | None) -> None:
        self.answer, self.ended = answer, False

    def refused(self, _: float) -> Mapping[str, str]:
        if self.answer is None:
            raise ParentLostError("the parent of a pair is silent")
        return self.answer

    def run_on(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers

    def end(self) -> None:
        self.ended = True


def play(monkeypatch: pytest.MonkeyPatch, *answers: Mapping[str, str] | None) -> list[Played]:
    """Let each parent that is started answer as the next of these."""
    started, left = list[Played](), list(answers)

    def start(*_: object) -> Played:
        started.append(Played(left.pop(0)))
        return started[-1]

    monkeypatch.setattr(Parent, "start", start)
    return started


def test_packages_that_a_parent_refuses_are_left_to_the_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    started, found = play(monkeypatch, {"numpy": "it starts a thread of Python"}, {}), sharing([rehearsed()])

    assert cast("Any", found.parent()) is started[1]
    assert started[0].ended
    assert {} == found.imports.modules
    assert "0 packages imported once for both sides of a pair; numpy by each side: it starts a thread of Python" == (
        found.said
    )


def test_a_parent_that_is_silent_ends_the_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    started, found = play(monkeypatch, None), sharing([rehearsed()])

    assert found.parent() is None
    assert started[0].ended
    assert "each side imports everything itself: the parent of a pair is silent" == found.said


def test_the_next_parent_computes_where_the_pair_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    started, found = play(monkeypatch, {}, {}), sharing([rehearsed()])
    assert found.try_out() >= 0
    found.parent()
    found.prepare()
    found.prepare()
    assert 2 == len(started)
    found.make_room(1)
    assert [0] == started[1].numbers
    found.make_room(None)
    assert [] == started[1].numbers
    found.close()
    assert started[1].ended
    found.make_room(1)


def measured(
    pools: frozenset[Side] = frozenset(), answers: Sequence[float] = (1.0, 1.0), outcome: str = "passed", **files: str
) -> PairTrace:
    """Return what a pair has gone through."""
    exact = {
        side: [Sample(metric="accuracy", values=array("d", [value]), per="example", source="labels")]
        for side, value in zip(SIDES, answers, strict=True)
    }
    interleaving = Interleaving(assignment=Assignment(measurement=HERE, turns=""), observations=[], pools=pools)
    return PairTrace(
        outcomes={NODE: {side: SideOutcome(outcome=cast("Any", outcome), reason="it says") for side in SIDES}},
        interleavings={HERE: interleaving},
        exact={HERE: cast("Any", exact)},
        files={side: [files.get(side, "/site/numpy.py")] for side in SIDES},
        modules=cast("Any", dict.fromkeys(SIDES, SAME)),
    )


@pytest.mark.parametrize(
    ("before", "trial", "why"),
    [
        (measured(), measured(), ""),
        (measured(), measured(outcome="failed"), f"{NODE} failed on the side of the baseline: it says"),
        (measured(pools=frozenset(SIDES)), measured(), f"{NODE} uses other threads in a forked process"),
        (measured(), measured(answers=(1.0, 0.0)), f"{NODE} has other answers in a forked process"),
        (measured(answers=(1.0, 0.0)), measured(answers=(0.0, 0.0)), ""),  # a model without a seed
        (
            measured(baseline="/old/code.py", candidate="/new/code.py"),
            measured(baseline="/new/code.py", candidate="/new/code.py"),
            "the baseline has loaded /new/code.py, which only the candidate has loaded in the rehearsal",
        ),
    ],
)
def test_a_forked_pair_goes_as_the_rehearsal_did(before: PairTrace, trial: PairTrace, why: str) -> None:
    found = sharing([before])
    assert found.is_on_trial([HERE])

    assert why == found.judge(trial)
    assert bool(why) == found.is_on_trial([HERE])


def test_a_lost_pair_is_no_proof() -> None:
    lost = measured()
    lost.lost = said("candidate: was silent for 60 s")

    assert "candidate: was silent for 60 s" == sharing([measured()]).judge(lost)
