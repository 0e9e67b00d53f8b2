"""Statements that read the database: by keys and indexes, whatever else it holds."""

import fnmatch
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_hwperf.core.errors import SerialisationError, StoreError
from pytest_hwperf.core.history import Annotation, PastValue, Series, Statistic, lined_up
from pytest_hwperf.core.records import Estimate, Machine, StoredRun
from pytest_hwperf.core.serialisation import from_json, to_json
from pytest_hwperf.stores.sql.entries import baseline_key, key_of, stored_of, test_key
from pytest_hwperf.stores.sql.tables import tables

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Select

KEEP = 20  # newest accepted runs of a test on a machine that are compared with, as the store of JSON files keeps


class Place(NamedTuple):
    """The runs of one test on one machine under a baseline's name."""

    id: int
    test_id: int
    machine_id: int
    test: str
    label: str


def newest_accepted(baseline: str, fingerprint: str, test: str, label: str) -> "Select[Any]":
    """Select the newest accepted runs of a test on a machine, the newest first."""
    from sqlalchemy import select

    run, place = tables().run, tables().baseline
    number = select(place.c.id).where(place.c.key == baseline_key(baseline, fingerprint, test, label))
    return (
        select(run.c.id, run.c.digest, run.c.record)
        .where(run.c.baseline_id == number.scalar_subquery(), run.c.state == "accepted")
        .order_by(run.c.id.desc())
        .limit(KEEP)
    )


def machines_with_runs(baseline: str, test: str, label: str) -> "Select[Any]":
    """Select the machines that have accepted runs of a test."""
    from sqlalchemy import select

    run, place, machine, tests = tables().run, tables().baseline, tables().machine, tables().test
    number = select(tests.c.id).where(tests.c.key == test_key(test, label)).scalar_subquery()
    accepted = select(run.c.id).where(run.c.baseline_id == place.c.id, run.c.state == "accepted").exists()
    return (
        select(machine.c.id, machine.c.record)
        .join_from(place, machine, machine.c.id == place.c.machine_id)
        .where(place.c.test_id == number, place.c.name == baseline, accepted)
        .order_by(place.c.id)
    )


def newest_of_each(baseline: str) -> "Select[Any]":
    """Select the newest accepted run of each test, label and machine."""
    from sqlalchemy import func, select

    run, place = tables().run, tables().baseline
    newest = select(func.max(run.c.id)).where(run.c.baseline_id == place.c.id, run.c.state == "accepted")
    numbers = select(newest.scalar_subquery()).where(place.c.name == baseline)
    return select(run.c.id, run.c.digest, run.c.record).where(run.c.id.in_(numbers))


def runs_in(place: int, state: str) -> "Select[Any]":
    """Select the runs of a test on a machine that are in a state, the oldest first."""
    from sqlalchemy import select

    run = tables().run
    columns = (run.c.id, run.c.digest, run.c.record, run.c.revision, run.c.changed)
    return select(*columns).where(run.c.baseline_id == place, run.c.state == state).order_by(run.c.id)


def places_named(baseline: str, pattern: str) -> "Select[Any]":
    """Select the tests of a baseline; a name without wildcards is looked up, else every test is looked at."""
    from sqlalchemy import select

    place, test = tables().baseline, tables().test
    found = (
        select(place.c.id, place.c.test_id, place.c.machine_id, test.c.name, test.c.label)
        .join_from(place, test, test.c.id == place.c.test_id)
        .where(place.c.name == baseline)
        .order_by(place.c.id)
    )
    return found if {"*", "?"} & {*pattern} else found.where(test.c.name_key == key_of(pattern))


def figures_of(place: int, newest: int) -> "Select[Any]":
    """Select the estimates of the newest runs of a test on a machine."""
    from sqlalchemy import select

    run, estimate, metric = tables().run, tables().estimate, tables().metric
    numbers = (
        select(run.c.id).where(run.c.baseline_id == place).order_by(run.c.id.desc()).limit(newest).subquery("chosen")
    )
    return (
        select(*_run_columns(), *_estimate_columns(estimate), *_metric_columns())
        .join_from(numbers, run, run.c.id == numbers.c.id)
        .join(estimate, estimate.c.run_id == run.c.id)
        .join(metric, metric.c.id == estimate.c.metric_id)
        .order_by(run.c.id)
    )


def anchored_changes_of(place: int, newest: int) -> "Select[Any]":
    """Select the changes from an anchor of the newest runs of a test on a machine."""
    from sqlalchemy import literal_column, select

    run, comparison, metric = tables().run, tables().comparison, tables().metric
    numbers = (
        select(run.c.id).where(run.c.baseline_id == place).order_by(run.c.id.desc()).limit(newest).subquery("chosen")
    )
    return (
        select(
            *_run_columns(), *_estimate_columns(comparison), *_metric_columns(), comparison.c.revision.label("anchor")
        )
        .join_from(numbers, run, run.c.id == numbers.c.id)
        .join(comparison, comparison.c.run_id == run.c.id)
        .join(metric, metric.c.id == comparison.c.metric_id)
        .where(
            comparison.c.anchored.is_(literal_column("true")),
            comparison.c.value.is_not(None),
            comparison.c.scale == "relative",
        )
        .order_by(run.c.id)
    )


