"""A temporary tree of the baseline: a git work tree of its revision, or a copy of a folder."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from pytest_hwperf.checkout.git import git
from pytest_hwperf.checkout.revision import in_repository
from pytest_hwperf.host.files import read_file, read_text
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.workdirs import leftovers, private_folder, remove_tree, workdir
from pytest_hwperf.records.errors import UsageProblem, WorkerError
from pytest_hwperf.records.evidence import COMMIT_DIGITS
from pytest_hwperf.records.text import shell_word

_NOT_COPIED = frozenset({".git", "__pycache__", "node_modules", ".tox", ".nox"})
_POINTER = b"version https://git-lfs"
_LONGEST_POINTER = 1024  # bytes, by git-lfs' specification
_LONGEST_PATH = 1 << 16  # bytes
_PARTIAL = ("config", "--get-regexp", r"^remote\..*\.promisor$")  # fails where the clone is whole
_WHOLE_CLONE = "hwperf asks no host for what a partial clone lacks; get it with `git fetch --refetch --no-filter`"
_CHECKOUT_S = 900.0  # large files are copied while checking out
_MARK = "made-by-pytest-hwperf"  # file in what a repository keeps of a work tree of ours; its text is the folder
_LINK = "160000"  # mode of a submodule in the index
_SUBMODULE_S = 300.0
_LONGEST_RUN_S = 86400.0  # a folder that is not here may be used in another container with the same repository


@contextmanager
def worktree(repository: Path, commit: str) -> Iterator[Path]:
    """Check `commit` out into a temporary work tree, detached; it is gone afterwards.

    What killed runs have left is removed first; work trees of others are never touched. The folder is called like
    that of `repository`, since a package may take its name from it.
    """
    shared = in_repository(repository, git(repository, "rev-parse", "--git-common-dir"))
    common = Path(repository, shared).resolve()
    _sweep()
    _forget_vanished(common)
    with workdir(note=str(common)) as folder:
        tree = folder / (repository.resolve().name or "tree")
        try:
            done = git(repository, "worktree", "add", "--detach", "--", str(tree), commit, timeout_s=_CHECKOUT_S)
            if done.code:
                remedy = "" if git(repository, *_PARTIAL).code else f": {_WHOLE_CLONE}"
                raise WorkerError(f"git cannot check out {commit} for the baseline: {done.complaint}{remedy}")
            kept = git(tree, "rev-parse", "--absolute-git-dir")
            if not kept.code:  # nothing without this mark of ours is ever taken for abandoned
                Path(kept.output, _MARK).write_text(str(folder), encoding="utf-8", errors="surrogateescape")
            yield tree
        finally:
            with uninterrupted():
                git(repository, "worktree", "remove", "--force", "--force", str(tree))
                # Where git was killed half-way, or the test has removed the folder, this does what is left to do.
                _forget(common, folder)


@contextmanager
def copy_of(directory: Path) -> Iterator[Path]:
    """Copy a folder of the user's to a temporary one, so that no test can write to it; it is gone afterwards.

    Copied are the files that git knows or would add; without git all but caches and virtual environments.
    """
    if not directory.is_dir():
        raise UsageProblem(f"{directory} is not a folder: give the folder of the baseline, or a git revision")
    _sweep()
    source = directory.resolve()
    with workdir() as folder:
        tree = folder / (source.name or "tree")
        tree.mkdir()
        try:
            for path in files_of(source):
                target = tree / path.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.is_symlink():  # never back into the user's folder
                    real = path.resolve()
                    target.symlink_to(tree / real.relative_to(source) if real.is_relative_to(source) else real)
                else:
                    shutil.copy2(path, target)
        except OSError as error:
            raise WorkerError(f"{directory} cannot be copied for the baseline: {error}") from error
        yield tree


def walk(folder: Path, *, hidden: bool = True, whole: bool = False) -> Iterator[Path]:
    """Yield the files and links of a tree, through no link; `whole` with those of environments and caches in it."""
    for top, folders, names in os.walk(folder):
        places = [Path(top, name) for name in folders if hidden or not name.startswith(".")]
        links = [place for place in places if place.is_symlink()]
        plain = (place for place in places if place not in links and place.name != ".git")
        folders[:] = [place.name for place in plain if whole or not is_environment(place)]
        yield from (*(Path(top, name) for name in names), *links)


def lfs_pointers(tree: Path) -> list[str]:
    """Return the files of which only a git-LFS pointer is there, relative to `tree`, sorted."""
    return sorted(path.relative_to(tree).as_posix() for path in walk(tree, whole=True) if is_lfs_pointer(path))


def follow_links_out(tree: Path, candidate: Path) -> list[str]:
    """Let links that lead out of a temporary tree lead where they do in the candidate's; return them, sorted.

    A relative one would lead to another place, since the temporary tree lies elsewhere.
    """
    found, here = [], os.path.realpath(tree)
    for path in walk(tree, whole=True):
        if not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(here):
            continue
        place = path.relative_to(tree)
        target = Path(os.path.realpath(candidate / place.parent / path.readlink()))
        if target.exists() and not target.is_relative_to(candidate):
            path.unlink()
            path.symlink_to(target)
            found.append(f"{place.as_posix()} (to {target})")
    return sorted(found)


def is_lfs_pointer(path: Path) -> bool:
    """Whether the file only says where git-LFS keeps its content."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LONGEST_POINTER:
            return False
        with path.open("rb") as file:
            return file.readline().startswith(_POINTER)
    except OSError:  # unreadable: what needs it reports that
        return False


