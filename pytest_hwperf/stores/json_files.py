"""Baselines as JSON files in the repository: one for each baseline, machine and test.

`<root>/<baseline>/<machine's fingerprint>/<slug>-<digits>.jsonl` holds accepted runs, and the same path under
`<root>/.held/` failed ones that wait to be accepted.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_hwperf.host.files import create_file, read_given, replace_file
from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.errors import SerialisationError, StoreError
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Machine, StoredRun
from pytest_hwperf.stats.stored.history import Annotation, Series, series_of
from pytest_hwperf.stores.baseline_folder import (
    BaselineFolder,
    Runs,
    entries,
    file_name,
    place,
    render,
    sees,
    sees_folder,
)
from pytest_hwperf.stores.location import why_no_name
from pytest_hwperf.stores.store import KEEP, Store, chosen_by

_NOTES = ".annotations.jsonl"  # no baseline can be called so
_LARGEST = 10_000_000  # bytes of the notes


class JsonStore(Store):
    """A folder of baseline files; safe against concurrent writers, killed writers and full disks.

    A file that cannot be read whole is refused with its name and the remedy; it is neither skipped nor overwritten.
    """

    def __init__(
        self,
        location: str | Path,
        keep: int = KEEP,
        *,
        patience_s: float = 60.0,
        create: Callable[[Path], int] = create_file,
    ) -> None:
        """Keep the newest `keep` runs of a test under `location`, which need not exist yet.

        `patience_s` is how long to wait for another writer. `create` creates a new file and returns its descriptor;
        tests give one that fails.
        """
        self._folder, self._keep = BaselineFolder(location, patience_s, create), keep

    def check(self, baseline: str, *, writing: bool) -> None:
        folders = [self._folder.of(baseline, held=held) for held in (False, True)[: 1 + writing]]
        self._folder.check(writing=writing)
        if writing and sees_folder(self._folder.root):
            with self._folder.locked():
                self._folder.sweep(folders)
        for path in self._files(folders):
            self._folder.read(path)

    def load(self, baseline: str, machine: Machine, test: str, label: str) -> Runs:
        here = self._folder.of(baseline, held=False) / machine.fingerprint
        return self._folder.read(here / file_name(test, label))

    def machines(self, baseline: str, test: str, label: str) -> tuple[Machine, ...]:
        return tuple(runs[-1].run.machine for runs in self._runs_of(baseline, [(test, label)]))

    def newest(self, baseline: str) -> Runs:
        return tuple(runs[-1] for runs in self.histories(baseline, held=False))

    def baselines(self) -> tuple[str, ...]:
        roots = [root for root in (self._folder.root, self._folder.root / ".held") if sees_folder(root)]
        named = [path for root in roots for path in entries(root) if not why_no_name(path.name)]
        return tuple(sorted({path.name for path in named if sees_folder(path)}))

    def histories(self, baseline: str, pattern: str = "*", *, held: bool) -> tuple[Runs, ...]:
        read = map(self._folder.read, self._files([self._folder.of(baseline, held=held)]))
        found = [runs for runs in read if runs]
        chosen = chosen_by(pattern, (runs[-1].run.test for runs in found))
        return tuple(runs for runs in found if runs[-1].run.test in chosen)

    def remove(self, baseline: str, pattern: str) -> tuple[str, ...]:
        folders = [self._folder.of(baseline, held=held) for held in (False, True)]
        if not any(map(sees_folder, folders)):
            return ()
        with self._folder.locked():
            found = {path: self._folder.read(path)[-1].run.test for path in self._files(folders)}
            tests = chosen_by(pattern, found.values())
            chosen = {path: test for path, test in found.items() if test in tests}
            for path in chosen:
                self._folder.remove(path)
        return tuple(dict.fromkeys(chosen.values()))

    def save(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        return self._append(baseline, runs, held=False)

    def hold(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        return self._append(baseline, runs, held=True)

    def accept(self, baseline: str, pattern: str) -> tuple[str, ...]:
        waiting, folder = (self._folder.of(baseline, held=held) for held in (True, False))
        if not sees_folder(waiting):
            return ()
        with self._folder.locked():
            found = {path: self._folder.read(path) for path in self._files([waiting])}
            tests = chosen_by(pattern, (runs[-1].run.test for runs in found.values() if runs))
            chosen = {path: runs for path, runs in found.items() if runs and runs[-1].run.test in tests}
            targets = {path: folder / path.relative_to(waiting) for path in chosen}
            for target in targets.values():
                self._folder.read(target)  # a damaged baseline is not overwritten
            contents = dict[Path, bytes]()
            for path, runs in chosen.items():
                newest = runs[-1].run.shown_revision
                contents[targets[path]] = render([one for one in runs if one.run.shown_revision == newest])
            problems = self._folder.write(contents)
            for path, target in targets.items():
                if target not in problems:
                    self._folder.remove(path)  # only now: killed before, it would merely be accepted again
        if problems:
            raise next(iter(problems.values()))
        return tuple(dict.fromkeys(runs[-1].run.test for runs in chosen.values()))

    def prune(self, baseline: str, machine: Machine) -> tuple[str, ...]:
        folder = self._folder.of(baseline, held=False)
        if not sees_folder(folder):
            return ()
        with self._folder.locked():
            here = folder / machine.fingerprint
            replaced = {
                path: runs[-1].run
                for path in self._files([folder])
                if path.parent != here and self._folder.read(here / path.name) and (runs := self._folder.read(path))
            }
            old = {path: run.test for path, run in replaced.items() if run.machine.hardware == machine.hardware}
            for path in old:
                self._folder.remove(path)
        return tuple(dict.fromkeys(old.values()))

    def history(self, baseline: str, pattern: str = "*", *, newest: int = 1000) -> tuple[Series, ...]:
        found = self.histories(baseline, pattern, held=False)
        return tuple(series for runs in found for series in series_of(runs[-newest:]))

    def history_of(self, baseline: str, measured: Iterable[tuple[str, str]], *, newest: int) -> tuple[Series, ...]:
        found = self._runs_of(baseline, dict.fromkeys(measured))
        return tuple(series for runs in found for series in series_of(runs[-newest:]))

    def tests(self, baseline: str, pattern: str = "*") -> tuple[str, ...]:
        return tuple(sorted({runs[-1].run.test for runs in self.histories(baseline, pattern, held=False)}))

    def annotate(self, note: Annotation) -> None:
        with self._folder.locked():
            notes = self.annotations()
            if all((one.revision, one.text) != (note.revision, note.text) for one in notes):
                content = b"".join(to_json(one) + b"\n" for one in (*notes, note))
                replace_file(self._folder.root / _NOTES, content)

    def annotations(self) -> tuple[Annotation, ...]:
        path = self._folder.root / _NOTES
        self._folder.check_links(path)
        if not sees(path):
            return ()
        lines = read_given(path, _LARGEST, "fix that, or delete it", error=StoreError).splitlines()
        try:
            notes = [from_json(Annotation, line) for line in lines if line.strip()]
        except SerialisationError as error:
            raise StoreError(f"{path} holds a line that is no note ({error}): remove that line") from error
        return tuple(sorted(notes, key=lambda note: note.noted_at))

    def keep(self, baseline: str, report: Report) -> None:
        """Keep nothing more: files hold runs alone."""

    def _files(self, folders: Iterable[Path]) -> list[Path]:
        return [path for folder in folders for path in self._folder.files(folder)]

    def _runs_of(self, baseline: str, measured: Iterable[tuple[str, str]]) -> list[Runs]:
        """Return the accepted runs of some tests with their labels on each machine."""
        machines = self._folder.machines(self._folder.of(baseline, held=False))
        found = (self._folder.read(machine / file_name(*one)) for one in measured for machine in machines)
        return [runs for runs in found if runs]

    def _append(self, baseline: str, runs: Sequence[StoredRun], *, held: bool) -> tuple[str | StoreError, ...]:
        """Add runs to their files. A damaged file, or one that cannot be written, is left and hinders no other."""
        folder, apart = (self._folder.of(baseline, held=where) for where in (held, not held))
        mine, paths = dict[str, list[StoredRun]](), [place(stored.run) for stored in runs]
        for path, stored in zip(paths, runs, strict=True):
            mine.setdefault(path, []).append(from_json(StoredRun, to_json(stored)))
        if not mine:
            return ()
        contents, left, problems = dict[Path, bytes](), dict[Path, list[StoredRun]](), dict[Path, StoreError]()
        with self._folder.locked():
            for path, new in mine.items():
                try:
                    old, other = self._folder.read(folder / path), self._readable(apart / path)
                    if unknown := _unknown_in((*old, *other) if held else old, new):
                        contents[folder / path] = render((*old, *unknown)[-self._keep :])
                    if not held and len(waits := _unknown_in(new, other)) < len(other):
                        left[apart / path] = waits
                except StoreError as error:
                    problems[folder / path] = error
            problems |= self._folder.write(contents)
            if not problems:  # killed before, or where one is not saved, it would merely wait for longer
                for done in (waiting for waiting, runs in left.items() if not runs):
                    self._folder.remove(done)
                self._folder.write({waiting: render(runs) for waiting, runs in left.items() if runs})
        return tuple(problems.get(folder / path) or str(folder / path) for path in paths)

    def _readable(self, path: Path) -> Runs:
        """Read one file; () also where it is damaged, which whoever needs it says and which hinders no other."""
        try:
            return self._folder.read(path)
        except StoreError:
            return ()


def _unknown_in(known: Sequence[StoredRun], runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the runs that are not there yet, each once."""
    new = list[StoredRun]()
    for stored in runs:
        if stored not in known and stored not in new:
            new.append(stored)
    return new
