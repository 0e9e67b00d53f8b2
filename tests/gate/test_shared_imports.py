"""What the sides of a build share, by their rehearsal; and what a forked pair is dropped for."""

import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from fakes import gates

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.interleaving import Interleaving
from pytest_hwperf.gate.pair.lockstep import PairTrace, Program
from pytest_hwperf.gate.pair.parent import Imports, Parent, ParentLostError
from pytest_hwperf.gate.pair.run import Holder
from pytest_hwperf.gate.pair.shared_imports import SharedImports
from pytest_hwperf.host.launch import Command
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.evidence import Assignment, Evidence, Measurement, Side
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.run import Sample
from pytest_hwperf.stats.pairs.hypotheses import SIDES

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing is shared on this system")

SEEDS = {"baseline": 7, "candidate": 7}
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


def sharing(found: PairTrace, both: Mapping[Side, Command] | None = None) -> SharedImports:
    return SharedImports(both or commands(), found, Random(7), ahead=True)


def modules_of(shared: SharedImports, monkeypatch: pytest.MonkeyPatch) -> Imports:
    """Return what its parent is told to import."""
    started = play(monkeypatch, {})
    shared.parent(9.0)
    return started[0].imports


def test_what_both_sides_load_from_one_file_is_shared_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    baseline = {"only": "/site/only.py", **SAME, "last": "/site/last.py"}
    candidate = {"last": "/site/last.py", **SAME}
    both = commands(TMPDIR=("/a", "/b"), PYTHONPATH=("/old:/modules", "/new:/modules"))
    found = modules_of(sharing(rehearsed(baseline=baseline, candidate=candidate), both), monkeypatch)
    assert ["last", "numpy", "numpy.linalg"] == list(found.modules)
    assert {"HOME": "/home", "PYTHONPATH": "/modules"} == found.environment
    assert {"TMPDIR", "PYTHONPATH"} == found.differing


OWN = commands()
OWN["baseline"] = Command(arguments=[], directory=Path(), environment={}, interpreter="/other/python")
PATHS = commands(PYTHONPATH=("/old", "/new"))
APART = [
    (commands(), None, "no rehearsal of both sides has said which modules they load"),
    (commands(LD_PRELOAD=("/a", "/b")), SAME, "LD_PRELOAD differs between the sides"),
    (commands(PYTHONOPTIMIZE=("", "1")), SAME, "PYTHONOPTIMIZE differs between the sides"),
    (PATHS, {**SAME, "sitecustomize": "/new/sitecustomize.py"}, "a side has its own sitecustomize.py"),
    (PATHS, {**SAME, "sitecustomize": "/site/sitecustomize.py"}, ""),
    (OWN, SAME, "each side has an interpreter of its own"),
]


def test_what_keeps_the_sides_apart() -> None:
    for both, modules, why in APART:
        found = sharing(rehearsed(baseline=modules, candidate=modules) if modules else PairTrace(), both)
        assert why == found.why_not
        assert not why or found.parent(9.0) is None


class Played:
    """A parent that answers as it is told."""

    def __init__(self, answer: Mapping[str, str] | None, imports: Imports) -> None:
        self.answer, self.imports, self.is_over, self.waits = answer, imports, False, False
        self.imported = ["numpy", "numpy.linalg", "json"]

    def refused(self, _: float) -> Mapping[str, str]:
        if self.answer is None:
            raise ParentLostError("the parent of a pair is silent")
        return self.answer

    def wait(self) -> None:
        self.waits = True

    def go_on(self) -> None:
        self.waits = False

    def end(self) -> None:
        self.is_over = True


def play(monkeypatch: pytest.MonkeyPatch, *answers: Mapping[str, str] | WorkerError | None) -> list[Played]:
    """Let each parent that is started answer as the next of these."""
    started, left = list[Played](), list(answers)

    def start(_: Command, imports: Imports, seed: int) -> Played:
        del seed
        answer = left.pop(0)
        if isinstance(answer, WorkerError):
            raise answer
        started.append(Played(answer, imports))
        return started[-1]

    monkeypatch.setattr(Parent, "start", start)
    return started


