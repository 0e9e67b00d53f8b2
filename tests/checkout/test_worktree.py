"""Temporary work trees: what they hold, and that none outlives its run."""

import os
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest
from fakes.repositories import commit, git, repository_with

from pytest_hwperf.checkout import worktree as worktree_module
from pytest_hwperf.checkout.git import git as run_git
from pytest_hwperf.checkout.revision import resolve, revision_of, top_of
from pytest_hwperf.checkout.worktree import copy_of, follow_links_out, lfs_pointers, worktree
from pytest_hwperf.host.workdirs import private_folder
from pytest_hwperf.records.errors import WorkerError

pytestmark = [
    pytest.mark.usefixtures("temporary"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

HOLD = """
import sys, time
from pathlib import Path
from pytest_hwperf.checkout.worktree import worktree
with worktree(Path(sys.argv[1]), sys.argv[2]) as tree:
    print(tree, flush=True)
    time.sleep(60)
"""


def worktrees(repository: Path) -> list[str]:
    lines = git(repository, "worktree", "list", "--porcelain").splitlines()
    return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]


def holding(repository: Path, sha: str) -> tuple["subprocess.Popen[str]", Path]:
    """Start a process that holds a work tree; return it and the tree."""
    command = [sys.executable, "-c", HOLD, str(repository), sha]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def test_a_worktree_holds_the_commit_and_is_gone_afterwards(repository: Path, temporary: Path) -> None:
    old = git(repository, "rev-parse", "HEAD")
    commit(repository, model__py="new")
    (repository / "model.py").write_text("not committed")

    with worktree(repository, old) as tree:
        assert (tree / "model.py").read_text() == "old"
        assert tree.name == "project"  # a package may take its name from it
        assert tree == tree.resolve()
        assert temporary in tree.parents
    assert not list(temporary.iterdir())
    assert [str(repository)] == worktrees(repository)
    assert (repository / "model.py").read_text() == "not committed"


def test_a_worktree_is_gone_after_any_end(repository: Path, temporary: Path) -> None:
    def fail() -> None:
        with worktree(repository, "HEAD") as tree:
            (tree / "untracked").write_text("left by a test")
            (tree / "closed").mkdir()
            (tree / "closed" / "file").write_text("")
            (tree / "closed").chmod(0o500)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not list(temporary.iterdir())
    assert [str(repository)] == worktrees(repository)


def test_a_worktree_that_a_test_removed_leaves_nothing(repository: Path, temporary: Path) -> None:
    with worktree(repository, "HEAD") as tree:
        shutil.rmtree(tree.parent)
    assert not list(temporary.iterdir())
    assert [str(repository)] == worktrees(repository)


def test_a_git_that_cannot_remove_it_leaves_nothing(
    repository: Path, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\ncase "$*" in *"worktree remove"*) exit 1;; esac\nexec {shutil.which("git")} "$@"\n')
    fake.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
        with worktree(repository, "HEAD"):
            pass
    assert not list(temporary.iterdir())
    assert [str(repository)] == worktrees(repository)


def test_a_commit_that_cannot_be_checked_out_is_an_error(repository: Path, temporary: Path) -> None:
    with (
        pytest.raises(WorkerError, match=r"git cannot check out 0000.* for the baseline: fatal: "),
        worktree(repository, "0" * 40),
    ):
        pytest.fail("there is no such commit")
    assert not list(temporary.iterdir())


def test_what_a_killed_run_has_left_goes_at_the_next_start(repository: Path, temporary: Path) -> None:
    process, left = holding(repository, "HEAD")
    kill(process)
    assert (left / "model.py").exists()
    with worktree(repository, "HEAD") as tree:
        assert not left.parent.exists()
        assert worktrees(repository) == [str(repository), str(tree)]
    assert not list(temporary.iterdir())


def test_what_was_left_for_another_repository_goes_too(repository: Path, tmp_path: Path) -> None:
    """Whichever project is next removes it, its entry in the other repository included."""
    other = repository_with(tmp_path / "other", a="1")
    process, left = holding(other, "HEAD")
    kill(process)
    with copy_of(repository):
        pass
    assert not left.exists()
    assert [str(other)] == worktrees(other)


def test_a_run_that_lives_or_is_stopped_keeps_its_worktree(repository: Path) -> None:
    process, held = holding(repository, "HEAD")
    try:
        for number in (signal.SIGCONT, signal.SIGSTOP):
            process.send_signal(number)
            with worktree(repository, "HEAD") as tree:
                assert (held / "model.py").exists()
                assert {str(held), str(tree)} < set(worktrees(repository))
    finally:
        kill(process)


def test_worktrees_of_others_are_never_pruned(repository: Path, tmp_path: Path) -> None:
    """Not even one whose folder is away just now, as on a disk that is not mounted: git keeps its branch and index."""
    theirs = tmp_path / "disk" / "hwperf-base-mine/work"
    git(repository, "worktree", "add", "--detach", str(theirs))
    (tmp_path / "disk").rename(tmp_path / "away")
    os.utime(repository / ".git" / "worktrees" / theirs.name / "gitdir", (0, 0))
    with worktree(repository, "HEAD"):
        pass
    assert worktrees(repository) == [str(repository), str(theirs)]


def test_an_entry_whose_place_has_vanished_goes_after_a_day(repository: Path) -> None:
    """Earlier it may be that of a run in another container, with a temporary folder of its own."""
    process, left = holding(repository, "HEAD")
    kill(process)
    shutil.rmtree(left.parent)  # as a restart of the machine does
    with worktree(repository, "HEAD"):
        assert str(left) in worktrees(repository)
    (mark,) = (repository / ".git" / "worktrees").glob(f"*/{worktree_module._MARK}")
    os.utime(mark, (0, 0))
    with worktree(repository, "HEAD"):
        assert str(left) not in worktrees(repository)


def test_what_is_of_the_users_is_kept_whatever_its_name(repository: Path, temporary: Path) -> None:
    """A work tree with uncommitted files, and a folder that is compared with, under names that look like ours."""
    places = [folder / "hwperf-base-mine" for folder in (private_folder(), temporary)]
    for place in places:
        place.mkdir(mode=0o700)
        (place / "thesis.txt").write_text("years of work")
    work = places[0] / "work"
    git(repository, "worktree", "add", str(work))
    (work / "thesis.txt").write_text("years of work")

    with worktree(repository, "HEAD"), copy_of(places[1]) as tree:
        assert "years of work" == (tree / "thesis.txt").read_text()
    assert ["years of work"] * 3 == [(place / "thesis.txt").read_text() for place in (*places, work)]
    assert [str(repository), str(work)] == worktrees(repository)


def test_a_temporary_folder_within_a_copied_one_is_not_copied(temporary: Path) -> None:
    """Else the copy would hold itself, and what other runs are at."""
    (temporary / "model.py").write_text("old")
    with copy_of(temporary) as tree:
        assert ["model.py"] == [path.name for path in tree.iterdir()]


def test_hooks_do_not_run(repository: Path, tmp_path: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    with worktree(repository, "HEAD") as tree:
        assert (tree / "model.py").exists()
    assert not (tmp_path / "ran").exists()
    git(repository, "worktree", "add", "--detach", str(tmp_path / "by hand"))
    assert (tmp_path / "ran").exists()  # else the hook would prove nothing


def test_the_environment_of_a_hook_leads_nowhere(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pre-commit, GIT_DIR and GIT_INDEX_FILE name the repository that is committed to."""
    other = repository_with(tmp_path / "other", b="1")
    head = git(repository, "rev-parse", "HEAD")
    before = (other / ".git" / "index").read_bytes()
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert resolve(repository, "main") == head
    assert revision_of(repository).commit == head
    assert top_of(repository) == repository.resolve()
    with worktree(repository, head) as tree:
        assert ["model.py"] == [path.name for path in tree.iterdir() if path.name != ".git"]
    assert (other / ".git" / "index").read_bytes() == before
    assert not (other / ".git" / "worktrees").exists()


def test_a_silent_git_is_ended(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nsleep 60 &\nwait\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    assert "no answer within 0.2 s" == run_git(repository, "status", timeout_s=0.2).complaint


def test_an_interrupted_git_is_ended(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not get the Ctrl-C of the terminal by itself: it has none, so that it cannot ask for a password."""
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid.part\nmv {tmp_path}/pid.part {tmp_path}/pid\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")

    def interrupt(_: int, frame: FrameType | None) -> None:
        waiting = {one.f_code.co_name for one, _ in traceback.walk_stack(frame)}  # and no more in `Popen.__init__`
        if "communicate" in waiting and (tmp_path / "pid").exists():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            top_of(repository)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # discards one that waits for another thread of this process
        signal.signal(signal.SIGALRM, before)

    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_partial_clone_is_not_completed_from_its_host(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    old = git(repository, "rev-parse", "HEAD")
    commit(repository, model__py="new")
    git(tmp_path, "clone", "--filter=blob:none", f"file://{repository}", "partial")
    git(tmp_path / "partial", "config", "remote.origin.url", "ssh://git@private.example/models.git")
    git(tmp_path / "partial", "config", "--unset", "remote.origin.partialclonefilter")
    settings = (tmp_path / "partial/.git/config").read_bytes()
    with (
        pytest.raises(WorkerError, match=r"hwperf asks no host for .* `git fetch --refetch --no-filter`"),
        worktree(tmp_path / "partial", old),
    ):
        pytest.fail("a file of the commit is not here")
    assert settings == (tmp_path / "partial/.git/config").read_bytes()

    git(tmp_path / "partial", "config", "remote.origin.url", f"file://{repository}")
    git(tmp_path / "partial", "config", "remote.origin.uploadpack", f"touch {tmp_path}/obeyed; git-upload-pack")
    with pytest.raises(WorkerError, match="hwperf asks no host for"), worktree(tmp_path / "partial", old):
        pytest.fail("a program that the repository names was run")
    assert not (tmp_path / "obeyed").exists()

    git(tmp_path / "partial", "fetch", "--refetch", "--no-filter")
    with worktree(tmp_path / "partial", old) as tree:
        assert "old" == (tree / "model.py").read_text()


def test_git_lfs_leaves_pointers_of_what_it_would_download(repository: Path, tmp_path: Path) -> None:
    """A stand-in for git-LFS, which downloads unless this variable is set."""
    pointer, asked = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", tmp_path / "asked"
    git(repository, "config", "filter.lfs.smudge", f"test -n \"$GIT_LFS_SKIP_SMUDGE\" || touch '{asked}'; cat")
    old = commit(repository, __gitattributes="*.bin filter=lfs\n", large__bin=pointer)
    with worktree(repository, old) as tree:
        assert ["large.bin"] == lfs_pointers(tree)
    assert not asked.exists()


def test_links_out_of_the_tree_lead_where_the_candidates_do(repository: Path) -> None:
    (repository.parent / "shared").mkdir()
    (repository.parent / "shared" / "data").write_text("1")
    (repository / "sub").mkdir()
    (repository / "sub" / "out").symlink_to("../../shared")
    (repository / "absolute").symlink_to(repository.parent / "shared")
    for name, target in {"within": "model.py", "nowhere": "../none", "loop": "loop"}.items():
        (repository / name).symlink_to(target)
    commit(repository)

    with worktree(repository, "HEAD") as tree:
        to = f"(to {repository.parent / 'shared'})"
        assert [f"absolute {to}", f"sub/out {to}"] == follow_links_out(tree, repository)
        assert ["1", "1"] == [(tree / name / "data").read_text() for name in ("sub/out", "absolute")]
        assert ["model.py", "../none"] == [str((tree / name).readlink()) for name in ("within", "nowhere")]


def test_without_locks_trees_are_made_and_nothing_is_swept(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.host.workdirs.sys", SimpleNamespace(platform="win32"))
    (private_folder() / "hwperf-base-of-another-run").mkdir(mode=0o700)
    with worktree(repository, "HEAD") as tree, copy_of(repository) as copy:
        assert (tree / "model.py").exists()
        assert (copy / "model.py").exists()
    assert ["hwperf-base-of-another-run"] == [path.name for path in private_folder().iterdir()]
