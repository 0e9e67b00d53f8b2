"""Two branches have saved runs of one test: git merges their files, and what it leaves can be read or is refused."""

import re
import subprocess
from pathlib import Path

import pytest
from fakes import records as fake
from fakes.repositories import git, repository_with

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.run import StoredRun, replace
from pytest_hwperf.stores.json_files import JsonStore

_COMMAND = re.compile(r"`([^`]+)`")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository whose name needs quotes in a shell; its baseline has one run."""
    folder = repository_with(tmp_path / "it's a project")
    save(folder, at(0))
    return folder


def at(minute: int, revision: str = "aaaaaaa") -> StoredRun:
    made = fake.session(median_s=1.0 + minute, revision=revision)
    return replace(made, run=replace(made.run, started_at=f"2026-11-02T10:{minute:02}:00.000+00:00"))


def save(project: Path, *runs: StoredRun) -> None:
    """Save runs and commit the folder."""
    assert all(isinstance(answer, str) for answer in store_of(project).save("main", runs))
    git(project, "add", ".")
    git(project, "commit", "-m", "saved")


def accept(project: Path, run: StoredRun) -> None:
    """Accept a failed run as the new normal, and commit the folder."""
    store_of(project).hold("main", [run])
    assert (fake.TEST,) == store_of(project).accept("main", "*")
    git(project, "add", ".")
    git(project, "commit", "-m", "accepted")


def store_of(project: Path) -> JsonStore:
    return JsonStore(project / ".hwperf")


def loaded(project: Path) -> tuple[StoredRun, ...]:
    return store_of(project).load("main", fake.machine(), fake.TEST, "")


def two_branches(project: Path) -> None:
    """Let the branches `left` and `right` each save one more run; `right` is checked out."""
    git(project, "checkout", "-b", "left")
    save(project, at(2))
    git(project, "checkout", "-b", "right", "main")
    save(project, at(1))


def try_git(project: Path, *arguments: str) -> int:
    """Run git, which may end with a conflict."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(project), *arguments]
    return subprocess.run(command, check=False, capture_output=True).returncode


JOINS = {
    "merge": [["merge", "--no-edit", "left"]],
    "rebase": [["rebase", "left"]],
    "cherry-pick": [["cherry-pick", "left"]],
    "stash": [["checkout", "left"], ["reset", "--soft", "main"], ["stash"], ["checkout", "right"], ["stash", "pop"]],
}


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_git_joins_the_runs_of_two_branches_by_itself(project: Path, join: list[list[str]]) -> None:
    """Each run is there once, the oldest first; what is saved next is signed by one heading."""
    two_branches(project)
    assert [0] * len(join) == [try_git(project, *arguments) for arguments in join]
    assert (at(0), at(1), at(2)) == loaded(project)
    save(project, at(3))
    assert (at(0), at(1), at(2), at(3)) == loaded(project)
    (file,) = project.glob(".hwperf/main/*/*.jsonl")
    assert 1 == file.read_text().count("pytest-hwperf baseline")


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_runs_between_conflict_marks_are_read(project: Path, join: list[list[str]]) -> None:
    """The user has taken git's attributes away, or git does not read them where it merges."""
    (project / ".hwperf/.gitattributes").write_text("")
    git(project, "commit", "-am", "no attributes")
    two_branches(project)
    assert [0] * (len(join) - 1) == [try_git(project, *arguments) for arguments in join[:-1]]
    assert try_git(project, *join[-1])
    assert "<<<<<<< " in next(project.glob(".hwperf/main/*/*.jsonl")).read_text()
    assert (at(0), at(1), at(2)) == loaded(project)


def test_branches_that_dropped_the_oldest_runs_are_joined(project: Path) -> None:
    """Both branches have dropped the oldest runs; the next one that saves drops those beyond twenty."""
    save(project, *map(at, range(1, 19)))
    git(project, "checkout", "-b", "left")
    save(project, at(30), at(31), at(32))
    git(project, "checkout", "-b", "right", "main")
    save(project, at(20), at(21), at(22), at(23))
    assert 0 == try_git(project, "merge", "--no-edit", "left")
    minutes = [*range(2, 19), 20, 21, 22, 23, 30, 31, 32]
    assert tuple(map(at, minutes)) == loaded(project)
    save(project, at(33))
    assert tuple(map(at, [*minutes, 33][-20:])) == loaded(project)