def test_packages_that_a_parent_refuses_are_left_to_the_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    started, found = play(monkeypatch, {"numpy": "it starts a Python thread"}, {}), sharing(rehearsed())
    assert cast("Any", found.parent(9.0)) is started[1]
    assert started[0].is_over
    assert {} == started[1].imports.modules
    assert (
        "1 package imported once for both sides of a pair; each side imports numpy: it starts a Python thread"
        == found.said
    )


def test_where_each_parent_refuses_something_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    started, found = play(monkeypatch, *({f"p{at}": "it loads x"} for at in range(5))), sharing(rehearsed())
    assert found.parent(9.0) is None
    assert all(one.is_over for one in started)
    assert "each side imports everything itself: too many packages cannot be imported for both sides" == found.said


@pytest.mark.parametrize("lost", [None, WorkerError("no memory is left")])
def test_a_parent_that_is_lost_ends_the_sharing(monkeypatch: pytest.MonkeyPatch, lost: WorkerError | None) -> None:
    """Whether it is silent when a pair needs it, or cannot be started ahead: the pair goes on."""
    started, found = play(monkeypatch, {}, lost), sharing(rehearsed())
    found.try_out(9.0)
    found.parent(9.0)
    found.prepare()
    assert found.parent(9.0) is None
    assert found.why_not in ("the parent of a pair is silent", "no memory is left")
    found.close()
    assert all(one.is_over for one in started)


def test_the_next_parent_imports_while_a_pair_leaves_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    started, found = play(monkeypatch, {}, {}), sharing(rehearsed())
    found.try_out(9.0)
    found.parent(9.0)
    found.use(0)
    found.prepare()
    found.prepare()
    assert 2 == len(started)
    found.use(0)
    assert started[1].waits
    found.use(1)
    assert not started[1].waits
    found.close()
    assert all(one.is_over for one in started)


def measured(pools: frozenset[Side] = frozenset(), answers: Sequence[float] = (1.0, 1.0), **files: str) -> PairTrace:
    """Return what a pair has gone through."""
    exact = {
        side: [Sample(metric="accuracy", values=array("d", [value]), per="example", source="labels")]
        for side, value in zip(SIDES, answers, strict=True)
    }
    interleaving = Interleaving(assignment=Assignment(measurement=HERE, turns=""), observations=[], pools=pools)
    return PairTrace(
        interleavings={HERE: interleaving},
        exact={HERE: cast("Any", exact)},
        files={side: [files.get(side, "/site/numpy.py")] for side in SIDES},
        modules=cast("Any", dict.fromkeys(SIDES, SAME)),
    )


BOTH, BASE, CANDIDATE = frozenset(SIDES), frozenset(SIDES[:1]), frozenset(SIDES[1:])
LIKE = [
    (measured(), measured(), ""),
    (measured(pools=BOTH), measured(), f"{NODE} uses other threads in a forked process"),
    (measured(), measured(pools=BOTH), f"{NODE} uses other threads in a forked process"),
    (measured(pools=BASE), measured(pools=CANDIDATE), ""),
    (measured(pools=BASE), measured(), ""),
    (measured(), measured(answers=(1.0, 0.0)), f"{NODE} has other answers in a forked process"),
    (measured(answers=(1.0, 0.0)), measured(answers=(0.0, 0.0)), ""),  # a model without a seed
    (
        measured(baseline="/old/code.py", candidate="/new/code.py"),
        measured(baseline="/new/code.py", candidate="/new/code.py"),
        "the baseline has loaded /new/code.py, which only the candidate had loaded in the rehearsal",
    ),
]


def test_a_forked_pair_works_as_the_rehearsal_did() -> None:
    """Once it may be chance; the second time nothing is shared any more."""
    for before, trial, why in LIKE:
        found = sharing(before)
        assert found.is_new([HERE])
        assert found.is_as_rehearsed(trial, [HERE]) == (not why)
        assert found.is_new([HERE]) == bool(why)
        assert not found.why_not
        found.is_as_rehearsed(trial, [HERE])
        assert why == found.why_not


