"""Baselines and the memory of a team in a database."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_hwperf.host.extras import require
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Machine, StoredRun
from pytest_hwperf.stats.stored.history import Annotation, Series
from pytest_hwperf.stores.sql import rows
from pytest_hwperf.stores.sql.database import Database
from pytest_hwperf.stores.sql.rows import ACCEPTED, HELD, RunsPlace, StoredRow, entry_of, key_of
from pytest_hwperf.stores.sql.tables import select, table
from pytest_hwperf.stores.store import KEEP, Store, check_baseline

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Select


class SqlStore(Store):
    """A database of runs: it keeps all of them, compares with the newest, and remembers what a report has judged.

    Each call is a transaction: what has returned is on the disk, and what has raised has changed nothing. What is
    replaced in the baseline stays in the history; only `remove` deletes.
    """

    def __init__(self, location: str, *, patience_s: float = 60.0) -> None:
        """Name a database, which need not have tables yet.

        `location` is a URL of SQLAlchemy without a password, as `location.locate` returns it. `patience_s` is how long
        to wait for another writer, and for a server that has gone.
        """
        driver, extra = ("alembic", "sql") if location.startswith("sqlite:") else ("psycopg", "postgres")
        require(extra, "a store in a database needs {}", "sqlalchemy", "alembic", driver, error=StoreError)
        self._database = Database(location, patience_s=patience_s)
        self.close = weakref.finalize(self, self._database.close)  # at the end of the process too

    def check(self, baseline: str, *, writing: bool) -> None:
        check_baseline(baseline)
        if writing:
            self.upgrade()
        else:
            self._database.read(lambda _: None, None)

    def upgrade(self) -> None:
        """Give the database the newest schema."""
        self._database.write(rows.try_out)

    def load(self, baseline: str, machine: Machine, test: str, label: str) -> tuple[StoredRun, ...]:
        check_baseline(baseline)
        run, place = table("run"), table("baseline")
        key = key_of(baseline, machine.fingerprint, test, label)
        number = select(place.c.id).where(place.c.key == key).scalar_subquery()
        newest = rows.runs_where(run.c.baseline_id == number, run.c.state == ACCEPTED).order_by(None)
        return self._runs(newest.order_by(run.c.id.desc()).limit(KEEP))[::-1]

    def machines(self, baseline: str, test: str, label: str) -> tuple[Machine, ...]:
        found = self._places(baseline, lambda connection: rows.places_of(connection, baseline, [(test, label)]))
        return tuple(place.machine for place in found if place.has_accepted)

    def newest(self, baseline: str) -> tuple[StoredRun, ...]:
        from sqlalchemy import func

        check_baseline(baseline)
        run, place = table("run"), table("baseline")
        newest = select(func.max(run.c.id)).where(run.c.baseline_id == place.c.id, run.c.state == ACCEPTED)
        numbers = select(newest.scalar_subquery()).where(place.c.name == baseline)
        return self._runs(rows.runs_where(run.c.id.in_(numbers)))

    def baselines(self) -> tuple[str, ...]:
        names = select(table("baseline").c.name).distinct()
        return tuple(sorted(self._database.read(lambda connection: [*connection.scalars(names)], list[str]())))

    def histories(self, baseline: str, pattern: str = "*", *, held: bool) -> Iterator[tuple[StoredRun, ...]]:
        run, state = table("run"), HELD if held else ACCEPTED
        for place in self._matching(baseline, pattern):
            if runs := self._runs(rows.runs_where(run.c.baseline_id == place.id, run.c.state == state)):
                yield runs

    def remove(self, baseline: str, pattern: str) -> tuple[str, ...]:
        place = table("baseline")

        def removed(connection: "Connection", found: list[RunsPlace]) -> list[RunsPlace]:
            for chunk in rows.chunks([one.id for one in found]):
                connection.execute(place.delete().where(place.c.id.in_(chunk)))  # with all that is known of its runs
            return found

        return self._changed(baseline, pattern, removed)

    def save(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        return self._add(baseline, runs, ACCEPTED)

    def hold(self, baseline: str, runs: Sequence[StoredRun]) -> tuple[str | StoreError, ...]:
        return self._add(baseline, runs, HELD)

    def accept(self, baseline: str, pattern: str) -> tuple[str, ...]:
        name = self._database.name
        return self._changed(baseline, pattern, lambda one, found: rows.accept_runs(one, found, name))

    def prune(self, baseline: str, machine: Machine) -> tuple[str, ...]:
        def pruned(connection: "Connection", found: list[RunsPlace]) -> list[RunsPlace]:
            known = [place for place in found if place.has_accepted]
            others = [one for one in known if one.machine.fingerprint != machine.fingerprint]
            here = {(one.test, one.label) for one in known if one not in others}
            alike = [one for one in others if one.machine.hardware == machine.hardware]
            old = [one for one in alike if (one.test, one.label) in here]
            rows.supersede(connection, old)
            return old

        return self._changed(baseline, "*", pruned)

    def history(self, baseline: str, pattern: str = "*", *, newest: int = 1000) -> tuple[Series, ...]:
        return self._series(lambda connection: rows.places_matching(connection, baseline, pattern), baseline, newest)

    def history_of(self, baseline: str, measured: Iterable[tuple[str, str]], *, newest: int) -> tuple[Series, ...]:
        wanted = [*measured]
        return self._series(lambda connection: rows.places_of(connection, baseline, wanted), baseline, newest)

    def tests(self, baseline: str, pattern: str = "*") -> tuple[str, ...]:
        return tuple(sorted({place.test for place in self._matching(baseline, pattern)}))

    def annotate(self, note: Annotation) -> None:
        row = {"revision": note.revision, "text": note.text, "noted_at": note.noted_at}
        keyed = {key_of(note.revision, note.text): row}
        self._database.write(lambda connection: rows.ids_of(connection, table("annotation"), keyed))

    def annotations(self) -> tuple[Annotation, ...]:
        note = table("annotation")
        chosen = select(note.c.revision, note.c.text, note.c.noted_at).order_by(note.c.noted_at, note.c.id)
        found = self._rows(chosen)
        return tuple(Annotation(revision=row.revision, text=row.text, noted_at=row.noted_at) for row in found)

    def keep(self, baseline: str, report: Report) -> None:
        check_baseline(baseline)
        if kept := [*rows.kept_of(report)]:
            self._database.write(lambda connection: rows.add_verdicts(connection, baseline, kept))

    def _runs(self, selected: "Select[Any]") -> tuple[StoredRun, ...]:
        return rows.read_runs(self._rows(selected), self._database.name)

    def _rows(self, selected: "Select[Any]") -> "Sequence[Row[Any]]":
        none: Sequence[Row[Any]] = ()
        return self._database.read(lambda connection: connection.execute(selected).all(), none)

    def _places(self, baseline: str, find: "Callable[[Connection], list[RunsPlace]]") -> list[RunsPlace]:
        check_baseline(baseline)
        return self._database.read(find, [])

    def _matching(self, baseline: str, pattern: str) -> list[RunsPlace]:
        return self._places(baseline, lambda connection: rows.places_matching(connection, baseline, pattern))

    def _series(
        self, find: "Callable[[Connection], list[RunsPlace]]", baseline: str, newest: int
    ) -> tuple[Series, ...]:
        check_baseline(baseline)
        return self._database.read(lambda connection: rows.series_at(connection, find(connection), newest), ())

    def _changed(
        self,
        baseline: str,
        pattern: str,
        change: "Callable[[Connection, list[RunsPlace]], list[RunsPlace]]",
    ) -> tuple[str, ...]:
        """Change the runs of some tests and return their ids; where there are none, nothing is written."""
        if not self._matching(baseline, pattern):
            return ()
        changed = self._database.write(
            lambda connection: change(connection, rows.places_matching(connection, baseline, pattern))
        )
        return tuple(dict.fromkeys(place.test for place in changed))

    def _add(self, baseline: str, runs: Sequence[StoredRun], state: str) -> tuple[str | StoreError, ...]:
        check_baseline(baseline)
        found = [entry_of(stored) for stored in runs]
        entries = [one for one in found if isinstance(one, StoredRow)]
        if not entries:
            return tuple(one for one in found if isinstance(one, StoreError))
        added = self._database.write(lambda connection: rows.add_runs(connection, baseline, entries, state))
        numbers, name = iter(added), self._database.name
        return tuple(one if isinstance(one, StoreError) else f"{name} run {next(numbers)}" for one in found)
