"""Temporary places: one holder each, whatever another run does at the same moment."""

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_hwperf.host import workdirs
from pytest_hwperf.host.workdirs import folder_of_process, leftovers, private_folder, remove_tree, workdir
from pytest_hwperf.records.errors import WorkerError

fcntl = pytest.importorskip("fcntl")


def swept() -> dict[str, str]:
    return {folder.name: note for folder, note in leftovers()}


def left_over(note: str = "") -> Path:
    """Leave a folder behind, as a killed run does."""
    folder, lock = workdirs._new(note)
    (folder / "tree").mkdir()
    assert lock is not None
    os.close(lock)
    return folder


@pytest.fixture
def private(temporary: Path) -> Path:
    assert not list(temporary.iterdir())
    return private_folder()


def test_a_place_is_nobodys_leftover_while_it_is_held_and_goes_with_what_is_in_it(
    temporary: Path, tmp_path: Path
) -> None:
    """What a link leads to is not ours."""
    (tmp_path / "elsewhere").mkdir()
    with workdir("a note") as folder:
        (folder / "tree").mkdir()
        (folder / "tree/link").symlink_to(tmp_path / "elsewhere")
        assert folder.parent.parent == temporary
        assert {} == swept()
        assert (folder / "tree").exists()
    assert not list(temporary.iterdir())
    assert (tmp_path / "elsewhere").exists()


def test_the_next_folder_clears_those_without_a_note_away(temporary: Path) -> None:
    """Those with one have more to be removed than the folder: who asks for notes does it."""
    without, noted = left_over(), left_over("of /some/repository")
    with workdir():
        assert not without.exists()
        assert noted.exists()
    assert 0o700 == noted.parent.stat().st_mode & 0o777
    assert {noted.name: "of /some/repository"} == swept()
    assert not list(temporary.iterdir())


def test_a_leftover_goes_even_if_its_user_fails(temporary: Path) -> None:
    left_over("a note")
    sweep = leftovers()
    next(sweep)
    with pytest.raises(RuntimeError):
        sweep.throw(RuntimeError)  # type: ignore[attr-defined]
    assert not list(temporary.glob("*/*"))


