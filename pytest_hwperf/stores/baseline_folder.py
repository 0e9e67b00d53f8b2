"""The folder of baseline files: read with what is known of them, replaced whole, by one writer at a time."""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_hwperf.host.files import read_given, refused_name, replace_file, replace_files
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.text import shortened
from pytest_hwperf.stores.baseline_format import EARLIER_SUFFIX, LARGEST, SUFFIX, Entry, parse, render
from pytest_hwperf.stores.location import check_name


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


Entries = tuple[Entry, ...]  # of one file: the oldest first; () where there is no file

_IGNORED = """\
# Runs that wait to be accepted, the lock and leftovers of killed writers are no baselines.
/.held/
/.lock
*.tmp
"""


class BaselineFolder:
    """A folder, its files and its lock."""

    def __init__(self, location: str | Path, patience_s: float, create: Callable[[Path], int]) -> None:
        """Name a folder, which need not exist yet."""
        self.root = Path(location).absolute()
        if why := refused_name(self.root):
            raise StoreError(
                f"{shortened(str(location))} names no folder ({why}): choose another place for baselines with "
                "--hwperf-store"
            )
        self._patience_s, self._create = patience_s, create
        self._known = dict[Path, tuple[bytes, Entries]]()  # a file's bytes and what they hold, until it is written

    def accepted(self, baseline: str) -> Path:
        """Return the folder of a baseline's accepted runs."""
        try:
            check_name(baseline)
        except ValueError as problem:
            raise StoreError(f"baseline name {problem}") from problem
        return self.root / baseline

    def held(self, baseline: str) -> Path:
        """Return the folder of its held runs."""
        return self.root / ".held" / self.accepted(baseline).name

    def read(self, path: Path) -> Entries:
        """Read one file; () where there is none."""
        if not os.path.lexists(path):
            path = path.with_suffix(EARLIER_SUFFIX)
        self.check_links(path)
        if not os.path.lexists(path):
            return ()
        content = read_given(path, LARGEST, "fix that, or delete it to start over", error=StoreError)
        known, entries = self._known.get(path, (b"", ()))
        if known != content or not entries:
            entries = parse(path, content)
            self._known[path] = content, entries
        return entries

    def readable(self, path: Path) -> Entries:
        """Read one file; () also where it is damaged, which whoever needs it says and which hinders no other."""
        try:
            return self.read(path)
        except StoreError:
            return ()

    def check_links(self, path: Path) -> None:
        """Refuse a link that leaves the root; without one, what lies below it by name does so in fact."""
        place, root = os.fspath(path), os.fspath(self.root)
        while place != root and not os.path.islink(place):  # noqa: PTH114 - pathlib takes twice as long
            place = os.path.dirname(place)  # noqa: PTH120 - the same
        if place != root and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
            raise StoreError(f"{path} leaves {root} through a link: put the file itself there")

    def write(self, files: Mapping[Path, Entries]) -> dict[Path, StoreError]:
        """Replace files whole; return why others could not be."""
        failed = replace_files({path: render(entries) for path, entries in files.items()}, self._create)
        for path in files:
            self._known.pop(path, None)
        return {path: _unwritten(path, error) for path, error in failed.items()}

    def rewrite(self, files: Mapping[Path, Entries]) -> None:
        """Replace files by what is left of them, and remove those of which nothing is."""
        for path, entries in files.items():
            if not entries:
                self.remove(path)
        self.write({path: entries for path, entries in files.items() if entries})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one writer at a time read, change and write, in this and other processes."""
        import filelock

        lock, ignored = self.root / ".lock", self.root / ".gitignore"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            check_lock(lock)
            with filelock.FileLock(lock, timeout=self._patience_s):
                if not os.path.lexists(ignored):  # through a link to nowhere, it would be written elsewhere
                    replace_file(ignored, _IGNORED.encode())
                yield
        except filelock.Timeout as error:
            raise StoreError(
                f"{lock} is held by another process for over {self._patience_s:g} s: wait for it or end it"
            ) from error
        except OSError as error:
            raise closed(self.root, error) from error

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()
        self._known.pop(path, None)


def closed(folder: Path, error: OSError) -> StoreError:
    """Return why a folder cannot be written to, with what to do."""
    return StoreError(
        f"{folder} cannot be written to ({error.strerror}): {_remedy(error)}, "
        "or choose another place for baselines with --hwperf-store"
    )


def _remedy(error: OSError) -> str:
    return "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"


def _unwritten(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written ({error.strerror}): what was there is intact; "
        "make room or choose another place with --hwperf-store"
    )
