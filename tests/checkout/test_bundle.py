"""A project travels as a bundle of git: what lies in the work tree lies on the other machine, on the same commit."""

from pathlib import Path

import pytest
from fakes.repositories import commit, git, repository_with

from pytest_hwperf.checkout.bundle import Bundle, pack, unpack
from pytest_hwperf.checkout.revision import revision_of
from pytest_hwperf.records.errors import UsageProblem, WorkerError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository_with(tmp_path / "project", a__py="1", b__py="2", __gitignore="*.bin\n")


def travelled(root: Path, tmp_path: Path, commits: tuple[str, ...] = ()) -> tuple[Bundle, Path]:
    place, target = tmp_path / "place", tmp_path / "there"
    place.mkdir()
    packed = pack(root, commits, place)
    unpack(packed.file, packed.candidate, packed.snapshot, target)
    return packed, target


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_changes_and_new_files_travel_and_stay_changes_and_the_repository_is_only_read(
    root: Path, tmp_path: Path
) -> None:
    (root / "a.py").write_text("changed", encoding="utf-8")
    (root / "b.py").unlink()
    (root / "new.py").write_text("new", encoding="utf-8")
    (root / "data.bin").write_bytes(b"ignored")
    before, kept = git(root, "status", "--porcelain"), contents(root / ".git")
    packed, target = travelled(root, tmp_path)
    assert packed.candidate == git(root, "rev-parse", "HEAD") != packed.snapshot
    assert kept == contents(root / ".git")
    assert before == git(target, "status", "--porcelain")
    assert ("changed", "new") == tuple((target / name).read_text(encoding="utf-8") for name in ("a.py", "new.py"))
    assert not (target / "b.py").exists()
    assert not (target / "data.bin").exists()
    assert (packed.candidate, True) == revision_of(target)[:2]


def test_a_clean_tree_is_its_commit_and_the_baseline_comes_along(root: Path, tmp_path: Path) -> None:
    base = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-b", "other")
    commit(root, a__py="3")
    elsewhere = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "main")
    packed, target = travelled(root, tmp_path, (base, elsewhere))
    assert packed.candidate == packed.snapshot == base
    assert (base, False) == revision_of(target)[:2]
    assert "3" == git(target, "show", f"{elsewhere}:a.py")


def test_what_has_no_whole_history_cannot_travel(root: Path, tmp_path: Path) -> None:
    commit(root, a__py="3")
    git(tmp_path, "clone", "--depth=1", f"file://{root}", "shallow")
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    with pytest.raises(UsageProblem, match=r"is a shallow clone.*--unshallow"):
        pack(tmp_path / "shallow", (), tmp_path)
    with pytest.raises(UsageProblem, match="has no commit to send to hosts"):
        pack(tmp_path / "empty", (), tmp_path)
    with pytest.raises(UsageProblem, match="cannot be used as a git repository"):
        pack(tmp_path, (), tmp_path)


def test_a_damaged_bundle_is_an_error_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "project.bundle").write_bytes(b"no bundle")
    with pytest.raises(WorkerError, match=r"cannot be packed or unpacked by git"):
        unpack(tmp_path / "project.bundle", "a" * 40, "a" * 40, tmp_path / "there")
