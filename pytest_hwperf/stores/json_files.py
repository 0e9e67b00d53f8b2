"""Baselines as JSON files in the repository: one for each baseline, machine and test.

`<root>/<baseline>/<machine's fingerprint>/<slug>-<digits>.jsonl` holds accepted runs, and the same path under
`<root>/.held/` failed ones that wait to be accepted.
"""

import fnmatch
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_hwperf.host.files import check_writable, create_file, read_given, replace_file
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import SerialisationError, StoreError
from pytest_hwperf.records.run import Machine, StoredRun
from pytest_hwperf.stats.history import Annotation, Series, series_of
from pytest_hwperf.stores.baseline_folder import BaselineFolder, Entries, baseline_files, closed, machine_folders, sweep
from pytest_hwperf.stores.baseline_format import bounded, entries_of, file_name, place, unknown_in
from pytest_hwperf.stores.location import check_name

NOTES_NAME = ".annotations.jsonl"  # no baseline can be called so

_LARGEST = 10_000_000  # bytes


def read_notes(path: Path) -> tuple[Annotation, ...]:
    """Return all notes, oldest first; () where there is no file."""
    if not os.path.lexists(path):
        return ()
    lines = read_given(path, _LARGEST, "fix that, or delete it", error=StoreError).splitlines()
    try:
        notes = [from_json(Annotation, line) for line in lines if line.strip()]
    except SerialisationError as error:
        raise StoreError(f"{path} holds a line that is no note ({error}): remove that line") from error
    return tuple(sorted(notes, key=lambda note: note.noted_at))


def with_note(notes: Sequence[Annotation], note: Annotation) -> tuple[Annotation, ...]:
    """Add a note; the same text at the same revision changes nothing."""
    if any((one.revision, one.text) == (note.revision, note.text) for one in notes):
        return tuple(notes)
    return (*notes, note)


