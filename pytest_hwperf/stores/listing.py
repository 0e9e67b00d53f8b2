"""The files of a baseline: which there are, in one folder for each machine, and what they contain."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from pytest_hwperf.core.errors import StoreError
from pytest_hwperf.stores.baseline_format import EARLIER_SUFFIX, SUFFIX


def machine_folders(folder: Path) -> list[Path]:
    """List the folders of all machines of a baseline."""
    return [path for path in _entries(folder) if path.is_dir()] if os.path.lexists(folder) else []


def baseline_files(folder: Path) -> list[Path]:
    """List the baseline files of all machines; names that begin with a dot are leftovers of writers."""
    paths = [path for machine in machine_folders(folder) for path in _entries(machine)]
    return [path for path in paths if path.suffix in (SUFFIX, EARLIER_SUFFIX) and not path.name.startswith(".")]


def _entries(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(path.name for path in folder.iterdir())]
    except OSError as error:
        raise StoreError(f"{folder} cannot be listed ({error.strerror}): make it a readable folder") from error


def sweep(root: Path, folders: Sequence[Path]) -> None:
    """Remove what killed writers left; called under the lock, so that no living writer loses its file.

    What a link outside of the root leads to was left by someone else.
    """
    for leftover in (path for pattern in ("..gitignore.*.tmp", ".probe.*.tmp") for path in root.glob(pattern)):
        leftover.unlink(missing_ok=True)
    real = os.path.realpath(root)
    for folder in folders:
        for leftover in folder.glob("*/.*.json*.tmp"):
            if Path(os.path.realpath(leftover.parent)).is_relative_to(real):
                leftover.unlink(missing_ok=True)


def check_lock(path: Path) -> None:
    """Refuse a lock file that is none: before version 3.20.1, filelock empties what a link leads to."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise StoreError(f"{path} is a link, or no file: remove it, it is only there to let one writer at a time write")
