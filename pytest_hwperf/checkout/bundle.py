"""A project as one bundle of git, to be unpacked on another machine; the user's repository is only read."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.checkout.git import GitResult, git
from pytest_hwperf.checkout.revision import in_repository, revision_of
from pytest_hwperf.records.errors import UsageProblem, WorkerError

_LONGEST_S = 600.0  # of one command on a large repository
_REFS = "refs/heads/hwperf"
_AUTHOR = ("-c", "user.name=pytest-hwperf", "-c", "user.email=pytest-hwperf@localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle, and what of it is to be checked out."""

    file: Path
    candidate: str  # commit
    snapshot: str  # commit of the files as they lie there; the candidate's where nothing differs


def pack(root: Path, commits: tuple[str, ...], place: Path) -> Bundle:
    """Write the present commit, the files as they are and other commits into a bundle."""
    head = _head(root)
    own = ("--git-dir", str(place / "repository"), "--work-tree", str(root))
    _done(git(place, "init", "--quiet", "--bare", str(place / "repository")))
    _borrow(root, place / "repository")
    _done(git(root, *own, "add", "--all", "--", ".", timeout_s=_LONGEST_S))
    tree = _done(git(root, *own, "write-tree"))
    snapshot = head
    if tree != _done(git(root, "rev-parse", f"{head}^{{tree}}")):
        text = "the files as they lie there"
        snapshot = _done(git(root, *own, *_AUTHOR, "commit-tree", tree, "-p", head, "-m", text))
    for number, commit in enumerate(dict.fromkeys((head, snapshot, *commits))):
        _done(git(root, *own, "update-ref", f"{_REFS}/{number}", commit))
    file = place / "project.bundle"
    _done(git(root, *own, "bundle", "create", "--quiet", str(file), "--all", timeout_s=_LONGEST_S))
    return Bundle(file=file, candidate=head, snapshot=snapshot)


def _head(root: Path) -> str:
    if in_repository(root, git(root, "rev-parse", "--is-shallow-repository")) == "true":
        raise UsageProblem(
            f"{root} is a shallow clone, of which no bundle can be made: get its history with `git fetch --unshallow`, "
            "or check out with `fetch-depth: 0`"
        )
    head = revision_of(root)
    if not head.commit:
        raise UsageProblem(f"{root} has no commit to send to hosts{f': {head.refused}' if head.refused else ''}")
    return head.commit


def unpack(bundle: Path, candidate: str, snapshot: str, target: Path) -> None:
    """Check the files of a bundle out as they lay there: on the same commit, with the same changes to it."""
    clone = ("clone", "--quiet", "--no-checkout", str(bundle), str(target))
    _done(git(bundle.parent, *clone, timeout_s=_LONGEST_S, protocol="file"))
    _done(git(target, "checkout", "--quiet", "--detach", candidate, timeout_s=_LONGEST_S))
    if snapshot != candidate:
        _done(git(target, "read-tree", "--reset", "-u", snapshot, timeout_s=_LONGEST_S))
        _done(git(target, "reset", "--quiet", candidate))  # what git did not know here, it does not know there


def _borrow(root: Path, own: Path) -> None:
    """Let a repository of ours see the objects of the user's, with its index, which says what has not changed."""
    paths = {
        name: Path(_done(git(root, "rev-parse", "--path-format=absolute", "--git-path", name)))
        for name in ("objects", "index", "info/exclude")
    }
    (own / "objects" / "info" / "alternates").write_text(f"{paths['objects']}\n", encoding="utf-8")
    (own / "info").mkdir(exist_ok=True)
    for name in ("index", "info/exclude"):
        with suppress(FileNotFoundError):
            shutil.copyfile(paths[name], own / name)


def _done(result: GitResult) -> str:
    if result.code:
        raise WorkerError(f"the project cannot be packed or unpacked by git: {result.complaint}")
    return result.output
