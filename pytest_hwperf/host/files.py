"""Files that are replaced whole: a reader, now or after a crash, finds the old content or the new one."""

import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_WRITERS = 8  # a flush waits for the disk, and a disk serves several at once


def create_file(path: Path) -> int:
    """Create the new file `path` and return its descriptor."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)


def replace_files(contents: Mapping[Path, bytes], create: Callable[[Path], int]) -> dict[Path, OSError]:
    """Replace each file by its new content; one that cannot be replaced keeps the old, and hinders no other.

    Each is written to a temporary name and flushed, several at once. Only then are they renamed, all by the thread that
    called, so that nothing changes any more once this has returned or raised. Flushing a folder makes its renames last.

    Args:
        contents: of each file; folders that do not exist are made.
        create: creates a new file and returns its descriptor.

    Returns:
        The error of each file that was not replaced, or that was but whose folder could not be flushed.
    """
    unmade = _tried(_make_folder, {path.parent for path in contents})
    waiting = [path for path in contents if path.parent not in unmade]
    temporary = {path: path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp") for path in waiting}
    try:
        failed = _written({temporary[path]: contents[path] for path in waiting}, create)
        failed = {path: failed[temporary[path]] for path in waiting if temporary[path] in failed}
        failed |= _tried(lambda path: temporary[path].replace(path), [path for path in waiting if path not in failed])
    finally:
        # What stays here belongs to a file that is told as failed, and is swept up before the next save.
        _tried(lambda leftover: leftover.unlink(missing_ok=True), temporary.values())
    unflushed = _tried(_flush_folder, {path.parent for path in waiting})
    return {path: unmade[path.parent] for path in contents if path.parent in unmade} | {
        path: failed.get(path) or unflushed[path.parent]
        for path in waiting
        if path in failed or path.parent in unflushed
    }


def _tried(action: Callable[[Path], object], paths: Iterable[Path]) -> dict[Path, OSError]:
    """Do it to each path; return the errors."""
    failed = {}
    for path in paths:
        try:
            action(path)
        except OSError as error:
            failed[path] = error
    return failed


def _written(contents: Mapping[Path, bytes], create: Callable[[Path], int]) -> dict[Path, OSError]:
    """Write new files, several at once; return the errors."""
    paths = list(contents)
    with ThreadPoolExecutor(_WRITERS) as writers:
        parts = [
            writers.submit(_tried, lambda path: _write(path, contents[path], create), paths[first::_WRITERS])
            for first in range(min(_WRITERS, len(paths)))
        ]
        return {path: error for part in parts for path, error in part.result().items()}


def _write(path: Path, content: bytes, create: Callable[[Path], int]) -> None:
    with os.fdopen(create(path), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def _flush_folder(folder: Path) -> None:
    """Make renames last: they are kept in the folder, not in the files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
