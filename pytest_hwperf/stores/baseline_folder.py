"""The folder of baseline files: read with what is known of them, replaced whole, by one writer at a time.

A file holds the stored runs of one test on one machine, as signed lines of JSON. The first line says what the file is
and signs the others. Each of those is one stored run, the oldest first, so that version control shows what changed and
can merge what two branches have saved.
"""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_hwperf.host.files import check_writable, read_given, refused_name, replace_file, replace_files, stat_given
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import SerialisationError, StoreError
from pytest_hwperf.records.run import Run, StoredRun, replace
from pytest_hwperf.records.text import shortened
from pytest_hwperf.stores.signed_lines import (
    MERGED,
    ROOM_OF_DIGEST,
    ROOM_OF_HEADING,
    read_lines,
    refuse_sides,
    remedy_of,
    sign,
)
from pytest_hwperf.stores.store import check_baseline

SUFFIX = ".jsonl"
LARGEST = 50_000_000  # bytes of a file: far above what twenty runs need; a larger one is not loaded into memory
_UNSEEN = "make the folders above it readable, or choose another place for baselines with --hwperf-store"
_LONGEST_SLUG = 80  # characters: with the digits and the ending far below the 255 bytes of a file name
Runs = tuple[StoredRun, ...]  # of one file: the oldest first; () where there is no file
_IGNORED = b"""\
# Runs that wait to be accepted, the lock and leftovers of killed writers are no baselines.
/.held/
/.lock
*.tmp
"""
_FOR_GIT = {".gitignore": _IGNORED, ".gitattributes": MERGED}  # name → content, written where they are missing
_LEFT_IN_ROOT = (*(f".{name}.*.tmp" for name in _FOR_GIT), ".probe.*.tmp")


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
        there = next(place for place in (self.root, *self.root.parents) if sees(place))
        if not sees_folder(there):
            raise StoreError(f"{there} is not a folder: choose another place for baselines with --hwperf-store")
        if writing:
            try:
                check_writable(there / "probe")
            except OSError as error:
                raise _closed(there, error) from error

    def machines(self, baseline: Path) -> list[Path]:
        return [path for path in entries(baseline) if sees_folder(path)] if sees(baseline) else []

    def files(self, baseline: Path) -> list[Path]:
        """List the baseline files of all machines; names that begin with a dot are leftovers of writers."""
        paths = [path for machine in self.machines(baseline) for path in entries(machine)]
        return [path for path in paths if path.suffix == SUFFIX and not path.name.startswith(".")]

    def read(self, path: Path) -> Runs:
        """Read one file; () where there is none."""
        self.check_links(path)
        if not sees(path):
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

        lock = self.root / ".lock"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(lock) and not stat.S_ISREG(lock.lstat().st_mode):  # old filelock empties a link's target
                raise StoreError(
                    f"{lock} is a link, or no file: remove it, it is only there to let one writer at a time write"
                )
            with filelock.FileLock(lock, timeout=self._patience_s):
                for name, content in _FOR_GIT.items():
                    if not os.path.lexists(
                        self.root / name
                    ):  # through a link to nowhere, it would be written elsewhere
                        replace_file(self.root / name, content)
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
        for leftover in (path for name in _LEFT_IN_ROOT for path in self.root.glob(name)):
            leftover.unlink(missing_ok=True)
        real = os.path.realpath(self.root)
        for leftover in (path for folder in folders for path in folder.glob("*/.*.json*.tmp")):
            if Path(os.path.realpath(leftover.parent)).is_relative_to(real):
                leftover.unlink(missing_ok=True)


def sees(path: Path) -> bool:
    """Whether a file, folder or link is there; one that cannot be seen is refused."""
    return stat_given(path, _UNSEEN, error=StoreError, follow=False) is not None


def sees_folder(path: Path) -> bool:
    """Whether a folder is there, or a link to one; one that cannot be seen is refused."""
    found = stat_given(path, _UNSEEN, error=StoreError)
    return found is not None and stat.S_ISDIR(found.st_mode)


def entries(folder: Path) -> list[Path]:
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


def file_name(test: str, label: str) -> str:
    """Return the file name of a test: a slug to read, and digits of its whole id since slugs collide."""
    slug = re.sub(r"\W+", "-", f"{test} {label}", flags=re.ASCII).strip("-")[-_LONGEST_SLUG:]
    digits = hashlib.sha256(f"{test}\0{label}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{slug}-{digits}{SUFFIX}"


def place(run: Run) -> str:
    """Return where the file of a run lies below its baseline."""
    return f"{run.machine.fingerprint}/{file_name(run.test, run.label)}"


def render(runs: Sequence[StoredRun]) -> bytes:
    """Write a file that can be read again.

    As far back as they fit the newest runs are whole, then without values, then left out.
    """
    lines, room = list[bytes](), LARGEST - ROOM_OF_HEADING
    for stored in reversed(runs):
        line = to_json(stored, check=False)
        if len(line) >= room and lines:
            line = to_json(replace(stored, run=replace(stored.run, samples=())))
        if len(line) >= room:
            break
        lines.insert(0, line)
        room -= len(line) + 1 + ROOM_OF_DIGEST
    if not lines:
        raise StoreError(
            f"a run of {runs[-1].run.test} takes {len(line) / 1e6:.1f} MB, a baseline at most {LARGEST / 1e6:g} MB: "
            "give fewer examples with y_true="
        )
    return b"".join(line + b"\n" for line in (sign(lines), *lines))


def parse(path: Path, content: bytes) -> Runs:
    """Read what `render` wrote to `path`, on one branch or on several that were merged; at least one run."""
    signed = read_lines(path, content)
    otherwise = remedy_of(path, content.splitlines())
    try:
        runs = tuple(from_json(StoredRun, line) for line in signed.lines)
        newest = [from_json(StoredRun, lines[-1]).run.shown_revision for lines in signed.sides if lines]
    except SerialisationError as error:
        raise StoreError(f"{path} holds no valid run ({error}): {otherwise}") from error
    if not runs:
        raise StoreError(f"{path} holds no run: {otherwise}")
    first = runs[0].run
    mine = (first.test, first.label, first.machine)
    strange = [one.run for one in runs if (one.run.test, one.run.label, one.run.machine) != mine]
    for run in (first, *strange):
        if place(run) != f"{path.parent.name}/{path.name}":  # it was moved, or holds a line of another file
            raise StoreError(f"{path} holds what belongs at {place(run)} of its baseline: move it back, or delete it")
    if signed.sides:
        raise refuse_sides(path, content, newest)
    return tuple(sorted(runs, key=lambda one: one.run.started_at)) if signed.is_merged else runs