TRIAL = gates.asked(test=NODE)
PAIRS = 6 + 8  # a screen, and a first look

Hold = Callable[[int], PairTrace]  # of the number of the forked pair, from 1


def trace(*, forked: bool, pools: frozenset[Side] = frozenset(), lost: str = "") -> PairTrace:
    """Return a pair whose candidate is three times as slow."""
    taken = Interleaving(
        assignment=Assignment(measurement=HERE, turns=""),
        observations=[gates.observed(TRIAL, [1.0], [3.0])],
        pools=pools,
    )
    return PairTrace(
        interleavings={HERE: taken},
        is_forked=forked,
        hash_seeds=dict(SEEDS) if forked else {},
        modules=cast("Any", {side: {"numpy": "/site/numpy.py"} for side in SIDES}),
        lost=said(lost) if lost else None,
    )


def conducted(
    monkeypatch: pytest.MonkeyPatch, forked: Hold, seeds: list[Any] | None = None
) -> tuple[Conductor, Evidence, list[bool], list[bool]]:
    """Conduct a build; return which of its pairs were to be forked, and which of these gave what needs no clock.

    Each takes a second. `seeds` gets the hash seeds that each was told to have.
    """
    given = list[Any]() if seeds is None else seeds
    asked, exact = list[bool](), list[bool]()

    def hold(_: Holder, program: Program, shared: Any = None, hash_seeds: Any = None) -> PairTrace:
        given.append(hash_seeds)
        asked.append(shared is not None)
        if shared is None:
            return trace(forked=False)
        exact.append(program.exact)
        return forked(sum(asked))

    monkeypatch.setattr(Holder, "hold", hold)
    command = Command(arguments=[], directory=Path(), environment={})
    commands = {side: command for side in SIDES}  # noqa: C420 - typed
    conductor = Conductor(commands=commands, logs=Path("logs"), seed=7, clock=lambda: float(len(asked)))
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

    seeds = list[Any]()
    conductor, evidence, asked, exact = conducted(monkeypatch, forked, seeds)
    assert [None, SEEDS, *[None] * (PAIRS - 1)] == seeds, "sets have the same order in the pair that replaces another"
    assert (1, PAIRS) == (conductor.seconds["imports"], sum(conductor.seconds.values()) - 1), "it is no time of a pair"
    assert [True, False, *[True] * (PAIRS - 1)] == asked
    assert [True, True, *[False] * (PAIRS - 2)] == exact
    assert PAIRS == len(evidence.pairs)


def test_a_pair_that_is_lost_counts_as_any_other_and_ends_the_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that worked otherwise than the rehearsal. A parent that cannot fork costs none."""

    def none(_: int) -> PairTrace:
        raise ParentLostError("the parent of a pair has ended")

    silent = trace(forked=True, pools=frozenset(SIDES), lost="candidate: was silent for 60 s")
    conductor, evidence, asked, _ = conducted(monkeypatch, lambda _: silent)
    assert [True, *[False] * (PAIRS - 1)] == asked
    assert evidence.pairs[0].lost is not None
    assert "each side imports everything itself: candidate: was silent for 60 s" == conductor.imports
    conductor, evidence, asked, _ = conducted(monkeypatch, none)
    assert [True, *[False] * PAIRS] == asked
    assert [None] * PAIRS == [pair.lost for pair in evidence.pairs]
    assert "each side imports everything itself: the parent of a pair has ended" == conductor.imports


def test_after_the_first_import_that_differs_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one side alone has loaded may have changed what comes later; the order within one import may be drawn."""
    both = {
        "baseline": {"pytest": "/p.py", "numpy": "/n.py", "numpy.a": "/a.py", "numpy.b": "/b.py", "scipy": "/s.py"},
        "candidate": {
            "pytest": "/p.py",
            "numpy": "/n.py",
            "numpy.b": "/b.py",
            "numpy.a": "/a.py",
            "own": "/o.py",
            "scipy": "/s.py",
        },
    }
    found = rehearsed(**both)
    found.asked = {"baseline": {"numpy": "", "scipy": ""}, "candidate": {"numpy": "", "own": "", "scipy": ""}}
    modules = modules_of(sharing(found), monkeypatch).modules
    assert ["pytest", "numpy", "numpy.b", "numpy.a"] == list(modules)


