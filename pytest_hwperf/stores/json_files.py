"""Baselines as JSON files in the repository: one for each baseline, machine and test.

`<root>/<baseline>/<machine's fingerprint>/<slug>-<digits>.jsonl` holds accepted runs, and the same path under
`<root>/.held/` failed ones that wait to be accepted.
"""

import errno
import fnmatch
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_hwperf.core.errors import StoreError
from pytest_hwperf.core.foreign_text import shortened
from pytest_hwperf.core.history import Annotation, Series, series_of
from pytest_hwperf.core.records import Machine, StoredRun
from pytest_hwperf.host.files import check_writable, create_file, refused_name, replace_file, replace_files
from pytest_hwperf.stores import notes_file
from pytest_hwperf.stores.baseline_format import (
    EARLIER_SUFFIX,
    Entry,
    bounded,
    entries_of,
    file_name,
    parse,
    place,
    render,
    unknown_in,
)
from pytest_hwperf.stores.listing import baseline_files, check_lock, content_of, machine_folders, sweep
from pytest_hwperf.stores.location import check_name

Entries = tuple[Entry, ...]  # of one file: the oldest first; () where there is no file

_IGNORED = """\
# Runs that wait to be accepted, the lock and leftovers of killed writers are no baselines.
/.held/
/.lock
*.tmp
"""


