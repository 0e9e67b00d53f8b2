"""Copies of a folder of the user's, submodules of a work tree, and what either lacks."""

import os
import shutil
from pathlib import Path

import pytest
from fakes.repositories import commit, git, repository_with

from pytest_hwperf.checkout.worktree import copy_of, fill_submodules, lfs_pointers, worktree
from pytest_hwperf.records.errors import UsageProblem, WorkerError

pytestmark = [
    pytest.mark.usefixtures("temporary"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


def test_pointers_of_git_lfs_are_found(repository: Path) -> None:
    (repository / "models").mkdir()
    (repository / "models" / "big.onnx").write_text(POINTER)
    (repository / "small.onnx").write_text(POINTER)
    (repository / "about.md").write_text(f"See {POINTER}")
    (repository / "long.onnx").write_text(POINTER + " " * 1024)
    (repository / "link.onnx").symlink_to("small.onnx")
    (repository / ".git" / "pointer").write_text(POINTER)
    assert lfs_pointers(repository) == ["models/big.onnx", "small.onnx"]


def copied(directory: Path) -> set[str]:
    with copy_of(directory) as tree:
        return {str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir() or path.is_symlink()}


def test_a_copy_holds_what_git_knows_or_would_add(repository: Path, temporary: Path) -> None:
    commit(repository, __gitignore="*.log\n")
    (repository / "trained.log").write_text("ignored")
    (repository / "untracked.py").write_text("new")
    (repository / "model.py").write_text("changed")
    (repository / "model.py").chmod(0o755)

    with copy_of(repository) as tree:
        assert tree.name == "project"
        assert (tree / "model.py").read_text() == "changed"
        assert os.access(tree / "model.py", os.X_OK)
        (tree / "model.py").write_text("written by a test")
    assert copied(repository) == {".gitignore", "model.py", "untracked.py"}
    assert (repository / "model.py").read_text() == "changed"
    assert not list(temporary.iterdir())


def test_a_copy_skips_files_that_were_deleted_and_follows_submodules_that_are_filled(with_submodule: Path) -> None:
    (with_submodule / "model.py").unlink()
    repository_with(with_submodule / "within", c="1")
    assert copied(with_submodule) == {".gitmodules", "vendored/weights", "within/c"}
    git(with_submodule, "submodule", "deinit", "--force", "vendored")
    assert copied(with_submodule) == {".gitmodules", "within/c"}
    shutil.rmtree(with_submodule / "within")
    why = "your tree has not filled it either: git submodule update --init vendored"
    assert ([f"{MISSING}{why}"], {}) == filled(with_submodule)  # though its clone may be there


def test_a_copy_of_a_folder_that_git_ignores_is_whole(repository: Path) -> None:
    commit(repository, __gitignore="old\n")
    (repository / "old" / "pkg").mkdir(parents=True)
    (repository / "old" / "pkg" / "a.py").write_text("1")
    assert copied(repository / "old") == {"pkg/a.py"}


def test_without_git_all_but_caches_and_environments_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "plain"
    kept = ["a.py", "pkg/b.py", "pkg/data/c.npz", ".hidden", "hwperf-base-mine/a.py"]
    skipped = [
        ".git",  # the file of a work tree whose repository is not here
        "pkg/__pycache__/b.pyc",
        "node_modules/x.js",
        ".tox/py311/x",
        "env/pyvenv.cfg",
        "env/lib/x.py",
        "conda/conda-meta/history",
    ]
    for name in kept + skipped:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    assert copied(source) == set(kept)


def test_links_within_a_copied_folder_stay_in_the_copy_and_others_do_not(tmp_path: Path) -> None:
    """Written through, a link back would change the user's own file."""
    source = tmp_path / "plain"
    source.mkdir()
    for file in (source / "real.py", tmp_path / "shared.npz"):
        file.write_text("1")
    for number, target in enumerate((f"{source}/real.py", "real.py", "../plain/real.py")):
        (source / f"link{number}.py").symlink_to(target)
    (source / "link.npz").symlink_to("../shared.npz")
    with copy_of(source) as tree:
        assert {tree / "real.py"} == {(tree / f"link{number}.py").resolve() for number in range(3)}
        assert (tree / "link.npz").resolve() == tmp_path / "shared.npz"


def test_what_is_no_folder_is_not_copied(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageProblem, match="nowhere is not a folder: give the folder of the baseline"),
        copy_of(tmp_path / "nowhere"),
    ):
        pytest.fail("there is nothing to copy")


def test_a_file_that_cannot_be_copied_is_an_error(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a").write_text("")
    monkeypatch.setattr(shutil, "copy2", full)

    with (
        pytest.raises(WorkerError, match=r"plain cannot be copied for the baseline: .*No space left"),
        copy_of(tmp_path / "plain"),
    ):
        pytest.fail("nothing could be copied")
    assert not list(temporary.iterdir())


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


def test_each_revision_has_its_own_commit_of_a_submodule_and_of_those_in_it(
    with_submodule: Path, tmp_path: Path
) -> None:
    git(with_submodule / "vendored", "submodule", "add", str(repository_with(tmp_path / "deep", weights="3")), "deep")
    commit(with_submodule / "vendored", weights="2")
    commit(with_submodule)
    assert ([], {"weights": "1"}) == filled(with_submodule, "HEAD~1")
    assert ([], {"weights": "2", "deep/weights": "3"}) == filled(with_submodule)


def test_a_submodule_that_the_candidate_has_moved_or_removed_is_filled_for_the_baseline(with_submodule: Path) -> None:
    for revision, how in (("HEAD~1", ("mv", "vendored", "third")), ("HEAD~2", ("rm", "-f", "third"))):
        git(with_submodule, *how)
        commit(with_submodule)
        assert ([], {"weights": "1"}) == filled(with_submodule, revision)


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
