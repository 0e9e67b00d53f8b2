"""Temporary places: one holder each, whatever another run does at the same moment."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_hwperf.host import workdirs
from pytest_hwperf.host.workdirs import leftovers, remove_tree, workdir

fcntl = pytest.importorskip("fcntl")


def swept() -> dict[str, str]:
    return {folder.name: note for folder, note in leftovers()}


def test_a_place_is_nobodys_leftover_while_it_is_held(temporary: Path) -> None:
    with workdir("a note") as folder:
        (folder / "tree").mkdir()
        assert folder.parent == temporary
        assert {} == swept()
        assert (folder / "tree").exists()

    assert not list(temporary.iterdir())


def test_files_and_links_in_a_place_go_with_it(temporary: Path, tmp_path: Path) -> None:
    """The rows of a comparison are a file there; what a link leads to is not ours."""
    (tmp_path / "elsewhere").mkdir()
    with workdir() as folder:
        (folder / "data.npz").write_bytes(b"rows")
        (folder / "link").symlink_to(tmp_path / "elsewhere")

    assert not list(temporary.iterdir())
    assert (tmp_path / "elsewhere").exists()


def test_a_leftover_is_given_with_its_note_and_removed(temporary: Path) -> None:
    folder = temporary / "hwperf-base-1"
    (folder / "tree").mkdir(parents=True)
    (folder / ".lock").write_text("of /some/repository")

    assert {"hwperf-base-1": "of /some/repository"} == swept()
    assert not list(temporary.iterdir())


def test_a_leftover_goes_even_if_its_user_fails(temporary: Path) -> None:
    (temporary / "hwperf-base-1").mkdir()
    sweep = leftovers()
    next(sweep)
    with pytest.raises(RuntimeError):
        sweep.throw(RuntimeError)  # type: ignore[attr-defined]

    assert not list(temporary.iterdir())


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
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder would share the place with whoever makes the lock anew."""
    taken = fcntl.flock

    def removed_meanwhile(lock: int, how: int) -> None:
        (temporary / ".lock").unlink()
        (temporary / ".lock").touch()
        taken(lock, how)

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)

    assert workdirs._lock(temporary) is None
    monkeypatch.setattr(fcntl, "flock", taken)
    lock = workdirs._lock(temporary)
    assert lock is not None
    os.close(lock)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_lock_that_is_a_link_is_not_followed(temporary: Path) -> None:
    (temporary / "hwperf-base-1").mkdir()
    (temporary / "hwperf-base-1" / ".lock").symlink_to(temporary / "victim")

    assert {} == swept()
    assert not (temporary / "victim").exists()


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