class JsonStore:
    """A folder of baseline files; safe against concurrent writers, killed writers and full disks.

    A file that cannot be read whole is refused with its name and the remedy; it is neither skipped nor overwritten.
    """

    def __init__(
        self,
        location: str | Path,
        keep: int = 20,
        *,
        patience_s: float = 60.0,
        create: Callable[[Path], int] = create_file,
    ) -> None:
        """Keep the newest `keep` runs of a test under `location`, which need not exist yet.

        Args:
            location: the folder.
            keep: runs of one test on one machine, at least 1.
            patience_s: how long to wait for another writer.
            create: creates a new file and returns its descriptor; tests give one that fails.

        Raises:
            StoreError: `keep` is below 1, or no folder can be called so.
        """
        if keep < 1:
            raise StoreError(f"keep={keep}: a baseline keeps at least 1 run of a test")
        self._root = Path(location).absolute()
        if why := refused_name(self._root):
            raise StoreError(
                f"{shortened(str(location))} names no folder ({why}): choose another place for baselines with "
                "--hwperf-store"
            )
        self._keep = keep
        self._patience_s = patience_s
        self._create = create
        self._known = dict[Path, tuple[bytes, Entries]]()  # a file's bytes and what they hold, until it is written

    def check(self, baseline: str, *, writing: bool) -> None:
        """Refuse a location or a file that cannot be used, before anything is measured; sweep up after killed writers.

        Raises:
            StoreError: names the file or folder, what is wrong with it and what to do.
        """
        folders = [self._accepted(baseline), self._held(baseline)] if writing else [self._accepted(baseline)]
        place = next(place for place in (self._root, *self._root.absolute().parents) if os.path.lexists(place))
        if not place.is_dir():
            raise StoreError(f"{place} is not a folder: choose another place for baselines with --hwperf-store")
        if writing:
            _check_writable(place)
        if writing and self._root.is_dir():
            with self._locked():
                sweep(self._root, folders)
        for folder in folders:
            for path in baseline_files(folder):
                self._read(path)

    def load(self, baseline: str, machine: Machine, test: str, label: str) -> tuple[StoredRun, ...]:
        """Return the accepted runs of that test on that machine, oldest first; () where there are none.

        Raises:
            StoreError: the file is damaged.
        """
        entries = self._read(self._accepted(baseline) / f"{machine.fingerprint}/{file_name(test, label)}")
        return tuple(entry.stored for entry in entries)

    def machines(self, baseline: str, test: str, label: str) -> tuple[Machine, ...]:
        """Return the machines that have accepted runs of that test.

        Raises:
            StoreError: a file is damaged.
        """
        name = file_name(test, label)
        folders = machine_folders(self._accepted(baseline))
        return tuple(entries[-1].stored.run.machine for folder in folders if (entries := self._read(folder / name)))

    def newest(self, baseline: str) -> tuple[StoredRun, ...]:
        """Return the newest accepted run of each test and label on each machine.

        Raises:
            StoreError: a file is damaged.
        """
        paths = baseline_files(self._accepted(baseline))
        return tuple(entries[-1].stored for path in paths if (entries := self._read(path)))

    def baselines(self) -> tuple[str, ...]:
        """Return the names of all baselines, those that have held runs only too."""
        roots = [root for root in (self._root, self._root / ".held") if root.is_dir()]
        names = {path.name for root in roots for path in root.iterdir() if path.is_dir() and _is_name(path.name)}
        return tuple(sorted(names))

    def histories(self, baseline: str, pattern: str = "*", *, held: bool) -> tuple[tuple[StoredRun, ...], ...]:
        """Return the accepted or the held runs of each test, label and machine, oldest first, of tests as for `accept`.

        Raises:
            StoreError: a file is damaged.
        """
        paths = baseline_files((self._held if held else self._accepted)(baseline))
        found = (tuple(entry.stored for entry in self._read(path)) for path in paths)
        return tuple(runs for runs in found if runs and _matches(runs[-1].run.test, pattern))

    def remove(self, baseline: str, pattern: str) -> tuple[str, ...]:
        """Remove accepted and held runs of the tests whose id matches `pattern`, as for `accept`; return the ids.

        Raises:
            StoreError: a file is damaged, and its test unknown, or it cannot be removed.
        """
        folders = [folder for folder in (self._accepted(baseline), self._held(baseline)) if folder.is_dir()]
        if not folders:
            return ()
        with self._locked():
            found = {path: self._read(path)[-1].stored.run.test for each in folders for path in baseline_files(each)}
            chosen = {path: test for path, test in found.items() if _matches(test, pattern)}
            for path in chosen:
                path.unlink()
                self._known.pop(path, None)
        return tuple(dict.fromkeys(chosen.values()))

    def save(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        """Append accepted runs, drop the oldest beyond `keep`; return the file of each, or why it was not stored.

        A run that its file already has, equal in everything, changes nothing.
        A file that is damaged or cannot be written is left as it was, and hinders no other.

        Raises:
            StoreError: none can be stored: the name, the folder or another writer forbids it.
        """
        return self._append(self._accepted(baseline), runs)

    def hold(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        """Keep failed runs apart until `accept`; return the file of each, or why it was not stored.

        Raises:
            StoreError: as for `save`.
        """
        return self._append(self._held(baseline), runs)

    def accept(self, baseline: str, pattern: str) -> tuple[str, ...]:
        """Make held runs whose test id matches `pattern` the baseline; return the ids.

        `*` and `?` are wildcards; brackets are not, since ids of parametrised tests hold them. The test's earlier
        runs are *replaced*: accepting says that a new normal began, and a mixture of both would describe neither.
        For the same reason held runs of other revisions than the newest held one are dropped.

        Raises:
            StoreError: a file of any of these tests is damaged (then none is accepted), or cannot be written.
        """
        held_folder, folder = self._held(baseline), self._accepted(baseline)
        if not held_folder.is_dir():
            return ()
        with self._locked():
            chosen = [
                (path, entries)
                for path in baseline_files(held_folder)
                if (entries := self._read(path)) and _matches(entries[-1].stored.run.test, pattern)
            ]
            targets = [folder / path.relative_to(held_folder) for path, _ in chosen]
            for target in targets:
                self._read(target)  # a damaged baseline is not overwritten
            accepted = (_newest_revision(entries) for _, entries in chosen)
            problems = self._write(dict(zip(targets, accepted, strict=True)))
            for (path, _), target in zip(chosen, targets, strict=True):
                if target not in problems:
                    path.unlink()  # only now: killed before, it would merely be accepted again
        if problems:
            raise next(iter(problems.values()))
        return tuple(dict.fromkeys(entries[-1].stored.run.test for _, entries in chosen))

    def prune(self, baseline: str, machine: Machine) -> tuple[str, ...]:
        """Remove runs that this machine saved with other versions or settings and has saved again; return their ids.

        Raises:
            StoreError: a file is damaged, or cannot be removed.
        """
        folder = self._accepted(baseline)
        if not folder.is_dir():
            return ()
        with self._locked():
            here = folder / machine.fingerprint
            replaced = {
                path: entries[-1].stored.run
                for path in baseline_files(folder)
                if path.parent != here and self._read(here / path.name) and (entries := self._read(path))
            }
            old = {path: run.test for path, run in replaced.items() if run.machine.hardware == machine.hardware}
            for path in old:
                path.unlink()
        return tuple(dict.fromkeys(old.values()))

    def history(self, baseline: str, pattern: str = "*", *, newest: int = 1000) -> tuple[Series, ...]:
        """Return the values of each series of the tests whose id matches `pattern`: those of accepted runs.

        Raises:
            StoreError: a file is damaged.
        """
        found = self.histories(baseline, pattern, held=False)
        return tuple(series for runs in found for series in series_of(runs[-newest:]))

    def tests(self, baseline: str, pattern: str = "*") -> tuple[str, ...]:
        """Return the ids of all tests that have accepted runs and match `pattern`.

        Raises:
            StoreError: a file is damaged.
        """
        return tuple(sorted({runs[-1].run.test for runs in self.histories(baseline, pattern, held=False)}))

    def annotate(self, note: Annotation) -> None:
        """Keep a note; the same text at the same revision changes nothing.

        Raises:
            StoreError: the notes are damaged, or cannot be written.
        """
        path = self._root / notes_file.NAME
        with self._locked():
            self._check_links(path)
            replace_file(path, notes_file.render(notes_file.with_note(notes_file.read_notes(path), note)))

    def annotations(self) -> tuple[Annotation, ...]:
        """Return all notes, oldest first.

        Raises:
            StoreError: they are damaged.
        """
        path = self._root / notes_file.NAME
        self._check_links(path)
        return notes_file.read_notes(path)

    def _accepted(self, baseline: str) -> Path:
        try:
            check_name(baseline)
        except ValueError as problem:
            raise StoreError(f"baseline name {problem}") from problem
        return self._root / baseline

    def _held(self, baseline: str) -> Path:
        return self._root / ".held" / self._accepted(baseline).name

    def _append(self, folder: Path, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        if not runs:
            return ()
        mine, paths = dict[Path, list[StoredRun]](), [folder / place(stored.run) for stored in runs]
        for path, stored in zip(paths, runs, strict=True):
            mine.setdefault(path, []).append(stored)
        files, problems = dict[Path, Entries](), dict[Path, StoreError]()
        with self._locked():
            for path, new in mine.items():
                try:
                    if unknown := unknown_in(old := self._read(path), entries_of(new)):
                        files[path] = bounded((*old, *unknown)[-self._keep :])
                except StoreError as error:
                    problems[path] = error
            problems |= self._write(files)
        return tuple(problems.get(path) or str(path) for path in paths)

    def _read(self, path: Path) -> Entries:
        """Read one file; () where there is none."""
        if not os.path.lexists(path):
            path = path.with_suffix(EARLIER_SUFFIX)
        try:
            self._check_links(path)
            if not os.path.lexists(path):
                return ()
            content = content_of(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error}): fix that, or delete it to start over") from error
        known, entries = self._known.get(path, (b"", ()))
        if known != content or not entries:
            entries = parse(path, content)
            self._known[path] = content, entries
        return entries

    def _check_links(self, path: Path) -> None:
        """Refuse a link that leaves the root; without one, what lies below it by name does so in fact."""
        place, root = os.fspath(path), os.fspath(self._root)
        while place != root and not os.path.islink(place):  # noqa: PTH114 - pathlib takes twice as long
            place = os.path.dirname(place)  # noqa: PTH120 - the same
        if place != root and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
            raise StoreError(f"{path} leaves {root} through a link: put the file itself there")

    def _write(self, files: Mapping[Path, Entries]) -> dict[Path, StoreError]:
        """Replace files whole; return why others could not be."""
        failed = replace_files({path: render(entries) for path, entries in files.items()}, self._create)
        for path in files:
            self._known.pop(path, None)
        return {path: _unwritten(path, error) for path, error in failed.items()}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one writer at a time read, change and write, in this and other processes."""
        import filelock

        lock, ignored = self._root / ".lock", self._root / ".gitignore"
        try:
            self._root.mkdir(parents=True, exist_ok=True)
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
            raise _closed(self._root, error) from error


def _check_writable(place: Path) -> None:
    try:
        check_writable(place / "probe")
    except OSError as error:
        raise _closed(place, error) from error


def _closed(folder: Path, error: OSError) -> StoreError:
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


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except ValueError:
        return False
    return True


def _matches(test: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))


def _newest_revision(entries: Entries) -> Entries:
    newest = entries[-1].stored.run.shown_revision
    return tuple(entry for entry in entries if entry.stored.run.shown_revision == newest)
