"""Submodules of a temporary tree: whose clone they are filled from, and what is said of those that stay empty."""

import shutil
from pathlib import Path

import pytest
from fakes.repositories import commit, git, repository_with

from pytest_hwperf.checkout.worktree import fill_submodules, worktree

pytestmark = [
    pytest.mark.usefixtures("temporary"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]
MISSING = "submodules of the baseline are missing: vendored: "


def filled(project: Path, revision: str = "HEAD") -> tuple[list[str], dict[str, str]]:
    """Return what is said of the submodules of a revision, and the files of that called `vendored`."""
    settings = (project / ".git" / "config").read_bytes()
    with worktree(project, revision) as tree:
        said, place = fill_submodules(project, tree), tree / "vendored"
        files = {one.relative_to(place).as_posix(): one.read_text() for one in place.rglob("weights")}
    assert settings == (project / ".git" / "config").read_bytes()
    assert 1 == len(git(project, "worktree", "list").splitlines())
    return said, files


def test_each_revision_has_its_own_commit_of_a_submodule(with_submodule: Path) -> None:
    commit(with_submodule / "vendored", weights="2")
    commit(with_submodule)
    assert ([], {"weights": "1"}) == filled(with_submodule, "HEAD~1")
    assert ([], {"weights": "2"}) == filled(with_submodule)


@pytest.mark.parametrize("how", [("mv", "vendored", "third"), ("rm", "-f", "vendored")], ids=["moved", "removed"])
def test_a_submodule_that_the_candidate_has_moved_or_removed_is_filled_for_the_baseline(
    with_submodule: Path, how: tuple[str, ...]
) -> None:
    git(with_submodule, *how)
    commit(with_submodule)
    assert ([], {"weights": "1"}) == filled(with_submodule, "HEAD~1")


def test_submodules_of_submodules_are_filled(with_submodule: Path, tmp_path: Path) -> None:
    git(with_submodule / "vendored", "submodule", "add", str(repository_with(tmp_path / "deep", weights="3")), "deep")
    commit(with_submodule / "vendored")
    commit(with_submodule)
    assert ([], {"weights": "1", "deep/weights": "3"}) == filled(with_submodule)


def test_a_submodule_that_the_candidate_has_not_filled_stays_empty(with_submodule: Path) -> None:
    """Though its clone may be there."""
    git(with_submodule, "submodule", "deinit", "--force", "vendored")
    why = "your tree has not filled it either: git submodule update --init vendored"
    assert ([f"{MISSING}{why}"], {}) == filled(with_submodule)


def test_a_commit_that_the_clone_lacks_is_not_fetched(with_submodule: Path, tmp_path: Path) -> None:
    new = commit(tmp_path / "inner", weights="2")
    git(with_submodule, "update-index", "--cacheinfo", f"160000,{new},vendored")
    git(with_submodule, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-m", "newer")
    (said,), files = filled(with_submodule)
    assert said.startswith(f"{MISSING}your clone of it lacks something of commit {new[:10]} (fatal: ")
    assert said.endswith("): git -C vendored fetch --all")
    assert {} == files


def test_a_name_that_leads_out_of_the_repository_is_not_followed(with_submodule: Path, tmp_path: Path) -> None:
    """Names are text of the revision; what lies there may be anybody's."""
    settings = (with_submodule / ".gitmodules").read_text()
    commit(with_submodule, __gitmodules=settings.replace('"vendored"', '"../../inner/.git"'))
    assert (tmp_path / "inner" / ".git" / "objects").is_dir()
    git(with_submodule, "rm", "-f", "--cached", "vendored")
    commit(with_submodule, __gitmodules="", __gitignore="vendored\n")
    shutil.rmtree(with_submodule / "vendored")
    (said,), files = filled(with_submodule, "HEAD~1")
    assert said.startswith(MISSING)
    assert {} == files
