"""Which tests are left out of the pairs, by rehearsals that are played: no process is started."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.gate.affected import Untouched, untouched_tests, watches_of
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.records.evidence import Measurement, Side
from pytest_hwperf.stats.causes.changed_code import Changes, Usage
from pytest_hwperf.stats.pairs.hypotheses import SIDES, SideOutcome

A, B, C = "tests/test_a.py::test_a", "tests/test_b.py::test_b", "tests/test_b.py::test_c"
PASSED, FAILED = SideOutcome(outcome="passed"), SideOutcome(outcome="failed")
WORK: Mapping[Side, tuple[str, ...]] = {"baseline": ("slow:1",), "candidate": ("slow:1",)}
Used = Mapping[str, tuple[str, ...]]


def trees(root: Path, changes: Changes | None) -> Trees:
    for side in SIDES:
        (root / side).mkdir(exist_ok=True)
    return Trees(
        candidate=root / "candidate",
        baseline=root / "baseline",
        revision="4f2c1e9",
        shared={},
        changed=frozenset(),
        warnings=(),
        changes=changes,
    )


def played(nodes: Sequence[str], baseline: Used | None = None, candidate: Used | None = None) -> PairTrace:
    """A pair that went through tests, with what each side has used."""
    return PairTrace(
        outcomes={node: dict.fromkeys(SIDES, PASSED) for node in nodes},
        usages={"baseline": Usage(used=baseline or {}), "candidate": Usage(used=candidate or {})},
    )


class Again:
    """Rehearsals of some of the tests by themselves."""

    def __init__(self, *traces: PairTrace) -> None:
        self.asked = list[Sequence[str]]()
        self._traces: Iterator[PairTrace] = iter(traces)

    def __call__(self, nodes: Sequence[str], _trees: Trees) -> PairTrace:
        self.asked.append(tuple(nodes))
        return next(self._traces)


def found(
    root: Path, trace: PairTrace, again: Again, changes: Changes | None = None, *, own: bool = False
) -> Untouched:
    here = root / "candidate"
    files = [here / "tests" / name for name in ("test_a.py", "test_b.py")]
    changed = changes or Changes(changed={"work.py": WORK})
    return untouched_tests(trees(root, changed), (here, files), trace, again, own_interpreter=own)


def test_processes_that_use_nothing_are_the_proof(tmp_path: Path) -> None:
    """The first rehearsal is none: it makes fewer calls than a pair."""
    again = Again(played([A, B, C]))
    assert Untouched(tests=frozenset({A, B, C})) == found(tmp_path, played([A, B, C]), again)
    assert [(A, B, C)] == again.asked


def test_files_that_processes_have_left_are_a_change_too(tmp_path: Path) -> None:
    """What changed code has written may be read by tests that run none of it."""
    (tmp_path / "baseline").mkdir()
    first = played([A, B], {A: ("work.py::slow",)})
    (tmp_path / "baseline" / "kept.bin").write_text("made by the baseline")
    left = found(tmp_path, first, Again())
    assert not left.tests
    assert "kept.bin is there on one side only, and which test asks for it is not recorded" == left.why_none


def test_what_seems_untouched_is_rehearsed_by_itself(tmp_path: Path) -> None:
    """Until nobody uses anything: a test may have what the one before it has left behind."""
    again = Again(played([B, C], {}, {B: ("work.py::slow",)}), played([C]))
    left = found(tmp_path, played([A, B, C], {A: ("work.py::slow",)}), again)
    assert {C} == left.tests
    assert {A: "baseline: work.py::slow", B: "candidate: work.py::slow"} == left.affected
    assert [(B, C), (C,)] == again.asked


def test_a_test_that_does_not_pass_by_itself_stays_in(tmp_path: Path) -> None:
    """Nothing is proved by a test that ended early; the others are rehearsed without it."""
    failed = played([B, C])
    failed.outcomes[B] = {"baseline": PASSED, "candidate": FAILED}
    again = Again(failed, played([C]))
    left = found(tmp_path, played([A, B, C], {A: ("x",)}), again)
    assert {C} == left.tests
    assert "it did not pass by itself" == left.affected[B]


def test_a_test_that_measures_otherwise_on_one_side_or_sends_nothing_of_it_stays_in(tmp_path: Path) -> None:
    trace, unknown = played([A, B]), played([A])
    trace.uneven[Measurement(test=A, label="more")] = "candidate"
    del unknown.usages["candidate"]
    assert {B} == found(tmp_path, trace, Again(played([B]))).tests
    assert {A: "candidate: what it uses is not known"} == found(tmp_path, unknown, Again()).affected


def test_what_is_used_by_turns_leaves_no_test_out(tmp_path: Path) -> None:
    """An end after a few rehearsals: they cost time, which the pairs need."""
    nodes = [f"tests/test_b.py::test_{number}" for number in range(9)]
    traces = [played(nodes[at:], {nodes[at]: ("x",)}) for at in range(9)]
    left = found(tmp_path, traces[0], again := Again(*traces[1:]))
    assert not left.tests
    assert "what tests use of it is not the same in each process" == left.why_none
    assert len(again.asked) == 4


def test_compiled_code_of_the_tree_keeps_every_test_in(tmp_path: Path) -> None:
    """What it was made of is not known, so that no change can be told from it."""
    for file in ("pkg/fast.so", "lib/libwork.so.1"):
        trace = played([A])
        trace.files = {side: [str(tmp_path.resolve() / side / file)] for side in SIDES}
        assert {A: f"baseline: {file}, which is compiled"} == found(tmp_path, trace, Again()).affected


def test_tests_that_have_changed_stay_in(tmp_path: Path) -> None:
    """Both sides run them as they are now, so that they are not asked what they use."""
    changes = Changes(changed={"tests/test_a.py": WORK}, laid_over=frozenset({"tests/test_a.py"}))
    first = played([A, B], {"tests/test_a.py": ("tests/test_a.py::<module>",)})
    left = found(tmp_path, first, Again(played([B])), changes)
    assert {B} == left.tests
    assert {A: "tests/test_a.py"} == left.affected


def test_what_may_reach_every_test_is_not_even_watched(tmp_path: Path) -> None:
    for changes, own, why in (
        (Changes(changed={}), True, "the baseline has an interpreter of its own"),
        (Changes(changed={"setup.py": WORK}), False, "setup.py has changed, which says how every test is run"),
    ):
        assert Untouched(why_none=why) == found(tmp_path, played([A]), Again(), changes, own=own)
        assert {} == watches_of(trees(tmp_path, changes), own_interpreter=own)


def test_both_sides_watch_their_own_trees(tmp_path: Path) -> None:
    watches = watches_of(trees(tmp_path, Changes(changed={"work.py": WORK})), own_interpreter=False)
    assert {side: str(tmp_path / side) for side in SIDES} == {side: watch.root for side, watch in watches.items()}
    assert {} == watches_of(trees(tmp_path, None), own_interpreter=False)
