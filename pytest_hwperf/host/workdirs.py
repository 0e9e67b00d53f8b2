"""Temporary folders that no run leaves behind: each is locked while in use, and those of killed runs are removed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not POSIX: nothing is locked, so nothing that another run has left is ever removed
    fcntl = None  # type: ignore[assignment]

PREFIX = "hwperf-base-"
_LOCK = ".lock"


@contextmanager
def workdir(note: str = "") -> Iterator[Path]:
    """Make an empty folder; it is removed on exit, or by the next run if this one is killed.

    Args:
        note: what `leftovers` returns with the folder of a killed run.
    """
    folder, lock = _new(note)
    try:
        yield folder
    finally:
        _remove(folder)
        if lock is not None:
            os.close(lock)


def leftovers() -> Iterator[tuple[Path, str]]:
    """Yield each folder of this user that no live process holds, with its note, and remove it afterwards."""
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).resolve().glob(f"{PREFIX}*"):
        lock = _lock(folder) if _is_ours(folder) else None
        if lock is not None:
            try:
                yield folder, (folder / _LOCK).read_text(encoding="utf-8", errors="surrogateescape")
            finally:
                _remove(folder)
                os.close(lock)


def _new(note: str) -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        if fcntl is None:
            return folder, None
        lock = _lock(folder)
        if lock is not None:  # else another run took the empty folder for that of a killed run
            os.write(lock, note.encode("utf-8", errors="surrogateescape"))
            return folder, lock


def _lock(folder: Path) -> int | None:
    """Return the acquired lock of `folder`; None where a live process holds it, or it has been removed meanwhile."""
    path = folder / _LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), path.stat()):  # else the lock of a folder that was just removed
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder of this user, and no link that another user has put there."""
    with suppress(OSError):
        return not folder.is_symlink() and folder.is_dir() and folder.stat().st_uid == os.getuid()
    return False


def _remove(folder: Path) -> None:
    """Remove it, the lock last: until then no other process touches it."""
    with suppress(OSError):  # gone already, or something cannot be removed: the next run tries again
        for child in [child for child in folder.iterdir() if child.name != _LOCK]:
            remove_tree(child)
        (folder / _LOCK).unlink(missing_ok=True)
        folder.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a file or folder, also one with write-protected folders in it; what cannot be removed is no error."""
    if path.is_symlink() or not path.is_dir():
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        for top, _, _ in os.walk(path):
            with suppress(OSError):
                Path(top).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
