"""Submodules of a temporary tree, filled from the user's own clones of them: no host is asked, nothing registered."""

import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pytest_hwperf.core.evidence import COMMIT_DIGITS
from pytest_hwperf.host.workdirs import remove_tree
from pytest_hwperf.trees.git import git

_LINK = "160000"  # mode of a submodule in the index
_LONGEST_S = 300.0


def fill_submodules(candidate: Path, tree: Path) -> list[str]:
    """Fill the submodules of a work tree of the user's repository; return what is missing, [] where nothing is.

    `git submodule update` would register them in the user's `.git/config` and fetch what the clone lacks.
    """
    missing = [f"{path}: {why}" for path, why in _filled(candidate, tree, PurePosixPath())]
    return [f"submodules of the baseline are missing: {'; '.join(missing)}"] if missing else []


def _filled(candidate: Path, tree: Path, within: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    """Fill one level, and in each submodule the next; yield the submodules that stay empty, and why."""
    links = dict(_links(tree))
    names, now = (_names(tree), _names(candidate)) if links else ({}, {})
    for path, commit in links.items():
        name = names.get(path, path)
        here = next((one for one, its in now.items() if its == name), path)
        at = f"-C {shlex.quote(str(within))} " if within.parts else ""
        objects = _objects(candidate, here, name, is_gone=name not in now.values())
        if objects is None:
            yield (
                within / path,
                f"your tree has not filled it either: git {at}submodule update --init {shlex.quote(here)}",
            )
        elif why := _fill(objects, tree / path, commit):
            yield within / path, f"{why}: git -C {shlex.quote(str(within / here))} fetch --all"
        else:
            yield from _filled(candidate / here, tree / path, within / path)


def _fill(objects: Path, place: Path, commit: str) -> str:
    """Check a commit out of the objects of another repository; return why it cannot be, "" where it can."""
    done = git(place.parent, "init", "--quiet", "--template=", str(place))
    if not done.code:
        info = place / ".git" / "objects" / "info"
        (info / "alternates").write_text(f"{objects}\n", encoding="utf-8", errors="surrogateescape")
        done = git(place, "checkout", "--quiet", "--detach", commit, timeout_s=_LONGEST_S)
    if not done.code:
        return ""
    remove_tree(place / ".git")
    return f"your clone of it lacks something of commit {commit[:COMMIT_DIGITS]} ({done.complaint})"


def _objects(candidate: Path, path: str, name: str, *, is_gone: bool) -> Path | None:
    """Return the objects of the user's clone of a submodule: of one that the candidate has removed, what git keeps."""
    if (candidate / path / ".git").exists():
        found = git(candidate / path, "--git-dir=.git", "rev-parse", "--path-format=absolute", "--git-path", "objects")
        return None if found.code else Path(found.output)
    if not is_gone or ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
        return None  # a name is text of the repository, and may lead anywhere
    kept = git(candidate, "rev-parse", "--path-format=absolute", "--git-path", f"modules/{name}/objects")
    return Path(kept.output) if not kept.code and Path(kept.output).is_dir() else None


def _links(tree: Path) -> Iterator[tuple[str, str]]:
    """Yield path and commit of each submodule of a work tree."""
    for entry in git(tree, "ls-files", "-z", "--stage").output.split("\0"):
        about, _, path = entry.partition("\t")
        if about.startswith(_LINK):
            yield path, about.split()[1]


def _names(tree: Path) -> dict[str, str]:
    """Return path → name of the submodules that a work tree describes."""
    listed = git(tree, "config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
    entries = (entry.partition("\n") for entry in listed.output.split("\0") if entry)
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, _, path in entries}
