"""Revisions of a repository: which one a folder holds, and which one a name means."""

import difflib
import os
import re
from pathlib import Path
from typing import NamedTuple

from pytest_hwperf.checkout.git import GitResult, git
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.text import shell_word, shortened
from pytest_hwperf.stats.pairs.bisection import Commit, History

_LONGEST = 1000  # characters of a revision; the names of files and folders, as which git keeps it, end far below
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1, SHA-256
_ABBREVIATED = re.compile(r"[0-9a-f]{4,63}")
_EXPRESSION = re.compile(r"[~^:]|@\{")  # where the name in an expression ends
_PLACES = (
    "{}",
    "refs/{}",
    "refs/tags/{}",
    "refs/heads/{}",
    "refs/remotes/{}",
    "refs/remotes/{}/HEAD",
)  # in git's order
_MOST_OBJECTS = 20  # that begin with the same digits, and are looked at
_SINCE = "..."  # between two names: their last common commit
_NO_REPOSITORY, _NO_COMMIT = "not a git repository", "Needed a single revision"  # as git says it


class Revision(NamedTuple):
    """The code that a folder holds."""

    commit: str  # "" without git
    changed: bool = False  # whether files differ from it, or may
    refused: str = ""  # why git does not tell it although there is a repository, with git's own remedy


def revision_of(folder: Path | str) -> Revision:
    """Return the commit checked out in `folder`, and whether files differ from it."""
    head = git(folder, "rev-parse", "--verify", "HEAD")
    if _NO_COMMIT in head.complaint:
        return Revision("", refused="the repository has no commit yet; commit, then save again")
    if head.code:
        usual = head.is_absent or _NO_REPOSITORY in head.complaint
        return Revision("", refused="" if usual else head.complaint.removeprefix("fatal: "))
    changes = git(folder, "status", "--porcelain", "--untracked-files=no")
    refused = changes.complaint.removeprefix("fatal: ") if changes.code else ""
    return Revision(head.output, changed=bool(changes.output or refused), refused=refused)


def resolve(folder: Path, ref: str) -> str:
    """Return the commit that `ref` names in the repository of `folder`.

    `main...`, as in `git diff`, is where the present commit has left `main`, `main...other` where `other` has.
    """
    shallow = in_repository(folder, git(folder, "rev-parse", "--is-shallow-repository")) == "true"
    if not ref or ref.startswith("-") or ref == _SINCE:
        raise UsageProblem(f"{shortened(ref)} is no revision: give a branch, a tag or a commit, such as origin/main")
    if _SINCE not in ref or len(ref) > _LONGEST:
        return _resolve_one(folder, ref, shallow=shallow)
    names = [name or "HEAD" for name in ref.split(_SINCE, 1)]
    if names[1].startswith("-"):
        raise UsageProblem(f"{shortened(ref)}: {names[1]!r} is no revision: give a branch, a tag or a commit")
    commits = [_resolve_one(folder, name, shallow=shallow, with_history=True) for name in names]
    base = git(folder, "merge-base", *commits)
    if not base.code:
        return base.output
    if base.code != 1:  # git's answer that there is none
        raise UsageProblem(f"{ref!r}: {base.complaint}")
    if shallow:
        raise UsageProblem(
            f"{ref!r}: this shallow clone does not reach back to where {' and '.join(names)} part: get the history "
            "with `git fetch --unshallow`, or check out with `fetch-depth: 0`"
        )
    raise UsageProblem(f"{ref!r}: {' and '.join(names)} have no commit in common; give {names[0]} itself")


