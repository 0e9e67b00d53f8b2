"""Revisions of a repository: which one a folder holds, and which one a name means."""

import difflib
import re
from pathlib import Path
from typing import NamedTuple

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.trees.git import GitResult, git

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1, SHA-256
_NO_REVISION = ("not a git repository", "Needed a single revision")  # the second: no commit yet


class Revision(NamedTuple):
    """The code that a folder holds."""

    commit: str  # "" without git
    changed: bool = False  # whether files differ from it, or may
    refused: str = ""  # why git does not tell it although there is a repository, with git's own remedy


def revision_of(folder: Path | str) -> Revision:
    """Return the commit checked out in `folder`, and whether files differ from it."""
    head = git(folder, "rev-parse", "--verify", "HEAD")
    if head.code:
        usual = head.is_absent or any(text in head.complaint for text in _NO_REVISION)
        return Revision("", refused="" if usual else head.complaint.removeprefix("fatal: "))
    changes = git(folder, "status", "--porcelain", "--untracked-files=no")
    refused = changes.complaint.removeprefix("fatal: ") if changes.code else ""
    return Revision(head.output, changed=bool(changes.output or refused), refused=refused)


def resolve(folder: Path, ref: str) -> str:
    """Return the commit that `ref` names in the repository of `folder`.

    Raises:
        UsageProblem: no git, no repository, or no such revision; says what is near or how to fetch it.
    """
    shallow = in_repository(folder, git(folder, "rev-parse", "--is-shallow-repository"))
    if not ref or ref.startswith("-"):
        raise UsageProblem(f"{ref!r} is no revision: give a branch, a tag or a commit, such as origin/main")
    found = git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").output
    if _COMMIT.fullmatch(found):
        return found
    if shallow == "true":
        raise UsageProblem(f"{ref!r} is not in this shallow clone: {_fetched(ref)}, or check out with `fetch-depth: 0`")
    names = git(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes")
    raise UsageProblem(f"{ref!r} is no revision of this repository{_near(ref, ['HEAD', *names.output.split()])}")


def has_commit(folder: Path, sha: str) -> bool:
    """Whether the repository of `folder` has that commit, given by its full hash."""
    return bool(_COMMIT.fullmatch(sha)) and not git(folder, "cat-file", "-e", f"{sha}^{{commit}}").code


def top_of(folder: Path) -> Path:
    """Return the root of the work tree that `folder` lies in, links resolved.

    Raises:
        UsageProblem: no git, or no work tree.
    """
    return Path(in_repository(folder, git(folder, "rev-parse", "--show-toplevel"))).resolve()


def in_repository(folder: Path, done: GitResult) -> str:
    """Return the output of a git command that fails only where there is no repository."""
    if not done.code:
        return done.output
    if done.is_absent:
        raise UsageProblem("git is not installed: install it, or give the folder of the baseline instead of a revision")
    what = done.complaint.removeprefix("fatal: ")
    raise UsageProblem(
        f"{folder} cannot be used as a git repository ({what}): start pytest inside one, "
        "or give the folder of the baseline instead of a revision"
    )


def _fetched(ref: str) -> str:
    if set(ref) & set("~^@:"):  # counted from another revision, which a server does not do
        return "get the history with `git fetch --unshallow`"
    return f"fetch it with `git fetch --depth=1 origin {ref.removeprefix('origin/')}` and give FETCH_HEAD instead"


def _near(ref: str, names: list[str]) -> str:
    near = [name for name in names if name.endswith(f"/{ref}")]
    near += [name for name in difflib.get_close_matches(ref, names) if name not in near]
    if near:
        return f"; did you mean {' or '.join(map(repr, near[:3]))}?"
    return (
        "; see its branches and tags with `git branch --all` and `git tag`, or get them with `git fetch --all --tags`"
    )
