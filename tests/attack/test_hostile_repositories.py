"""Repositories that someone else has prepared: nothing in them is obeyed, waited for, or written through."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import fakes.records as fake
import filelock
import pytest
from fakes.repositories import commit, git, repository_with

from pytest_hwperf.checkout.overlay import candidate_ini, lay_over
from pytest_hwperf.checkout.revision import has_commit, resolve, revision_of, top_of
from pytest_hwperf.checkout.worktree import copy_of, worktree
from pytest_hwperf.host.files import read_file
from pytest_hwperf.records.errors import HwperfError, StoreError
from pytest_hwperf.stores.json_files import JsonStore

pytestmark = [
    pytest.mark.usefixtures("temporary"),
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX links, pipes and devices"),
]

LONGEST_S = 60.0  # nothing here takes a second; what waits for a pipe waits for ever


@pytest.fixture(autouse=True)
def _unending() -> Iterator[None]:
    """Fail what never ends instead of waiting for it."""

    def too_long(*_: object) -> None:
        pytest.fail(f"it has not ended in {LONGEST_S:g} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def monitor(tmp_path: Path) -> Path:
    """A program that leaves a trace when it is run."""
    program = tmp_path / "monitor"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/obeyed\n", encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.fixture
def bare_within(repository: Path, monitor: Path) -> Path:
    """A folder of a repository that looks like a bare repository with settings of its own."""
    folder = repository / "vendored"
    shutil.copytree(repository / ".git", folder)
    (folder / "tree").mkdir()
    settings = f'[core]\nrepositoryformatversion = 0\nbare = false\nworktree = tree\nfsmonitor = "{monitor}"\n'
    (folder / "config").write_text(settings, encoding="utf-8")
    return folder


def ask_everything(folder: Path) -> None:
    """Ask git everything that a run asks; errors are an answer too."""
    with_trees: list[Callable[[], AbstractContextManager[Path]]] = [
        lambda: worktree(folder, "HEAD"),
        lambda: copy_of(folder),
    ]
    for ask in (lambda: revision_of(folder), lambda: top_of(folder), lambda: resolve(folder, "HEAD")):
        try:
            ask()
        except HwperfError:
            continue
    has_commit(folder, "0" * 40)
    for make in with_trees:
        try:
            with make():
                pass
        except HwperfError:
            continue


def test_a_bare_repository_within_another_is_not_obeyed(bare_within: Path, tmp_path: Path) -> None:
    ask_everything(bare_within)
    assert not (tmp_path / "obeyed").exists()
    subprocess.run(["git", "-C", str(bare_within), "status"], capture_output=True, check=True)
    assert (tmp_path / "obeyed").exists()  # else the monitor would prove nothing


def test_a_monitor_of_the_file_system_is_not_run(repository: Path, monitor: Path, tmp_path: Path) -> None:
    git(repository, "config", "core.fsmonitor", str(monitor))
    ask_everything(repository)
    assert not (tmp_path / "obeyed").exists()


def test_a_work_tree_of_a_bare_repository_serves(repository: Path, tmp_path: Path) -> None:
    """Many keep their repositories so; only what looks like one inside of another tree is suspicious."""
    git(tmp_path, "clone", "--bare", str(repository), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "--detach", str(tmp_path / "work"))
    assert revision_of(tmp_path / "work").commit == git(repository, "rev-parse", "HEAD")
    with worktree(tmp_path / "work", "HEAD") as tree:
        assert (tree / "model.py").exists()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_pipe(path: Path) -> None:
    os.mkfifo(path.parent.parent / "pipe")
    path.symlink_to(path.parent.parent / "pipe")


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


ODD = [pipe, link_to_pipe, link_to_device, endless]


def places(tmp_path: Path) -> Iterator[tuple[Callable[[Path], None], Path]]:
    """Yield what makes an odd file, with a folder of its own each."""
    for number, make in enumerate(ODD):
        (tmp_path / str(number)).mkdir()
        yield make, tmp_path / str(number)


@pytest.mark.parametrize("name", ["pytest.ini", "pyproject.toml", "tox.ini"])
def test_a_configuration_file_that_is_none_is_not_waited_for(tmp_path: Path, name: str) -> None:
    for make, place in places(tmp_path):
        (place / "candidate").mkdir()
        (place / "candidate" / "setup.cfg").write_text("[tool:pytest]\n", encoding="utf-8")
        (place / "baseline").mkdir()
        make(place / "baseline" / name)
        arguments = candidate_ini(place / "candidate" / "setup.cfg", place / "candidate", place / "baseline")
        assert "pythonpath=" == arguments[-1]


def test_a_module_that_is_none_is_not_waited_for(tmp_path: Path) -> None:
    for make, place in places(tmp_path):
        for side in ("candidate", "baseline"):
            (place / side / "pkg").mkdir(parents=True)
        test = place / "candidate" / "pkg" / "test_a.py"
        test.touch()
        make(place / "candidate" / "pkg" / "__init__.py")
        assert ["pkg/test_a.py"] == lay_over(place / "candidate", place / "baseline", [test])


def test_a_copied_folder_with_odd_files_is_copied(tmp_path: Path) -> None:
    """Pipes stay behind; links lead where they led."""
    for make, place in places(tmp_path):
        if make is endless:
            continue
        (place / "plain").mkdir()
        (place / "plain" / "model.py").touch()
        make(place / "plain" / "odd")
        with copy_of(place / "plain") as tree:
            assert (tree / "model.py").exists()


def test_what_is_no_file_is_refused_without_being_opened(tmp_path: Path) -> None:
    for make, place in places(tmp_path):
        (place / "folder").mkdir()
        make(place / "folder" / "odd")
        with pytest.raises(OSError, match=r"not a regular file|larger than 0\.001 MB"):
            read_file(place / "folder" / "odd", 1000)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder of a store in a repository that is not the user's own."""
    folder = tmp_path / "repository" / ".hwperf"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's that is none of the store's."""
    file = tmp_path / "victim"
    file.write_text("years of work", encoding="utf-8")
    return file


class FollowingLock:
    """The lock of filelock before version 3.20.1."""

    def __init__(self, path: Path, **_: Any) -> None:
        self._path = path

    def __enter__(self) -> None:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))

    def __exit__(self, *_: object) -> None:
        pass


def saved(store: Path) -> None:
    JsonStore(store).check("main", writing=True)
    JsonStore(store).save("main", [fake.session()])


@pytest.mark.parametrize("target", ["a file", "nothing"])
def test_a_lock_file_that_is_a_link_is_refused(
    store: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setattr(filelock, "FileLock", FollowingLock)
    if target == "nothing":
        victim.unlink()
    (store / ".lock").symlink_to(victim)
    with pytest.raises(StoreError, match=r"\.lock is a link, or no file: remove it"):
        saved(store)
    assert (target == "nothing") == (not victim.exists())
    assert target == "nothing" or "years of work" == victim.read_text(encoding="utf-8")


def test_an_ignore_file_that_is_a_link_to_nowhere_is_not_written_through(store: Path, tmp_path: Path) -> None:
    (store / ".gitignore").symlink_to(tmp_path / "authorized_keys")
    saved(store)
    assert not (tmp_path / "authorized_keys").exists()


def test_nothing_is_swept_through_a_link(tmp_path: Path) -> None:
    for number, link in enumerate(["main", "main/machine", ".held", ".held/main"]):
        place = tmp_path / str(number)
        store, elsewhere = place / "repository" / ".hwperf", place / "elsewhere"
        for folder in (elsewhere / "machine", elsewhere / "main" / "machine"):
            folder.mkdir(parents=True)
        kept = [folder / ".mine.json.1.tmp" for folder in (elsewhere, *elsewhere.rglob("machine"))]
        for file in kept:
            file.write_text("years of work", encoding="utf-8")
        (store / link).parent.mkdir(parents=True, exist_ok=True)
        (store / link).symlink_to(elsewhere)
        with suppress(StoreError):
            JsonStore(store).check("main", writing=True)
        assert sorted(kept) == sorted(elsewhere.rglob("*.tmp"))


def test_a_repository_whose_tests_lead_elsewhere_is_not_written_through(tmp_path: Path) -> None:
    """The baseline's folder of tests is a link; the candidate's tests must not land where it leads."""
    (tmp_path / "elsewhere").mkdir()
    repository = repository_with(tmp_path / "project", model__py="old")
    (repository / "tests").symlink_to(tmp_path / "elsewhere")
    commit(repository)
    old = git(repository, "rev-parse", "HEAD")
    (repository / "tests").unlink()
    (repository / "tests").mkdir()
    (repository / "tests" / "test_a.py").touch()

    with worktree(repository, old) as tree, pytest.raises(HwperfError, match="a link that leads out of its tree"):
        lay_over(repository, tree, [repository / "tests" / "test_a.py"])
    assert [] == list((tmp_path / "elsewhere").iterdir())