def read_runs(connection: "Connection", selected: "Select[Any]", where: str) -> tuple[StoredRun, ...]:
    """Read runs.

    Raises:
        StoreError: one is damaged.
    """
    rows = connection.execute(selected)
    return tuple(stored_of(f"run {row.id} of {where}", row.digest, row.record) for row in rows)


def places(connection: "Connection", baseline: str, pattern: str) -> list[Place]:
    """Return the tests of a baseline whose id matches the glob `pattern`, in which brackets are no wildcards."""
    found = (Place(*row) for row in connection.execute(places_named(baseline, pattern)))
    literal = pattern.replace("[", "[[]")
    return [place for place in found if fnmatch.fnmatchcase(place.test, literal)]


def places_with_runs(connection: "Connection", baseline: str) -> list[Place]:
    """Return the tests of a baseline that have accepted runs."""
    from sqlalchemy import select

    run, place = tables().run, tables().baseline
    accepted = select(run.c.id).where(run.c.baseline_id == place.c.id, run.c.state == "accepted").exists()
    return [Place(*row) for row in connection.execute(places_named(baseline, "*").where(accepted))]


def baseline_names(connection: "Connection") -> tuple[str, ...]:
    """Return the names of all baselines."""
    from sqlalchemy import select

    return tuple(sorted(connection.scalars(select(tables().baseline.c.name).distinct())))


def held_rows(connection: "Connection", place: int) -> "Sequence[Row[Any]]":
    """Return the held runs of a test on a machine, the oldest first."""
    return connection.execute(runs_in(place, "held")).all()


def machines_of(connection: "Connection", numbers: Collection[int]) -> dict[int, Machine]:
    """Return machines by their rows; there are few."""
    from sqlalchemy import select

    machine = tables().machine
    rows = connection.execute(select(machine.c.id, machine.c.record).where(machine.c.id.in_(list(numbers))))
    return {row.id: machine_of(row.id, row.record) for row in rows}


def machine_of(number: int, record: str) -> Machine:
    """Read a machine.

    Raises:
        StoreError: it is damaged.
    """
    try:
        return from_json(Machine, record)
    except SerialisationError as error:
        raise StoreError(f"machine {number} of the store is damaged ({error}): restore a backup") from error


def series_of(connection: "Connection", place: Place, machine: Machine, newest: int) -> tuple[Series, ...]:
    """Return every statistic of a test on a machine over time, of its newest runs.

    Raises:
        StoreError: a row is damaged.
    """
    found = [row for one in (figures_of, anchored_changes_of) for row in connection.execute(one(place.id, newest))]
    try:
        series = lined_up(place.test, place.label, machine, map(_value, found))
        for one in series:
            to_json(one)  # columns hold what their writer liked: this refuses what is no such record
    except (SerialisationError, ValueError, TypeError) as error:
        raise StoreError(f"the history of {place.test} is damaged ({error}): restore a backup") from error
    return series


def notes(connection: "Connection") -> list[Annotation]:
    """Return all notes, oldest first."""
    from sqlalchemy import select

    note = tables().annotation
    rows = connection.execute(select(note).order_by(note.c.noted_at, note.c.id))
    return [Annotation(revision=row.revision, text=row.text, noted_at=row.noted_at) for row in rows]


def _value(row: "Row[Any]") -> tuple[Statistic, PastValue]:
    anchor = getattr(row, "anchor", "")
    statistic = Statistic(row.name, row.statistic, row.source, row.better, anchor)
    if row.warnings:
        estimate = from_json(Estimate, row.warnings)
    else:
        estimate = Estimate(
            value=row.value, low=row.low, high=row.high, confidence=row.confidence, n=row.n, method=row.method
        )
    past = PastValue(
        started_at=row.started_at,
        revision=row.revision,
        changed=bool(row.changed),
        estimate=estimate,
        accepted=row.state in ("accepted", "superseded"),
    )
    return statistic, past


def _run_columns() -> list[Any]:
    run = tables().run
    return [run.c.id, run.c.state, run.c.started_at, run.c.revision, run.c.changed]


def _estimate_columns(table: Any) -> list[Any]:
    return [table.c[name] for name in ("value", "low", "high", "n", "warnings")]


def _metric_columns() -> list[Any]:
    metric = tables().metric
    return [metric.c[name] for name in ("name", "statistic", "source", "better", "method", "confidence")]