def test_a_folder_of_this_process_goes_when_it_ends(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, whatever other runs do; and not when a fork of it ends."""
    ends: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", lambda end, *given: ends.append(partial(end, *given)))
    folder = folder_of_process()
    with workdir():
        pass
    assert ({}, True) == (swept(), folder.is_dir())

    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        ends[0]()
    assert folder.is_dir()

    ends[0]()
    assert not list(temporary.iterdir())


def test_what_no_run_has_signed_is_never_removed(temporary: Path, private: Path) -> None:
    """Whatever its name, and wherever it lies; a copy of a folder of ours is none of ours."""
    for place in (temporary, private):
        for number, lock in enumerate((None, "", "mine", f"{workdirs._SIGNATURE}: hwperf-base-another\n")):
            folder = place / f"hwperf-base-{number}"
            folder.mkdir(mode=0o700)
            (folder / "thesis.txt").write_text("years of work")
            if lock is not None:
                (folder / ".lock").write_text(lock)
    before = sorted(temporary.rglob("*"))
    with workdir():
        pass
    assert {} == swept()
    assert before == sorted(temporary.rglob("*"))


def test_a_folder_whose_run_was_killed_before_it_could_sign_goes(temporary: Path, private: Path) -> None:
    """It was made, or locked already."""
    for name in ("made", "locked"):
        (private / f"hwperf-base-{name}").mkdir(mode=0o700)
    (private / "hwperf-base-locked/.lock").touch()
    assert {} == swept()
    assert not list(temporary.iterdir())


def test_what_cannot_be_removed_is_tried_again(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its signature is removed last."""
    folder = left_over()
    with monkeypatch.context() as patched:
        patched.setattr(workdirs, "remove_tree", lambda _: None)
        assert [folder.name] == list(swept())
    assert folder.parent == private
    assert [folder.name] == list(swept())
    assert not folder.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("kind", ["link", "file", "open to others", "of another user"])
def test_a_folder_of_all_that_is_not_ours_is_refused(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Another user knows its name and may have made it first."""
    place = temporary / f"hwperf-{os.getuid()}"
    if kind == "link":
        (tmp_path / "victim").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "victim")
    elif kind == "file":
        place.touch()
    else:
        place.mkdir(mode=0o700)
        (place / "hwperf-base-1").mkdir(mode=0o700)
    if kind == "open to others":
        place.chmod(0o770)
    if kind == "of another user":
        monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
        place = place.rename(temporary / f"hwperf-{os.getuid()}")

    with pytest.raises(WorkerError, match=r"is not a folder of this user that is closed to all others \(mode 700\)"):
        workdir().__enter__()
    assert {} == swept()
    assert not (tmp_path / "victim").exists() or not list((tmp_path / "victim").iterdir())


def test_a_folder_of_all_that_another_run_removes_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run removes it when it is empty."""
    made = tempfile.mkdtemp
    attempts: list[Any] = []

    def too_late(**options: Any) -> str:
        attempts.append(options["dir"])
        if len(attempts) == 1:
            options["dir"].rmdir()
        return str(made(**options))

    monkeypatch.setattr(tempfile, "mkdtemp", too_late)
    with workdir() as folder:
        assert folder.is_dir()
    assert 2 == len(attempts)
    assert not list(temporary.iterdir())


def test_a_folder_of_all_that_is_removed_while_it_is_looked_at_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = Path.mkdir, list[Path]()

    def removed_at_once(path: Path, mode: int = 0o777) -> None:
        make(path, mode)
        made.append(path)
        if len(made) == 1:
            path.rmdir()
        else:
            raise FileExistsError(path)  # another run was quicker

    monkeypatch.setattr(Path, "mkdir", removed_at_once)
    assert private_folder().is_dir()
    assert [temporary / made[0].name] * 2 == made


@pytest.mark.parametrize("at", ["locked by another", "removed by another"])
def test_a_place_that_another_run_takes_for_a_leftover_is_left_to_it(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Between making a folder and locking it, it looks like one that a killed run has left."""
    made: list[str] = []
    rivals: list[int] = []

    def contended(**options: Any) -> str:
        made.append(tempfile._mkdtemp(**options))  # type: ignore[attr-defined]
        if len(made) == 1 and at == "locked by another":
            rivals.append(os.open(Path(made[0], ".lock"), os.O_RDWR | os.O_CREAT))
            fcntl.flock(rivals[0], fcntl.LOCK_EX)
        elif len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "_mkdtemp", tempfile.mkdtemp, raising=False)
    monkeypatch.setattr(tempfile, "mkdtemp", contended)
    with workdir() as folder:
        assert 2 == len(made)
        assert folder == Path(made[1])
        assert folder.is_dir()
    for rival in rivals:
        os.close(rival)
    assert temporary.exists()


def test_a_lock_of_a_folder_that_was_just_removed_counts_nothing(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder would share the place with whoever makes the lock again."""
    taken = fcntl.flock

    def removed_meanwhile(lock: int, how: int) -> None:
        (private / ".lock").unlink()
        (private / ".lock").touch()
        taken(lock, how)

    (private / ".lock").touch()
    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    assert workdirs._lock(private) is None
    monkeypatch.setattr(fcntl, "flock", taken)
    lock = workdirs._lock(private)
    assert lock is not None
    os.close(lock)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_lock_that_is_no_file_is_left_alone(private: Path, tmp_path: Path) -> None:
    folders = {kind: private / f"hwperf-base-{kind}" for kind in ("dangling", "signed", "pipe", "folder")}
    for folder in folders.values():
        folder.mkdir(mode=0o700)
        (folder / "kept").touch()
    for kind in ("dangling", "signed"):
        (folders[kind] / ".lock").symlink_to(tmp_path / kind)
    (tmp_path / "signed").write_bytes(workdirs._signed(folders["signed"], ""))
    os.mkfifo(folders["pipe"] / ".lock")
    (folders["folder"] / ".lock").mkdir()
    assert {} == swept()
    assert all((folder / "kept").exists() for folder in folders.values())
    assert ["signed"] == [kind for kind in ("dangling", "signed") if (tmp_path / kind).exists()]


@pytest.mark.usefixtures("temporary")
def test_what_lies_in_a_folder_of_a_run_goes_with_it_whatever_tmpdir_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with workdir() as folder:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert workdirs.goes_with_a_run(folder / "cand" / "models")
    assert not workdirs.goes_with_a_run(tmp_path / "models")


def test_a_write_protected_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests leave such folders behind; a first attempt fails unless it is made by root."""
    attempts: list[Path] = []
    remove = shutil.rmtree

    def by_a_common_user(folder: Path, *, ignore_errors: bool) -> None:
        attempts.append(folder)
        if (tmp_path / "tree" / "closed").stat().st_mode & 0o200:
            remove(folder, ignore_errors=ignore_errors)

    (tmp_path / "tree" / "closed").mkdir(parents=True)
    (tmp_path / "tree" / "closed" / "file").touch()
    (tmp_path / "tree" / "closed").chmod(0o500)
    monkeypatch.setattr(shutil, "rmtree", by_a_common_user)

    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    assert 2 == len(attempts)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("at", ["mkdtemp", "body", "rmdir"])
def test_a_signal_at_any_moment_leaves_no_folder(temporary: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """While the folder is made, while it is used, while it is removed."""
    number = signal.SIGTERM

    def signalled(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            done = function(*arguments, **options)
            os.kill(os.getpid(), number)
            return done

        return call

    before = signal.signal(number, signal.SIG_DFL)
    monkeypatch.setattr(tempfile, "mkdtemp", signalled(tempfile.mkdtemp) if at == "mkdtemp" else tempfile.mkdtemp)
    monkeypatch.setattr(workdirs, "_remove", signalled(workdirs._remove) if at == "rmdir" else workdirs._remove)

    def use() -> None:
        with workdir() as folder:
            (folder / "tree").mkdir()
            if at == "body":
                os.kill(os.getpid(), number)

    try:
        with pytest.raises(KeyboardInterrupt):
            use()
    finally:
        signal.signal(number, before)
    assert not list(temporary.iterdir())
