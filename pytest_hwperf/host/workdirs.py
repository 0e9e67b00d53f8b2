"""Temporary folders that no run leaves behind: in one private folder, locked while in use, removed by the next run."""

import atexit
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_hwperf.host.interruption import interruptible
from pytest_hwperf.records.errors import WorkerError

if sys.platform != "win32":  # where nothing is locked, and nothing that another run has left is ever removed
    import fcntl

PREFIX = "hwperf-base-"
_LOCK = ".lock"
_SIGNATURE = "pytest-hwperf has made this folder and removes it with all that is in it"
_TRIES = 1000  # of making a folder that other runs remove while it is empty
_LONGEST_NOTE = 1 << 16  # bytes; a path has 4096 at most


@contextmanager
def workdir(note: str = "") -> Iterator[Path]:
    """Make an empty folder; it is removed on exit, or by the next run if this one is killed.

    Whatever signal ends the run while it lasts, short of SIGKILL, raises KeyboardInterrupt.
    """
    with interruptible() as interruption:
        sweep()
        interruption.held += 1
        try:
            folder, lock = _new(note)
            try:
                interruption.release()
                yield folder
            finally:
                interruption.held += 1
                _give_back(folder, lock)
        finally:
            interruption.release()


def folder_of_process() -> Path:
    """Make an empty folder that lasts as long as this process; if it is killed, the next run removes the folder."""
    sweep()
    folder, lock = _new("")
    atexit.register(_end_of_process, os.getpid(), folder, lock)
    return folder


def private_folder() -> Path:
    """Return the private folder of this user that holds all temporary ones; it is made if needed."""
    place = _private_place()
    for _ in range(_TRIES):
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # another run has just removed it, since it was empty
            if _is_closed(place.lstat()):
                return place
            raise WorkerError(
                f"{place} is not a folder of this user that is closed to all others (mode 700), which temporary files "
                "need: remove it, or choose another temporary folder with TMPDIR"
            )
    raise WorkerError(f"{place} is gone as soon as it is made: choose another temporary folder with TMPDIR")


def goes_with_a_run(path: Path) -> bool:
    """Whether it lies in a temporary folder of a run, which removes it; a side of the gate has another TMPDIR."""
    real = path.resolve()
    return any(one.name.startswith(PREFIX) and (one / _LOCK).is_file() for one in (real, *real.parents))


def sweep() -> None:
    """Remove what killed runs have left, save that for which more is to be done than to remove it."""
    for _ in leftovers(noted=False):
        pass


def leftovers(*, noted: bool = True) -> Iterator[tuple[Path, str]]:
    """Yield each folder of a killed run with its note, and remove it afterwards.

    Only what a run has signed as its own is ever removed, and only if no live process holds it.
    """
    place = _private_place()
    if sys.platform == "win32":
        return
    folders = sorted(place.glob(f"{PREFIX}*")) if _is_private(place) else []
    for folder in folders:
        lock = _lock(folder) if _is_private(folder) else None
        if lock is None:
            continue
        try:
            is_plain = stat.S_ISREG(os.fstat(lock).st_mode)
            content, signature = os.pread(lock, _LONGEST_NOTE, 0) if is_plain else b"?", _signed(folder, "")
            note = os.fsdecode(content.removeprefix(signature))
            if not content and [*folder.glob("*")] == [folder / _LOCK]:  # killed before it could sign it
                _remove(folder)
            elif content.startswith(signature) and (noted or not note):
                try:
                    yield folder, note
                finally:
                    _remove(folder)
        finally:
            os.close(lock)
    if folders:
        _remove_if_empty(place)


def _private_place() -> Path:
    shared = Path(tempfile.gettempdir()).resolve()
    if sys.platform == "win32":  # whose temporary folder is the user's own
        return shared / "hwperf"
    return shared / f"hwperf-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    """Whether there is such a folder, no link, that this user owns and no other can enter."""
    with suppress(OSError):
        return _is_closed(folder.lstat())
    return False


def _is_closed(status: os.stat_result) -> bool:
    is_own = sys.platform == "win32" or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    return is_own and stat.S_ISDIR(status.st_mode)


def _end_of_process(pid: int, folder: Path, lock: int | None) -> None:
    """Remove the folder of a process, unless this is a fork of it: the folder is still in use there."""
    if os.getpid() == pid:
        _give_back(folder, lock)


def _give_back(folder: Path, lock: int | None) -> None:
    _remove(folder)
    if lock is not None:
        os.close(lock)
    _remove_if_empty(folder.parent)


def _new(note: str) -> tuple[Path, int | None]:
    for _ in range(_TRIES):
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=private_folder()))
        except FileNotFoundError:  # another run has just removed the private folder, which was empty
            continue
        if sys.platform == "win32":
            return folder, None
        lock = _lock(folder, os.O_CREAT | os.O_EXCL)
        if lock is not None:  # else another run took the empty folder for that of a killed run
            os.write(lock, _signed(folder, note))
            return folder, lock
    raise WorkerError(f"no temporary folder can be kept in {private_folder()}: each is gone as soon as it is made")


def _lock(folder: Path, flags: int = 0) -> int | None:
    """Return the acquired lock of `folder`; None where a live process holds it, or there is none."""
    if sys.platform != "win32":
        path = folder / _LOCK
        try:
            lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o600)
        except FileNotFoundError:
            _remove_if_empty(folder)  # killed between making and locking it
            return None
        except OSError:
            return None
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), path.stat()):  # else the lock of a folder that was just removed
                return lock
        os.close(lock)
    return None


def _signed(folder: Path, note: str) -> bytes:
    """Return what the lock file holds; with the name of its folder, so that a copy proves nothing about another one."""
    return os.fsencode(f"{_SIGNATURE}: {folder.name}\n{note}")


def _remove(folder: Path) -> None:
    """Remove it, the lock last: until then no other process touches it."""
    with suppress(OSError):  # gone already, or something cannot be removed: the next run tries again
        for child in folder.iterdir():
            if child.name != _LOCK:
                remove_tree(child)
        if [child.name for child in folder.iterdir()] == [_LOCK]:
            (folder / _LOCK).unlink()
        folder.rmdir()


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a file or folder, also one with write-protected folders in it; what cannot be removed is no error."""
    if path.is_symlink() or not path.is_dir():
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        for top, _, files in os.walk(path):
            with suppress(OSError):
                Path(top).chmod(0o700)
            for file in files if sys.platform == "win32" else ():  # where git's own files, read-only, are not removed
                with suppress(OSError):
                    Path(top, file).chmod(0o600)
        shutil.rmtree(path, ignore_errors=True)