def test_after_other_code_of_the_trees_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package may find what a tree has defined: in a frame, in `sys.modules`, as a subclass of its own."""
    found = rehearsed(baseline={**SAME, "scipy": "/s.py"}, candidate={**SAME, "scipy": "/s.py"})
    found.asked = {"baseline": {"numpy": "a", "scipy": "b"}, "candidate": {"numpy": "a", "scipy": "c"}}
    assert [*SAME] == list(modules_of(sharing(found), monkeypatch).modules)


def held(*digits: str) -> PairTrace:
    """Return a pair in which a module holds something on each side."""
    found = measured()
    found.states = {side: {"numpy": one} for side, one in zip(SIDES, digits, strict=True)}
    return found


def test_a_package_that_holds_other_values_where_it_is_shared_is_left_to_the_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pair that shares nothing shows whether the tree is the cause, or each process differs by itself."""
    for apart, is_shared in ((held("fast", "slow"), False), (held("any", "other"), True)):
        started, found = play(monkeypatch, {}, {}), sharing(held("fast", "slow"))
        forked = held("fast", "fast")
        assert not found.is_as_rehearsed(forked, [HERE])
        found.learn(forked, apart, [HERE])
        assert is_shared == found.is_as_rehearsed(forked, [HERE]), (
            "once may be chance: the next pair is looked at again"
        )
        if not is_shared:
            found.learn(forked, apart, [HERE])
        found.parent(9.0)
        assert is_shared == ("numpy" in started[0].imports.modules)
        assert found.is_as_rehearsed(forked, [HERE]), "what is not shared, or differs by itself, is not looked at"


def test_other_values_in_one_forked_pair_alone_are_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that follow from an address: the package stays shared, and the pair that held them does not count."""
    started, found = play(monkeypatch, {}, {}), sharing(held("fast", "fast"))
    assert not found.is_as_rehearsed(held("slow", "fast"), [HERE])
    found.learn(held("slow", "fast"), held("fast", "fast"), [HERE])
    assert found.is_new([HERE])
    found.parent(9.0)
    assert "numpy" in started[0].imports.modules
    assert found.is_as_rehearsed(held("fast", "fast"), [HERE])
    assert not found.is_new([HERE])


def timed(ratio: float) -> PairTrace:
    """Return a pair of which one side takes so many times as long."""
    taken = Interleaving(
        assignment=Assignment(measurement=HERE, turns=""), observations=[gates.observed(TRIAL, [1.0], [ratio])]
    )
    return PairTrace(interleavings={HERE: taken}, modules=cast("Any", dict.fromkeys(SIDES, SAME)))


def test_a_forked_pair_that_sees_another_difference_is_checked_by_one_that_shares_nothing() -> None:
    """Where that one agrees with the rehearsal, nothing is shared; which side is slower does not count."""
    for apart, why in ((3.0, f"{NODE} takes other times in a forked process"), (1.0, "")):
        found = sharing(timed(3.0))
        assert not found.is_as_rehearsed(timed(1.0), [HERE])
        found.learn(timed(1.0), timed(apart), [HERE])
        assert why == found.why_not
    found = sharing(timed(3.0))
    assert found.is_as_rehearsed(timed(1 / 3.0), [HERE])


def test_a_file_that_a_forked_side_does_not_load_or_loads_alone_is_a_difference() -> None:
    more = measured()
    more.files = {**more.files, "candidate": [*more.files["candidate"], "/site/more.py"]}
    both = measured()
    both.files = dict.fromkeys(SIDES, ("/site/numpy.py", "/site/more.py"))
    for before, trial, why in (
        (both, measured(), "the baseline has not loaded /site/more.py, as it had in the rehearsal"),
        (measured(), more, "the candidate has loaded /site/more.py, as it had not in the rehearsal"),
    ):
        found = sharing(before)
        assert not found.is_as_rehearsed(trial, [HERE])
        found.is_as_rehearsed(trial, [HERE])
        assert why == found.why_not
