"""The commits between two revisions, as git tells them: which follow from which, and what is said of one."""

from pathlib import Path
from typing import NamedTuple

from pytest_hwperf.core.culprits import Commit, History
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.trees.git import git
from pytest_hwperf.trees.revision import in_repository, resolve

_MOST = 20_000  # commits: each remembers which others it contains
_LISTED_S = 300.0
_DATE = len("2026-11-02")


class Described(NamedTuple):
    """What is said of a commit."""

    commit: str
    date: str  # of its author, ISO 8601
    author: str
    subject: str


def ends(folder: Path, good: str, bad: str) -> tuple[str, str]:
    """Return the commits of both ends: where GOOD is not in the history of BAD, their last common commit is GOOD."""
    bad_commit = resolve(folder, bad)
    return resolve(folder, f"{resolve(folder, good)}...{bad_commit}"), bad_commit


def history_between(folder: Path, good: str, bad: str, *, first_parent: bool) -> History:
    """Return the commits that BAD contains and GOOD does not, the oldest first."""
    options = ["--first-parent"] if first_parent else []
    listed = git(
        folder, "rev-list", "--topo-order", "--reverse", "--parents", *options, bad, f"^{good}", timeout_s=_LISTED_S
    )
    lines = [line.split() for line in in_repository(folder, listed).splitlines()]
    if not lines:
        raise UsageProblem(f"{bad[:10]} has no commit that {good[:10]} does not have: give the older one first")
    if len(lines) > _MOST:
        raise UsageProblem(f"{len(lines)} commits lie between both: {_MOST} are the most; give --first-parent, or ends")
    parents = 1 if first_parent else None
    return History(tuple(Commit(name=name, parents=tuple(before[:parents])) for name, *before in lines))


def describe(folder: Path | str, commit: str) -> Described:
    """Return what git says of a commit."""
    shown = git(folder, "show", "--no-patch", "--no-show-signature", "--format=%aI%x00%an%x00%s", commit, "--")
    date, author, subject = (*shown.output.split("\0"), "", "", "")[:3]
    return Described(commit, date, author, subject)


def date_of(folder: Path | str, commit: str) -> str:
    """Return when its author made a commit, YYYY-MM-DD; "" for no commit."""
    return describe(folder, commit).date[:_DATE] if commit else ""


def private_git_folder(folder: Path) -> Path:
    """Return the folder in which git keeps what belongs to this work tree alone."""
    return Path(in_repository(folder, git(folder, "rev-parse", "--absolute-git-dir")))
