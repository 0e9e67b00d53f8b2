"""Baselines and the memory of a team in a database, behind the same protocol as files of JSON."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Machine, StoredRun
from pytest_hwperf.stats.history import Annotation, Series
from pytest_hwperf.stores.location import check_name
from pytest_hwperf.stores.sql import reading, writing
from pytest_hwperf.stores.sql.database import Database
from pytest_hwperf.stores.sql.reading import StoredRow, entry_of, key_of, why_too_large
from pytest_hwperf.stores.sql.tables import table

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

_NONE: tuple[StoredRun, ...] = ()


class SqlStore:
    """A database of runs: it keeps all of them, compares with the newest, and remembers what a report has judged.

    Each call is a transaction: what has returned is on the disk, and what has raised has changed nothing.
    """

    def __init__(self, location: str, *, patience_s: float = 60.0) -> None:
        """Name a database, which need not have tables yet.

        Args:
            location: URL of SQLAlchemy, without a password: `location.locate` has looked at it.
            patience_s: how long to wait for another writer, and for a server that has gone.

        Raises:
            StoreError: a package that it needs is not installed, or no file can be called so.
        """
        driver, extra = ("alembic", "sql") if location.startswith("sqlite:") else ("psycopg", "postgres")
        require(extra, "a store in a database needs {}", "sqlalchemy", "alembic", driver, error=StoreError)
        self._database = Database(location, patience_s=patience_s)
        self.close = weakref.finalize(self, self._database.close)  # at the end of the process too

    def check(self, baseline: str, *, writing: bool) -> None:
        """Refuse a database that cannot be used, before anything is measured; for writing, give it the newest schema.

        Raises:
            StoreError: names the database, what is wrong with it and what to do.
        """
        _check(baseline)
        if writing:
            self.upgrade()
        else:
            self._database.read(lambda _: None, None)

    def upgrade(self) -> None:
        """Give the database the newest schema.

        Raises:
            StoreError: it cannot be changed.
        """
        self._database.write(writing.try_out)

    def load(self, baseline: str, machine: Machine, test: str, label: str) -> tuple[StoredRun, ...]:
        """Return the newest 20 accepted runs of that test on that machine, oldest first; () where there are none.

        Raises:
            StoreError: it cannot be read, or a run is damaged.
        """
        _check(baseline)

        def found(connection: "Connection") -> tuple[StoredRun, ...]:
            chosen = reading.newest_accepted(baseline, machine.fingerprint, test, label)
            return reading.read_runs(connection, chosen, self._database.name)[::-1]

        return self._read(found, ())

    def machines(self, baseline: str, test: str, label: str) -> tuple[Machine, ...]:
        """Return the machines that have accepted runs of that test.

        Raises:
            StoreError: as of `load`.
        """
        _check(baseline)

        def found(connection: "Connection") -> tuple[Machine, ...]:
            rows = connection.execute(reading.machines_with_runs(baseline, test, label))
            return tuple(reading.machine_of(row.id, row.record) for row in rows)

        return self._read(found, ())

    def newest(self, baseline: str) -> tuple[StoredRun, ...]:
        """Return the newest accepted run of each test and label on each machine.

        Raises:
            StoreError: as of `load`.
        """
        _check(baseline)
        return self._read(
            lambda connection: reading.read_runs(connection, reading.newest_of_each(baseline), self._database.name), ()
        )

    def baselines(self) -> tuple[str, ...]:
        """Return the names of all baselines.

        Raises:
            StoreError: as of `load`.
        """
        return self._read(reading.baseline_names, ())

    def histories(self, baseline: str, pattern: str = "*", *, held: bool) -> Iterator[tuple[StoredRun, ...]]:
        """Yield all accepted or all held runs of each test, label and machine, oldest first, of tests as for `accept`.

        Raises:
            StoreError: as of `load`.
        """
        _check(baseline)
        state = writing.HELD if held else writing.ACCEPTED
        for place in self._places(baseline, pattern):
            if runs := self._read(_reader(place.id, state, self._database.name), _NONE):
                yield runs

    def remove(self, baseline: str, pattern: str) -> tuple[str, ...]:
        """Remove all runs of the tests whose id matches `pattern`, as for `accept`, their history too; return the ids.

        Raises:
            StoreError: it cannot be written.
        """
        _check(baseline)
        if not self._places(baseline, pattern):
            return ()

        def removed(connection: "Connection") -> tuple[str, ...]:
            places = reading.places(connection, baseline, pattern)
            writing.remove_places(connection, places)
            return tuple(dict.fromkeys(place.test for place in places))

        return self._database.write(removed)

    def save(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        """Add accepted runs; one that is there already changes nothing.

        Returns:
            Where each lies, or why it was not stored: the others are.

        Raises:
            StoreError: none can be stored.
        """
        return self._add(baseline, runs, writing.ACCEPTED)

    def hold(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        """Keep failed runs apart until `accept`; return and raise as `save`."""
        return self._add(baseline, runs, writing.HELD)

    def accept(self, baseline: str, pattern: str) -> tuple[str, ...]:
        """Make held runs whose test id matches `pattern` the baseline; return the ids.

        `*` and `?` are wildcards; brackets are not. The test's earlier runs, and held ones of other revisions than the
        newest held one, are no longer compared with: they stay in the history.

        Raises:
            StoreError: one is damaged (then none is accepted), or it cannot be written.
        """
        _check(baseline)
        if not self._places(baseline, pattern):
            return ()

        def accepted(connection: "Connection") -> tuple[str, ...]:
            places = reading.places(connection, baseline, pattern)
            return tuple(dict.fromkeys(one.test for one in places if writing.accept_runs(connection, one)))

        return self._database.write(accepted)

    def prune(self, baseline: str, machine: Machine) -> tuple[str, ...]:
        """Compare no more with runs that this machine saved with other versions and has saved again; return their ids.

        They stay in the history.

        Raises:
            StoreError: it cannot be written.
        """
        _check(baseline)
        if not self._places(baseline, "*"):
            return ()

        def pruned(connection: "Connection") -> tuple[str, ...]:
            places = reading.places_with_runs(connection, baseline)
            return tuple(dict.fromkeys(one.test for one in writing.supersede_replaced(connection, places, machine)))

        return self._database.write(pruned)

    def keep(self, baseline: str, report: Report) -> None:
        """Keep the runs of a report with their verdicts; a second time it changes nothing.

        Raises:
            StoreError: it is not stored; says why.
        """
        _check(baseline)
        kept = writing.kept_of(report)
        if kept:
            self._database.write(lambda connection: writing.add_report(connection, baseline, kept))

    def history(self, baseline: str, pattern: str = "*", *, newest: int = 1000) -> tuple[Series, ...]:
        """Return the values of each series of the tests whose id matches `pattern`, of the newest runs of each test.

        Raises:
            StoreError: it cannot be read.
        """
        _check(baseline)

        def found(connection: "Connection") -> tuple[Series, ...]:
            return reading.series_at(connection, reading.places(connection, baseline, pattern), newest)

        return self._read(found, ())

    def history_of(self, baseline: str, measured: Iterable[tuple[str, str]], *, newest: int) -> tuple[Series, ...]:
        """Return the series of some tests with their labels, as `history` does.

        Raises:
            StoreError: it cannot be read.
        """
        _check(baseline)
        wanted = tuple(dict.fromkeys(measured))

        def found(connection: "Connection") -> tuple[Series, ...]:
            return reading.series_at(connection, reading.places_of(connection, baseline, wanted), newest)

        return self._read(found, ())

    def tests(self, baseline: str, pattern: str = "*") -> tuple[str, ...]:
        """Return the ids of all tests that match `pattern`.

        Raises:
            StoreError: it cannot be read.
        """
        _check(baseline)
        return tuple(sorted({place.test for place in self._places(baseline, pattern)}))

    def annotate(self, note: Annotation) -> None:
        """Keep a note; the same text at the same revision changes nothing.

        Raises:
            StoreError: it is not stored; says why.
        """
        row = {"revision": note.revision, "text": note.text, "noted_at": note.noted_at}
        key = key_of(note.revision, note.text)
        self._database.write(lambda connection: writing.ids_of(connection, table("annotation"), {key: row}))

    def annotations(self) -> tuple[Annotation, ...]:
        """Return all notes, oldest first.

        Raises:
            StoreError: it cannot be read.
        """
        return self._read(lambda connection: tuple(reading.notes(connection)), ())

    def _read(self, action: "Callable[[Connection], T]", empty: T) -> T:
        return self._database.read(action, empty)

    def _places(self, baseline: str, pattern: str) -> list[reading.RunsPlace]:
        return self._read(lambda connection: reading.places(connection, baseline, pattern), [])

    def _add(self, baseline: str, runs: Sequence[StoredRun], state: str) -> tuple[str | StoreError, ...]:
        _check(baseline)
        found = [why_too_large(stored) or entry_of(stored) for stored in runs]
        entries = [one for one in found if isinstance(one, StoredRow)]
        if not entries:
            return tuple(one for one in found if isinstance(one, StoreError))
        added = self._database.write(lambda connection: writing.add_runs(connection, baseline, entries, state))
        numbers, name = iter(added), self._database.name
        return tuple(one if isinstance(one, StoreError) else f"{name} run {next(numbers)}" for one in found)


def _check(baseline: str) -> None:
    try:
        check_name(baseline)
    except ValueError as problem:
        raise StoreError(f"baseline name {problem}") from problem


def _reader(place: int, state: str, name: str) -> "Callable[[Connection], tuple[StoredRun, ...]]":
    return lambda connection: reading.read_runs(connection, reading.runs_in(place, state), name)
