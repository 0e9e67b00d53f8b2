"""A baseline is given what it lacks, and the rehearsal is repeated with it while there is time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.gate.pair.lockstep import PairTrace
from pytest_hwperf.gate.rehearsal import Rehearser
from pytest_hwperf.gate.sharing import Sharer, globs_of
from pytest_hwperf.host.opened_files import Opened
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.stats.pairs.hypotheses import SideOutcome

TEST = "t.py::test"
PASSED = SideOutcome(outcome="passed")


@pytest.fixture(scope="module")
def pair_of_trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    """A repository that ignores `*.bin` and `_*.py`, and a baseline of its only revision."""
    place = tmp_path_factory.mktemp("trees")
    project, baseline = place / "project", place / "base" / "project"
    project.mkdir()
    git(project, "init")
    commit(project, __gitignore="*.bin\n_*.py\n")
    git(project, "worktree", "add", "--detach", str(baseline))
    return Trees(candidate=project, baseline=baseline, revision="", shared={}, changed=frozenset(), warnings=())


@pytest.fixture
def trees(pair_of_trees: Trees) -> Iterator[Trees]:
    """Trees without anything that other tests have put there."""
    yield pair_of_trees
    for tree in (pair_of_trees.candidate, pair_of_trees.baseline):
        for path in tree.iterdir():
            if not path.name.startswith(".git"):
                path.unlink()


@dataclass(kw_only=True)
class Suite(Rehearser):
    """A test that opens these files one after the other; the baseline says which one it lacks."""

    conductor: Conductor = field(default_factory=lambda: Conductor(commands={}, logs=Path()))
    name: str = "HEAD"
    alpha: float = 0.01
    time_s: float = 100.0
    until: float = 100.0
    trees: Trees
    needs: Sequence[str]
    dies: bool = False  # whether the baseline ends where a file is missing
    falls_back: bool = False  # whether it does without
    unseen: bool = False  # whether native code opens them
    loaded: Sequence[str] = ()
    limit_s: float = 100.0
    took_s: float = 5.0
    rehearsals: int = 0
    forgotten: int = 0
    also: Callable[[PairTrace], None] = field(default=lambda _: None)

    @property
    def left_s(self) -> float:
        return self.limit_s - self.rehearsals * self.took_s

    def forget(self) -> None:
        self.forgotten += 1

    def rehearse(self, nodes: Sequence[str]) -> PairTrace:
        self.rehearsals += 1
        missing = next((name for name in self.needs if not (self.trees.baseline / name).exists()), "")
        why = f"FileNotFoundError: [Errno 2] No such file or directory: '{missing}'"
        if missing and self.dies:
            raise UsageProblem(f"the rehearsal failed: {why}")
        failed = SideOutcome(outcome="failed", reason=why)
        root = self.trees.candidate
        trace = PairTrace(
            collected={"baseline": list(nodes), "candidate": list(nodes)},
            errors={"baseline": {}, "candidate": {}},
            outcomes={TEST: {"candidate": PASSED, "baseline": failed if missing and not self.falls_back else PASSED}},
            files={"candidate": [str(root / name) for name in self.loaded], "baseline": []},
            opened={
                "candidate": Opened(read=() if self.unseen else tuple(str(root / name) for name in self.needs)),
                "baseline": Opened(),
            },
        )
        self.also(trace)
        return trace


def suite(trees: Trees, *needs: str, falls_back: bool = False, dies: bool = False, unseen: bool = False) -> Suite:
    """Return a test of files that the candidate has."""
    for name in needs:
        (trees.candidate / name).write_text(f"CONTENT = {name!r}\n")
    return Suite(trees=trees, needs=needs, falls_back=falls_back, dies=dies, unseen=unseen)


def rehearsed(trees: Trees, tests: Suite, *, is_on: bool = True) -> tuple[Sharer, PairTrace]:
    sharer = Sharer(trees=trees, folders=(trees.candidate,), is_on=is_on)
    return sharer, sharer.rehearse(tests, [TEST])


def outcome(trace: PairTrace) -> str:
    return trace.outcomes[TEST]["baseline"].outcome


def test_what_the_baseline_lacks_is_given_and_the_rehearsal_repeated(trees: Trees) -> None:
    tests = suite(trees, "a.bin", "b.bin")
    sharer, trace = rehearsed(trees, tests)
    assert ("passed", 2, 1) == (outcome(trace), tests.rehearsals, tests.forgotten)
    assert ["a.bin", "b.bin"] == list(sharer.trees.shared)
    (note,) = sharer.notes()
    assert note == (
        "the baseline was given a.bin, b.bin, which git does not have; found in the rehearsal, which was repeated "
        "in 5.0 s; --hwperf-share=none gives it none"
    )


def test_a_fall_back_for_a_missing_file_is_not_compared(trees: Trees) -> None:
    """It would run without a word."""
    tests = suite(trees, "a.bin", falls_back=True)
    assert ["a.bin"] == list(rehearsed(trees, tests)[0].trees.shared)
    assert 2 == tests.rehearsals


@pytest.mark.parametrize("dies", [False, True])
def test_files_that_native_code_opens_are_known_by_what_the_baseline_says(trees: Trees, *, dies: bool) -> None:
    """One names the next: a model, and its weights. A process may end where a conftest.py lacks its file."""
    tests = suite(trees, "a.bin", "b.bin", "c.bin", unseen=True, dies=dies)
    sharer, trace = rehearsed(trees, tests)
    assert ("passed", 4) == (outcome(trace), tests.rehearsals)
    assert 15.0 == sharer.seconds


def test_after_so_many_repetitions_the_next_file_is_named(trees: Trees) -> None:
    tests = suite(trees, *(f"{number}.bin" for number in range(5)), unseen=True)
    sharer, trace = rehearsed(trees, tests)
    assert ("failed", 4) == (outcome(trace), tests.rehearsals)
    assert trace.outcomes[TEST]["baseline"].reason.endswith("share the present one with --hwperf-share=3.bin")
    assert 3 == len(sharer.trees.shared)


@pytest.mark.parametrize("dies", [False, True])
def test_without_time_for_another_rehearsal_nothing_is_given(trees: Trees, *, dies: bool) -> None:
    """What was measured without the file would be taken for what is measured with it."""
    tests = suite(trees, "a.bin", dies=dies)
    tests.limit_s = 14.0
    sharer = Sharer(trees=trees, folders=(trees.candidate,))
    if dies:
        with pytest.raises(UsageProblem, match="the rehearsal failed"):
            sharer.rehearse(tests, [TEST])
    else:
        assert "failed" == outcome(sharer.rehearse(tests, [TEST]))
    assert 1 == tests.rehearsals
    assert not (trees.baseline / "a.bin").exists()
    assert [] == sharer.notes()


def test_it_can_be_switched_off_and_what_the_candidate_lacks_too_is_raised(trees: Trees) -> None:
    tests, other = suite(trees, "a.bin"), suite(trees, "absent.bin", dies=True)
    sharer, trace = rehearsed(trees, tests, is_on=False)
    assert ("failed", 1, {}) == (outcome(trace), tests.rehearsals, sharer.trees.shared)
    (trees.candidate / "absent.bin").unlink()
    with pytest.raises(UsageProblem, match="the rehearsal failed"):
        rehearsed(trees, other)
    assert 1 == other.rehearsals


def test_what_may_be_made_from_a_change_is_named(trees: Trees) -> None:
    (trees.candidate / "a.yaml").touch()
    git(trees.candidate, "add", "a.yaml")
    sharer, trace = rehearsed(trees, suite(trees, "a.bin"))
    git(trees.candidate, "reset")
    assert "failed" == outcome(trace)
    (note,) = sharer.notes()
    assert note.startswith("a.bin is not in the baseline and not given to it, since a.yaml differs between both trees")
    assert note.endswith("type --hwperf-share=a.bin")


def test_modules_that_this_process_has_loaded_are_given_before(trees: Trees) -> None:
    """It costs no rehearsal."""
    (trees.candidate / "_version.py").write_text("A = 1\n")
    (trees.candidate / "_parser.py").write_text("def parse():\n    pass\n")
    sharer = Sharer(trees=trees, folders=())
    sharer.give_loaded([str(trees.candidate / name) for name in ("_version.py", "_parser.py")])
    assert ["_version.py"] == list(sharer.trees.shared)
    assert ["the baseline was given _version.py, which git does not have; --hwperf-share=none gives it none"] == (
        sharer.notes()
    )


def test_an_interpreter_of_its_own_may_have_the_modules(trees: Trees) -> None:
    """Unless the baseline fails."""
    for fails in (False, True):
        (trees.candidate / "_version.py").write_text("A = 1\n")
        tests = Suite(trees=trees, needs=["none.bin"] if fails else [], loaded=["_version.py"])
        sharer = Sharer(trees=trees, folders=(), own_interpreter=True)
        sharer.rehearse(tests, [TEST])
        assert (["_version.py"] if fails else []) == list(sharer.trees.shared)


def test_a_test_that_the_baseline_cannot_collect_fails_there(trees: Trees) -> None:
    """A file that git does not ignore is given only then."""
    tests = suite(trees, "rows.csv", falls_back=True)

    def uncollected(trace: PairTrace) -> None:
        trace.collected["baseline"] = []
        trace.errors["baseline"] = {"t.py": "FileNotFoundError: 'rows.csv'"}

    tests.also = uncollected
    assert ["rows.csv"] == list(rehearsed(trees, tests)[0].trees.shared)


def test_globs_are_told_from_the_words() -> None:
    assert ["*.bin", "models"] == globs_of(["auto", "*.bin", "none", "models"])
