"""The tree of BAD, from a real repository."""

import os
from pathlib import Path

import pytest
from fakes.repositories import commit, git

from pytest_hwperf.gate.bisection import moved_arguments, tree_of_bad


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


def test_a_test_that_bad_lacks_is_the_users(repository: Path) -> None:
    laid = {
        "late/test_late.py::test_x[a/b]": ["late/test_late.py"],  # committed after BAD
        "tests/new": ["tests/new/test_one.py", "tests/new/test_two.py"],
        "tests/test_old.py": [],  # tests are those of BAD
        "-k" + 300 * "x": [],
        "../elsewhere.py": [],
    }
    (repository / "tests" / "new").mkdir(parents=True)
    (repository / "late").mkdir()
    bad = commit(repository, **{"tests/test_old__py": "old\n"})
    commit(repository, **{"late/test_late__py": "", "tests/test_old__py": "new\n"})
    for name in ("tests/new/test_one.py", "tests/new/test_two.py", "../elsewhere.py"):
        (repository / name).write_text("")
    for named, files in laid.items():
        with tree_of_bad(repository, repository, bad, [], [], [named]) as tree:
            assert files == [*tree.laid]
            assert all((tree.top / file).is_file() for file in files)
            assert "old\n" == (tree.top / "tests" / "test_old.py").read_text()


def test_paths_of_the_users_tree_lead_to_the_other_one() -> None:
    given = ["/home/me/work/tests/test_a.py::test_x[/home/me/work]", "tests/test_a.py", "-k", "/home/me/worker"]
    assert ["/elsewhere/t/tests/test_a.py::test_x[/home/me/work]", *given[1:]] == moved_arguments(
        given, Path("/home/me/work"), Path("/elsewhere/t")
    )
