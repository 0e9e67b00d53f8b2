"""Tests that are given through a link of the tree have the same ids on both sides."""

import os
from pathlib import Path

import pytest
from fakes.repositories import commit, repository_with

from pytest_hwperf.checkout.both import both_trees, commands
from pytest_hwperf.checkout.overlay import place_in
from pytest_hwperf.host.launch import PytestCommand
from pytest_hwperf.records.errors import UsageProblem


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a test in the folder `real`; a link is added by each case."""
    folder = repository_with(tmp_path / "project", conftest__py="root = 1\n")
    (folder / "real").mkdir()
    (folder / "real/test_it.py").write_text("then = 1\n")
    (folder / "real/conftest.py").write_text("")
    commit(folder)
    return folder


def baseline_test(project: Path, given: Path, root: Path | None = None) -> tuple[str, str]:
    """Return the path by which the baseline is given a test, below its root, and what stands there."""
    here = root or project
    command = PytestCommand(
        inherited=[], neutral=[], of_plugins={}, root=here, inipath=None, directory=here, environment={}
    )
    with both_trees(here, "HEAD", [given]) as trees:
        arguments = commands(command, trees, [given], None)["baseline"].arguments
        (test,) = [Path(one) for one in arguments if one.endswith(".py")]
        return os.path.relpath(test, trees.baseline), test.read_text()


def test_a_link_that_both_have_is_in_the_baselines_path(project: Path) -> None:
    (project / "linked").symlink_to("real")
    commit(project)
    (project / "real/test_it.py").write_text("now = 1\n")
    assert ("linked/test_it.py", "now = 1\n") == baseline_test(project, project / "linked/test_it.py")


def test_a_link_that_the_baseline_lacks_is_made_there(project: Path) -> None:
    """A link to the root of the tree, and one in a folder of its own with a conftest on the way."""
    (project / "deep/er").mkdir(parents=True)
    (project / "deep/conftest.py").write_text("")
    (project / "deep/er/linked").symlink_to("../../real")
    assert ("deep/er/linked/test_it.py", "then = 1\n") == baseline_test(project, project / "deep/er/linked/test_it.py")
    with both_trees(project, "HEAD", [project / "deep/er/linked/test_it.py"]) as trees:
        assert (trees.baseline / "deep/conftest.py").is_file()
        assert (trees.baseline / "deep/er/linked").resolve() == trees.baseline.resolve() / "real"


def test_a_link_to_a_file_keeps_its_place(project: Path) -> None:
    (project / "test_link.py").symlink_to("real/test_it.py")
    assert ("test_link.py", "then = 1\n") == baseline_test(project, project / "test_link.py")


def test_a_root_that_is_a_link_is_no_link_of_the_tree(project: Path, tmp_path: Path) -> None:
    (project / "linked").symlink_to("real")
    commit(project)
    root = tmp_path / "elsewhere"
    root.symlink_to(project)
    assert ("linked/test_it.py", "then = 1\n") == baseline_test(project, root / "linked/test_it.py", root)
    assert ("real/test_it.py", "then = 1\n") == baseline_test(project, root / "real/test_it.py", root)


@pytest.mark.parametrize("kind", ["another link", "folder"])
def test_what_is_another_thing_in_the_baseline_is_refused(project: Path, kind: str) -> None:
    """The message says what is there, and the path to type."""
    (project / "other").mkdir()
    (project / "other/kept.py").write_text("")
    (project / "linked").symlink_to("other") if kind == "another link" else (project / "linked").mkdir()
    (project / ("linked/kept.py" if kind == "folder" else "more.py")).write_text("")
    commit(project)
    if kind == "folder":
        (project / "linked/kept.py").unlink()
        (project / "linked").rmdir()
    else:
        (project / "linked").unlink()
    (project / "linked").symlink_to("real")
    what = "is no link" if kind == "folder" else "leads to other"
    with pytest.raises(
        UsageProblem, match=rf"linked leads to real in your tree, and {what} .* as `pytest {project}/real`"
    ):
        baseline_test(project, project / "linked/test_it.py")


def test_a_link_out_of_the_tree_is_the_reason(project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (project / "out").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageProblem, match=rf"but in {tmp_path}/outside, to which a link leads: .* put the files"):
        place_in(project / "out/test_it.py", project)