def is_environment(folder: Path) -> bool:
    """Whether it is an environment of venv or conda, or what no tree needs: caches and the repository's own files."""
    return folder.name in _NOT_COPIED or (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()


def _sweep() -> None:
    """Remove what killed runs have left, in whichever repository."""
    for folder, common in leftovers():
        _forget(common, folder)


def _forget(common: Path | str, folder: Path) -> None:
    """Remove from a repository, "" for none, what it keeps about the work tree in `folder`, which is one of ours."""
    for kept in Path(common).glob("worktrees/*") if common else ():
        if _folder_of(kept) == folder:
            remove_tree(kept)


def _forget_vanished(common: Path) -> None:
    """Remove from a repository what it keeps about work trees of ours whose folders have been gone for long.

    `git worktree prune` would also forget other people's work trees, on a disk that is not mounted just now.
    """
    for kept in common.glob("worktrees/*"):
        folder = _folder_of(kept)
        if folder is None or folder.exists() or read_text(kept / _MARK) != str(folder):
            continue
        if time.time() - (kept / _MARK).stat().st_mtime >= _LONGEST_RUN_S:
            remove_tree(kept)


def _folder_of(kept: Path) -> Path | None:
    """Return the folder around the work tree that an entry of a repository is about; None where it is damaged."""
    try:
        named = os.fsdecode(read_file(kept / "gitdir", _LONGEST_PATH)).strip()
        return Path(os.path.realpath(kept / named)).parents[1]
    except (OSError, ValueError, IndexError):
        return None


def files_of(folder: Path) -> Iterator[Path]:
    """Yield files and links: those of git where it knows any, else all but caches and environments."""
    listed = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = dict.fromkeys(filter(None, listed.output.split("\0"))) if not listed.code else {}
    temporary = private_folder()  # it holds the copy itself, and those of other runs
    # A folder that its repository ignores has no files by git's account.
    for path in [folder / name for name in names] or sorted(folder.iterdir()):
        if path == folder or is_environment(path) or path.is_relative_to(temporary):
            continue
        if path.is_symlink() or path.is_file():
            yield path
        elif path.is_dir():  # a submodule, a repository within, or no git at all
            yield from files_of(path)


def fill_submodules(candidate: Path, tree: Path) -> list[str]:
    """Fill the submodules of a work tree of the user's repository; return what is missing, [] where nothing is.

    `git submodule update` would register them in the user's `.git/config` and fetch what the clone lacks.
    """
    missing = [f"{path}: {why}" for path, why in _filled(candidate, tree, PurePosixPath())]
    return [f"submodules of the baseline are missing: {'; '.join(missing)}"] if missing else []


def _filled(candidate: Path, tree: Path, within: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    """Fill one level, and in each submodule the next; yield the submodules that stay empty, and why."""
    entries = (entry.partition("\t") for entry in git(tree, "ls-files", "-z", "--stage").output.split("\0"))
    links = {path: about.split()[1] for about, _, path in entries if about.startswith(_LINK)}  # path → commit
    names, now = (_names(tree), _names(candidate)) if links else ({}, {})
    for path, commit in links.items():
        name = names.get(path, path)
        here = next((one for one, its in now.items() if its == name), path)
        at = f"-C {shell_word(str(within))} " if within.parts else ""
        objects = _objects(candidate, here, name, is_gone=name not in now.values())
        if objects is None:
            remedy = f"git {at}submodule update --init {shell_word(here)}"
            yield within / path, f"your tree has not filled it either: {remedy}"
        elif why := _fill(objects, tree / path, commit):
            yield within / path, f"{why}: git -C {shell_word(str(within / here))} fetch --all"
        else:
            yield from _filled(candidate / here, tree / path, within / path)


def _fill(objects: Path, place: Path, commit: str) -> str:
    """Check a commit out of the objects of another repository; return why it cannot be, "" where it can."""
    done = git(place.parent, "init", "--quiet", "--template=", str(place))
    if not done.code:
        info = place / ".git" / "objects" / "info"
        (info / "alternates").write_text(f"{objects}\n", encoding="utf-8", errors="surrogateescape")
        done = git(place, "checkout", "--quiet", "--detach", commit, timeout_s=_SUBMODULE_S)
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


def _names(tree: Path) -> dict[str, str]:
    """Return path → name of the submodules that a work tree describes."""
    listed = git(tree, "config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$")
    entries = (entry.partition("\n") for entry in listed.output.split("\0") if entry)
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, _, path in entries}
