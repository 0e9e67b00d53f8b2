"""The folder of baseline files: read with what is known of them, replaced whole, by one writer at a time."""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_hwperf.host.files import check_writable, read_given, refused_name, replace_file, replace_files
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.text import shortened
from pytest_hwperf.stores.baseline_format import LARGEST, SUFFIX, Runs, parse
from pytest_hwperf.stores.store import check_baseline

_IGNORED = b"""\
# Runs that wait to be accepted, the lock and leftovers of killed writers are no baselines.
/.held/
/.lock
*.tmp
"""


class BaselineFolder:
    """The folder of all baselines, its files and its lock."""

    def __init__(self, location: str | Path, patience_s: float, create: Callable[[Path], int]) -> None:
        """Name a folder, which need not exist yet."""
        self.root = Path(location).absolute()
        if why := refused_name(self.root):
            raise StoreError(
                f"{shortened(str(location))} names no folder ({why}): choose another place for baselines with "
                "--hwperf-store"
            )
        self._patience_s, self._create = patience_s, create
        self._known = dict[Path, tuple[bytes, Runs]]()  # a file's bytes and what they hold, until it is written

    def of(self, baseline: str, *, held: bool) -> Path:
        """Return the folder of a baseline's accepted or held runs."""
        check_baseline(baseline)
        return self.root / ".held" / baseline if held else self.root / baseline

    def check(self, *, writing: bool) -> None:
        """Refuse a place that is no folder, or that cannot be written to."""
        there = next(place for place in (self.root, *self.root.parents) if os.path.lexists(place))
        if not there.is_dir():
            raise StoreError(f"{there} is not a folder: choose another place for baselines with --hwperf-store")
        if writing:
            try:
                check_writable(there / "probe")
            except OSError as error:
                raise _closed(there, error) from error

    def machines(self, baseline: Path) -> list[Path]:
        return [path for path in _entries(baseline) if path.is_dir()] if os.path.lexists(baseline) else []

    def files(self, baseline: Path) -> list[Path]:
        """List the baseline files of all machines; names that begin with a dot are leftovers of writers."""
        paths = [path for machine in self.machines(baseline) for path in _entries(machine)]
        return [path for path in paths if path.suffix == SUFFIX and not path.name.startswith(".")]

    def read(self, path: Path) -> Runs:
        """Read one file; () where there is none."""
        self.check_links(path)
        if not os.path.lexists(path):
            return ()
        content = read_given(path, LARGEST, "fix that, or delete it to start over", error=StoreError)
        known, runs = self._known.get(path, (b"", ()))
        if known != content or not runs:
            runs = parse(path, content)
            self._known[path] = content, runs
        return runs

    def check_links(self, path: Path) -> None:
        """Refuse a link that leaves the root; without one, what lies below it by name does so in fact."""
        place, root = os.fspath(path), os.fspath(self.root)
        while place != root and not os.path.islink(place):  # noqa: PTH114 - pathlib takes twice as long
            place = os.path.dirname(place)  # noqa: PTH120 - the same
        if place != root and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
            raise StoreError(f"{path} leaves {root} through a link: put the file itself there")

    def write(self, contents: Mapping[Path, bytes]) -> dict[Path, StoreError]:
        """Replace files whole; return why others could not be."""
        failed = replace_files(contents, self._create)
        for path in contents:
            self._known.pop(path, None)
        return {
            path: StoreError(
                f"{path} cannot be written ({error.strerror}): what was there is intact; "
                "make room or choose another place with --hwperf-store"
            )
            for path, error in failed.items()
        }

    def remove(self, path: Path) -> None:
        path.unlink()
        self._known.pop(path, None)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one writer at a time read, change and write, in this and other processes."""
        import filelock

        lock, ignored = self.root / ".lock", self.root / ".gitignore"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(lock) and not stat.S_ISREG(lock.lstat().st_mode):  # old filelock empties a link's target
                raise StoreError(
                    f"{lock} is a link, or no file: remove it, it is only there to let one writer at a time write"
                )
            with filelock.FileLock(lock, timeout=self._patience_s):
                if not os.path.lexists(ignored):  # through a link to nowhere, it would be written elsewhere
                    replace_file(ignored, _IGNORED)
                yield
        except filelock.Timeout as error:
            raise StoreError(
                f"{lock} is held by another process for over {self._patience_s:g} s: wait for it or end it"
            ) from error
        except OSError as error:
            raise _closed(self.root, error) from error

    def sweep(self, folders: Sequence[Path]) -> None:
        """Remove what killed writers left; called under the lock, so that no living writer loses its file.

        What a link outside of the root leads to was left by someone else.
        """
        for leftover in (path for name in ("..gitignore.*.tmp", ".probe.*.tmp") for path in self.root.glob(name)):
            leftover.unlink(missing_ok=True)
        real = os.path.realpath(self.root)
        for leftover in (path for folder in folders for path in folder.glob("*/.*.json*.tmp")):
            if Path(os.path.realpath(leftover.parent)).is_relative_to(real):
                leftover.unlink(missing_ok=True)


def _entries(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(path.name for path in folder.iterdir())]
    except OSError as error:
        raise StoreError(f"{folder} cannot be listed ({error.strerror}): make it a readable folder") from error


def _closed(folder: Path, error: OSError) -> StoreError:
    """Return why a folder cannot be written to, with what to do."""
    remedy = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
    return StoreError(
        f"{folder} cannot be written to ({error.strerror}): {remedy}, or choose another place for baselines with "
        "--hwperf-store"
    )