def _resolve_one(folder: Path, ref: str, *, shallow: bool, with_history: bool = False) -> str:
    if meanings := _meanings(folder, ref):
        raise UsageProblem(f"{ref!r} names more than one revision: type {' or '.join(meanings)}")
    if found := _commit_of(folder, ref):
        return found
    if len(ref) > _LONGEST:
        raise UsageProblem(
            f"{shortened(ref)} is no revision: a name has {_LONGEST} characters at most; give a branch, a tag or a "
            "commit, such as origin/main, or a folder"
        )
    if shallow:
        how = _fetched(ref, with_history=with_history)
        raise UsageProblem(f"{ref!r} is not in this shallow clone: {how}, or check out with `fetch-depth: 0`")
    listed = git(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes")
    names = [*(["HEAD"] if _commit_of(folder, "HEAD") else []), *listed.output.split()]
    if not names:
        raise UsageProblem(
            f"{ref!r} is no revision, since this repository has no commit yet: commit the code to compare with, or "
            "give a folder that holds it"
        )
    raise UsageProblem(f"{ref!r} is no revision of this repository{_near(ref, names)}")


def named_revision(folder: Path, ref: str) -> str:
    """Return what git takes `ref` for in the repository of `folder`, as nothing else is called: "" for no revision."""
    if ref.startswith("-") or not (commit := _commit_of(folder, ref)):
        return ""
    full = git(folder, "rev-parse", "--symbolic-full-name", ref).output
    return full if full.startswith("refs/") else commit


def _meanings(folder: Path, ref: str) -> list[str]:
    """Return what a name may mean, to be typed instead of it, where that is not one commit; [] where it is."""
    name = _EXPRESSION.split(ref, maxsplit=1)[0]
    if not name or name == "HEAD" or _COMMIT.fullmatch(name) or len(ref) > _LONGEST:
        return []
    rest, places = ref[len(name) :], [place.format(name) for place in _PLACES]
    listed = git(folder, "for-each-ref", "--format=%(refname)", *places).output.split()
    names = [place for place in places if place in listed]
    if name in names:  # a full name, which comes first
        return []
    if _ABBREVIATED.fullmatch(name):
        objects = git(folder, "rev-parse", f"--disambiguate={name}").output.split()
        names += [one for one in objects[:_MOST_OBJECTS] if has_commit(folder, one)]
    meanings = [f"{one}{rest}" for one in names]
    commits = {_commit_of(folder, one) for one in (ref, *meanings)}  # git also looks among its own files
    return meanings if len(commits - {""}) > 1 else []


def _commit_of(folder: Path, ref: str) -> str:
    if len(ref) > _LONGEST:
        return ""
    found = git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").output
    return found if _COMMIT.fullmatch(found) else ""


def has_commit(folder: Path, sha: str) -> bool:
    """Whether the repository of `folder` has that commit, given by its full hash."""
    return bool(_COMMIT.fullmatch(sha)) and not git(folder, "cat-file", "-e", f"{sha}^{{commit}}").code


def top_of(folder: Path) -> Path:
    """Return the root of the work tree that `folder` lies in, links resolved."""
    return Path(in_repository(folder, git(folder, "rev-parse", "--show-toplevel"))).resolve()


def in_repository(folder: Path, done: GitResult) -> str:
    """Return the output of a git command that fails only where there is no repository."""
    if not done.code:
        return done.output
    if done.is_absent:
        raise UsageProblem("git is not installed: install it, or give the folder of the baseline instead of a revision")
    what = done.complaint.removeprefix("fatal: ")
    if _NO_REPOSITORY in what and "GIT_DIR" in os.environ:
        raise UsageProblem(
            f"{folder} is in no git repository, and hwperf does not follow GIT_DIR, which hooks set for another one: "
            'let its root lead there with `echo "gitdir: $GIT_DIR" > .git`, or give the folder of the baseline instead '
            "of a revision"
        )
    raise UsageProblem(
        f"{folder} cannot be used as a git repository ({what}): start pytest inside one, "
        "or give the folder of the baseline instead of a revision"
    )


def _fetched(ref: str, *, with_history: bool) -> str:
    branch = ref.removeprefix("origin/")
    if with_history:
        there = f"{branch}:refs/remotes/origin/{branch}"
        return f"fetch it with `git fetch --unshallow origin {shell_word(there)}` and give origin/{branch}"
    if set(ref) & set("~^@:"):  # counted from another revision, which a server does not do
        return "get the history with `git fetch --unshallow`"
    return f"fetch it with `git fetch --depth=1 origin {shell_word(branch)}` and give FETCH_HEAD instead"


def _near(ref: str, names: list[str]) -> str:
    near = [name for name in names if name.endswith(f"/{ref}")]
    near += [name for name in difflib.get_close_matches(ref, names) if name not in near]
    if near:
        return f"; did you mean {' or '.join(map(repr, near[:3]))}?"
    return (
        "; see its branches and tags with `git branch --all` and `git tag`, or get them with `git fetch --all --tags`"
    )


_MOST = 20_000  # commits: each remembers which others it contains
_LISTED_S = 300.0
_DATE = len("2026-11-02")


class DescribedCommit(NamedTuple):
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


def describe(folder: Path | str, commit: str) -> DescribedCommit:
    """Return what git says of a commit."""
    shown = git(folder, "show", "--no-patch", "--no-show-signature", "--format=%aI%x00%an%x00%s", commit, "--")
    date, author, subject = (*shown.output.split("\0"), "", "", "")[:3]
    return DescribedCommit(commit, date, author, subject)


def date_of(folder: Path | str, commit: str) -> str:
    """Return when its author made a commit, YYYY-MM-DD; "" for no commit."""
    return describe(folder, commit).date[:_DATE] if commit else ""


def private_git_folder(folder: Path) -> Path:
    """Return the folder in which git keeps what belongs to this work tree alone."""
    return Path(in_repository(folder, git(folder, "rev-parse", "--absolute-git-dir")))
