"""The course of a bisection, with answers from a script, and the tree of BAD, from a real repository."""

import math
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.gate.bisection import BisectionTools, bisect, moved_arguments, tree_of_bad
from pytest_hwperf.records.evidence import Measurement
from pytest_hwperf.records.run import Estimate
from pytest_hwperf.stats.bisection import (
    Bisection,
    BisectionQuestion,
    BisectionStep,
    Commit,
    History,
    KnownChange,
    Standing,
)

HISTORY = History(tuple(Commit(name=str(n), parents=(str(n - 1),)) for n in range(8)))
TEN = math.log(1.1)
BEGIN = Bisection(
    question=BisectionQuestion(good="g", bad="7", first_parent=False, folder=".", arguments=()),
    known=KnownChange(
        measurement=Measurement(test="t", label=""),
        metric="latency",
        statistic="p50",
        better="lower",
        change=Estimate(value=0.1, low=0.1, high=0.1, confidence=0.98, n=8, method="Walsh averages"),
        values=(TEN,),
    ),
)


class Script:
    """Pairs whose culprit is known; the time is up after so many steps."""

    def __init__(self, culprit: int, steps: int = 100, broken: tuple[str, ...] = ()) -> None:
        self.culprit, self.steps, self.broken = culprit, steps, broken
        self.asked = list[str]()
        self.kept = list[Bisection]()
        self.shown = list[int]()

    def compare(self, commit: str) -> BisectionStep:
        self.asked.append(commit)
        if commit in self.broken or len(self.asked) > self.steps:
            return BisectionStep(commit=commit, reason="it does not run")
        return BisectionStep(commit=commit, values=(TEN if int(commit) < self.culprit else 0.0,) * 6)

    def show(self, now: Standing) -> AbstractContextManager[object]:
        self.shown.append(now.left)
        return nullcontext()

    def tools(self) -> BisectionTools:
        return BisectionTools(
            compare=self.compare,
            keep=self.kept.append,
            in_time=lambda: len(self.asked) <= self.steps,
            shown=self.show,
        )


def test_each_step_is_kept_and_shown() -> None:
    script = Script(5)
    found, now = bisect(BEGIN, HISTORY, script.tools())
    assert ("5",) == now.suspects
    assert [len(one.steps) for one in script.kept] == [*range(1, len(found.steps) + 1)]
    assert len(script.shown) == len(script.asked)
    assert script.shown == sorted(script.shown, reverse=True)


def test_it_goes_on_where_it_was_interrupted() -> None:
    """After two steps the time is up; the rest asks nothing again."""
    script, whole = Script(5, steps=2), Script(5)
    first, now = bisect(BEGIN, HISTORY, script.tools())
    bisect(BEGIN, HISTORY, whole.tools())
    assert now.ask is not None
    rest = Script(5)
    _, now = bisect(first, HISTORY, rest.tools())
    assert ("5",) == now.suspects
    assert whole.asked == [*script.asked[:2], *rest.asked]


def test_a_step_that_the_end_of_the_time_cut_off_is_no_fault_of_its_commit() -> None:
    found, _ = bisect(BEGIN, HISTORY, Script(5, steps=1).tools())
    assert [""] == [one.reason for one in found.steps]


def test_broken_commits_are_left_out() -> None:
    script = Script(5, broken=("4", "5"))
    found, now = bisect(BEGIN, HISTORY, script.tools())
    assert ("4", "5", "6") == now.suspects
    assert {"4", "5"} == {one.commit for one in found.steps if one.reason}
    assert 1 == script.asked.count("4") == script.asked.count("5")


@pytest.fixture
def moved_into(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a repository, with a file that git does not have."""
    (repository / "pkg").mkdir()
    (repository / "pkg" / "code.py").write_text("x = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "more")
    (repository / "model.onnx").write_text("weights")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(repository / "pkg"), "/elsewhere"]))
    return repository


def test_bad_lies_in_a_tree_of_its_own_that_is_gone_afterwards(moved_into: Path) -> None:
    bad, before = git(moved_into, "rev-parse", "HEAD"), git(moved_into, "status", "--porcelain")
    here, paths = moved_into / "pkg", [str(moved_into), "/usr/lib"]
    with tree_of_bad(here, moved_into, bad, ["*.onnx"], paths) as tree:
        assert (tree.top / "pkg", "weights") == (tree.folder, (tree.top / "model.onnx").read_text())
        assert bad == git(tree.top, "rev-parse", "HEAD")
        assert [str(tree.top), str(tree.top / "pkg"), "/elsewhere"] == tree.environment["PYTHONPATH"].split(os.pathsep)
    assert not tree.top.exists()
    assert 1 == len(git(moved_into, "worktree", "list").splitlines())
    assert before == git(moved_into, "status", "--porcelain")


@pytest.mark.parametrize(
    ("named", "laid"),
    [
        ("late/test_late.py::test_x[a/b]", ["late/test_late.py"]),  # committed after BAD
        ("tests/new", ["tests/new/test_one.py", "tests/new/test_two.py"]),
        ("tests/test_old.py", []),  # tests are those of BAD
        ("-k" + 300 * "x", []),
        ("../elsewhere.py", []),
    ],
)
def test_a_test_that_bad_lacks_is_the_users(repository: Path, named: str, laid: list[str]) -> None:
    (repository / "tests" / "new").mkdir(parents=True)
    (repository / "late").mkdir()
    bad = commit(repository, **{"tests/test_old__py": "old\n"})
    commit(repository, **{"late/test_late__py": "", "tests/test_old__py": "new\n"})
    for name in ("tests/new/test_one.py", "tests/new/test_two.py", "../elsewhere.py"):
        (repository / name).write_text("")
    with tree_of_bad(repository, repository, bad, [], [], [named]) as tree:
        assert laid == [*tree.laid]
        assert all((tree.top / file).is_file() for file in laid)
        assert "old\n" == (tree.top / "tests" / "test_old.py").read_text()


def test_paths_of_the_users_tree_lead_to_the_other_one() -> None:
    given = ["/home/me/work/tests/test_a.py::test_x[/home/me/work]", "tests/test_a.py", "-k", "/home/me/worker"]
    assert ["/elsewhere/t/tests/test_a.py::test_x[/home/me/work]", *given[1:]] == moved_arguments(
        given, Path("/home/me/work"), Path("/elsewhere/t")
    )