@pytest.mark.parametrize("kept", ["right", "left"])
def test_a_new_normal_is_not_mixed_with_the_old_one(project: Path, kept: str) -> None:
    """The merge is refused with both names; the commands for the side to keep work as they are printed."""
    (project / ".hwperf/.gitattributes").write_text("")
    git(project, "commit", "-am", "no attributes")
    git(project, "checkout", "-b", "left")
    accept(project, at(2, "bbbbbbb"))
    git(project, "checkout", "-b", "right", "main")
    save(project, at(1))
    assert try_git(project, "merge", "left")
    with pytest.raises(StoreError, match=r"a new normal was accepted .* HEAD and left") as refused:
        loaded(project)
    ours, theirs, add = _COMMAND.findall(str(refused.value))
    for command in (ours if kept == "right" else theirs, add):
        subprocess.run(["bash", "-c", command], cwd="/", check=True, capture_output=True)
    git(project, "commit", "-m", "merged")
    assert {"right": (at(0), at(1)), "left": (at(2, "bbbbbbb"),)}[kept] == loaded(project)


def test_a_new_normal_that_git_has_mixed_with_the_old_one_is_refused(project: Path) -> None:
    """No mark is left to name the branches: the revisions are named, and the remedy needs no unfinished merge."""
    git(project, "checkout", "-b", "left")
    accept(project, at(2, "bbbbbbb"))
    git(project, "checkout", "-b", "right", "main")
    save(project, at(1))
    assert 0 == try_git(project, "merge", "--no-edit", "left")
    with pytest.raises(StoreError, match=r"saved at (aaaaaaa|bbbbbbb) and at (aaaaaaa|bbbbbbb),") as refused:
        loaded(project)
    (remove,) = _COMMAND.findall(str(refused.value))
    subprocess.run(["bash", "-c", remove], cwd="/", check=True)
    save(project, at(5))
    assert (at(5),) == loaded(project)


@pytest.mark.parametrize("lost", [0, 1, 2, 3, 4])
def test_a_merged_file_that_lost_a_line_is_refused(project: Path, lost: int) -> None:
    """Whichever line is missing, a heading or a run: the rest is no baseline."""
    two_branches(project)
    assert 0 == try_git(project, "merge", "--no-edit", "left")
    (file,) = project.glob(".hwperf/main/*/*.jsonl")
    lines = dict.fromkeys(file.read_text().splitlines())
    file.write_text("\n".join(line for number, line in enumerate(lines) if number != lost))
    with pytest.raises(StoreError, match=r"half merged|no run|not whole JSON|holds no pytest-hwperf baseline"):
        loaded(project)


def test_a_damaged_file_is_restored_in_an_unfinished_merge(project: Path) -> None:
    """Git refuses `git checkout -- FILE` of an unmerged file; the printed command works there and elsewhere."""
    (project / ".hwperf/.gitattributes").write_text("")
    git(project, "commit", "-am", "no attributes")
    two_branches(project)
    assert try_git(project, "merge", "left")
    (file,) = project.glob(".hwperf/main/*/*.jsonl")
    file.write_text(file.read_text()[:200].removeprefix("<<<<<<< HEAD\n"))
    with pytest.raises(StoreError, match="restore it with") as refused:
        loaded(project)
    (restore,) = _COMMAND.findall(str(refused.value))
    subprocess.run(["bash", "-c", restore], cwd="/", check=True, capture_output=True)
    assert (at(0), at(1)) == loaded(project)


def test_a_file_of_an_earlier_version_is_read(project: Path) -> None:
    """Its heading holds one digest of all lines."""
    import hashlib
    import json

    (file,) = project.glob(".hwperf/main/*/*.jsonl")
    heading, *lines = file.read_bytes().splitlines()
    plain = json.loads(heading) | {"digest": hashlib.sha256(b"\n".join(lines)).hexdigest()}
    file.write_bytes(b"\n".join([json.dumps(plain).encode(), *lines]))
    assert (at(0),) == loaded(project)