def render_notes(notes: Sequence[Annotation]) -> bytes:
    """Write the file."""
    return b"".join(to_json(note) + b"\n" for note in notes)


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
        self._folder = BaselineFolder(location, patience_s, create)
        self._keep = keep

    def check(self, baseline: str, *, writing: bool) -> None:
        """Refuse a location or a file that cannot be used, before anything is measured; sweep up after killed writers.

        Raises:
            StoreError: names the file or folder, what is wrong with it and what to do.
        """
        root, folders = self._folder.root, [self._folder.accepted(baseline)]
        folders += [self._folder.held(baseline)] if writing else []
        place = next(place for place in (root, *root.parents) if os.path.lexists(place))
        if not place.is_dir():
            raise StoreError(f"{place} is not a folder: choose another place for baselines with --hwperf-store")
        if writing:
            _check_writable(place)
        if writing and root.is_dir():
            with self._folder.locked():
                sweep(root, folders)
        for folder in folders:
            for path in baseline_files(folder):
                self._folder.read(path)

    def load(self, baseline: str, machine: Machine, test: str, label: str) -> tuple[StoredRun, ...]:
        """Return the accepted runs of that test on that machine, oldest first; () where there are none.

        Raises:
            StoreError: the file is damaged.
        """
        entries = self._folder.read(self._folder.accepted(baseline) / f"{machine.fingerprint}/{file_name(test, label)}")
        return tuple(entry.stored for entry in entries)

    def machines(self, baseline: str, test: str, label: str) -> tuple[Machine, ...]:
        """Return the machines that have accepted runs of that test.

        Raises:
            StoreError: a file is damaged.
        """
        name = file_name(test, label)
        folders = machine_folders(self._folder.accepted(baseline))
        return tuple(
            entries[-1].stored.run.machine for folder in folders if (entries := self._folder.read(folder / name))
        )

    def newest(self, baseline: str) -> tuple[StoredRun, ...]:
        """Return the newest accepted run of each test and label on each machine.

        Raises:
            StoreError: a file is damaged.
        """
        paths = baseline_files(self._folder.accepted(baseline))
        return tuple(entries[-1].stored for path in paths if (entries := self._folder.read(path)))

    def baselines(self) -> tuple[str, ...]:
        """Return the names of all baselines, those that have held runs only too."""
        roots = [root for root in (self._folder.root, self._folder.root / ".held") if root.is_dir()]
        names = {path.name for root in roots for path in root.iterdir() if path.is_dir() and _is_name(path.name)}
        return tuple(sorted(names))

    def histories(self, baseline: str, pattern: str = "*", *, held: bool) -> tuple[tuple[StoredRun, ...], ...]:
        """Return the accepted or the held runs of each test, label and machine, oldest first, of tests as for `accept`.

        Raises:
            StoreError: a file is damaged.
        """
        paths = baseline_files((self._folder.held if held else self._folder.accepted)(baseline))
        found = (tuple(entry.stored for entry in self._folder.read(path)) for path in paths)
        return tuple(runs for runs in found if runs and _matches(runs[-1].run.test, pattern))

    def remove(self, baseline: str, pattern: str) -> tuple[str, ...]:
        """Remove accepted and held runs of the tests whose id matches `pattern`, as for `accept`; return the ids.

        Raises:
            StoreError: a file is damaged, and its test unknown, or it cannot be removed.
        """
        folders = [
            folder for folder in (self._folder.accepted(baseline), self._folder.held(baseline)) if folder.is_dir()
        ]
        if not folders:
            return ()
        with self._folder.locked():
            found = {
                path: self._folder.read(path)[-1].stored.run.test for each in folders for path in baseline_files(each)
            }
            chosen = {path: test for path, test in found.items() if _matches(test, pattern)}
            for path in chosen:
                self._folder.remove(path)
        return tuple(dict.fromkeys(chosen.values()))

    def save(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        """Append accepted runs, drop the oldest beyond `keep`; return the file of each, or why it was not stored.

        A run that its file already has, equal in everything, changes nothing; one that was held is held no more.
        A file that is damaged or cannot be written is left as it was, and hinders no other.

        Raises:
            StoreError: none can be stored: the name, the folder or another writer forbids it.
        """
        return self._append(baseline, runs, held=False)

    def hold(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        """Keep failed runs apart until `accept`; return the file of each, or why it was not stored.

        One that the baseline has already changes nothing.

        Raises:
            StoreError: as for `save`.
        """
        return self._append(baseline, runs, held=True)

    def accept(self, baseline: str, pattern: str) -> tuple[str, ...]:
        """Make held runs whose test id matches `pattern` the baseline; return the ids.

        `*` and `?` are wildcards; brackets are not, since ids of parametrised tests hold them. The test's earlier
        runs are *replaced*: accepting says that a new normal began, and a mixture of both would describe neither.
        For the same reason held runs of other revisions than the newest held one are dropped.

        Raises:
            StoreError: a file of any of these tests is damaged (then none is accepted), or cannot be written.
        """
        held_folder, folder = self._folder.held(baseline), self._folder.accepted(baseline)
        if not held_folder.is_dir():
            return ()
        with self._folder.locked():
            chosen = [
                (path, entries)
                for path in baseline_files(held_folder)
                if (entries := self._folder.read(path)) and _matches(entries[-1].stored.run.test, pattern)
            ]
            targets = [folder / path.relative_to(held_folder) for path, _ in chosen]
            for target in targets:
                self._folder.read(target)  # a damaged baseline is not overwritten
            accepted = (_newest_revision(entries) for _, entries in chosen)
            problems = self._folder.write(dict(zip(targets, accepted, strict=True)))
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
        folder = self._folder.accepted(baseline)
        if not folder.is_dir():
            return ()
        with self._folder.locked():
            here = folder / machine.fingerprint
            replaced = {
                path: entries[-1].stored.run
                for path in baseline_files(folder)
                if path.parent != here and self._folder.read(here / path.name) and (entries := self._folder.read(path))
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

    def history_of(self, baseline: str, measured: Iterable[tuple[str, str]], *, newest: int) -> tuple[Series, ...]:
        """Return the series of some tests with their labels, as `history` does.

        Raises:
            StoreError: a file is damaged.
        """
        folders = machine_folders(self._folder.accepted(baseline))
        paths = [folder / file_name(test, label) for test, label in dict.fromkeys(measured) for folder in folders]
        found = (tuple(entry.stored for entry in self._folder.read(path)[-newest:]) for path in paths)
        return tuple(series for runs in found if runs for series in series_of(runs))

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
        path = self._folder.root / NOTES_NAME
        with self._folder.locked():
            self._folder.check_links(path)
            replace_file(path, render_notes(with_note(read_notes(path), note)))

    def annotations(self) -> tuple[Annotation, ...]:
        """Return all notes, oldest first.

        Raises:
            StoreError: they are damaged.
        """
        path = self._folder.root / NOTES_NAME
        self._folder.check_links(path)
        return read_notes(path)

    def _append(self, baseline: str, runs: Sequence[StoredRun], *, held: bool) -> tuple[str | StoreError, ...]:
        accepted, waiting = self._folder.accepted(baseline), self._folder.held(baseline)
        if not runs:
            return ()
        mine, paths = dict[str, list[StoredRun]](), [place(stored.run) for stored in runs]
        for path, stored in zip(paths, runs, strict=True):
            mine.setdefault(path, []).append(stored)
        files, left, problems = dict[Path, Entries](), dict[Path, Entries](), dict[Path, StoreError]()
        folder = waiting if held else accepted
        with self._folder.locked():
            for path, new in mine.items():
                try:
                    old, entries = self._folder.read(folder / path), entries_of(new)
                    other = self._folder.readable((accepted if held else waiting) / path)
                    if unknown := unknown_in((*old, *other) if held else old, entries):
                        files[folder / path] = bounded((*old, *unknown)[-self._keep :])
                    if not held and len(waits := unknown_in(entries, other)) < len(other):
                        left[waiting / path] = waits
                except StoreError as error:
                    problems[folder / path] = error
            problems |= self._folder.write(files)
            if not problems:  # killed before, or where one is not saved, it would merely wait for longer
                self._folder.rewrite(left)
        return tuple(problems.get(folder / path) or str(folder / path) for path in paths)


def _check_writable(place: Path) -> None:
    try:
        check_writable(place / "probe")
    except OSError as error:
        raise closed(place, error) from error


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
