"""Statements that read the database: by keys and indexes, whatever else it holds."""

import fnmatch
import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pytest_hwperf.records.codec import from_json, to_json, to_short_json
from pytest_hwperf.records.errors import SerialisationError, StoreError
from pytest_hwperf.records.run import Estimate, Machine, StoredRun
from pytest_hwperf.stats.history import Annotation, PastValue, Series, Statistic, lined_up
from pytest_hwperf.stores.sql.tables import Damaged, table

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Select


LARGEST = 50_000_000  # bytes of a run, as of a file of baselines: a larger one is not loaded into memory

_DAMAGED = "restore a backup, or remove the test's runs with hwperf baseline remove"


class StoredRow(NamedTuple):
    """A stored run with its row."""

    stored: StoredRun
    digest: (
        bytes  # SHA-256 of its short JSON, the same in versions with more fields: a run that is there changes nothing
    )
    record: bytes  # this JSON, compressed


def entry_of(stored: StoredRun) -> StoredRow:
    """Write a stored run."""
    known = from_json(StoredRun, to_json(stored))
    text = to_short_json(known)
    return StoredRow(stored=known, digest=hashlib.sha256(text).digest(), record=zlib.compress(text))


def why_too_large(stored: StoredRun) -> StoreError | None:
    """Return why a run is not stored, None where it can be."""
    if (size := len(to_json(stored, check=False))) <= LARGEST:
        return None
    return StoreError(
        f"a run of {stored.run.test} takes {size / 1e6:.1f} MB, and {LARGEST / 1e6:g} MB are stored at most: give "
        "fewer examples with y_true="
    )


def stored_of(place: str, digest: bytes, record: bytes) -> StoredRun:
    """Read what `entry_of` wrote."""
    try:
        text = _unpacked(record)
        if hashlib.sha256(text).digest() != bytes(digest):
            raise StoreError(f"{place} was changed (its digest does not fit): {_DAMAGED}")
        return from_json(StoredRun, text)
    except (zlib.error, SerialisationError) as error:
        raise StoreError(f"{place} holds no valid run ({error}): {_DAMAGED}") from error


def _unpacked(record: bytes) -> bytes:
    """Decompress at most as much as is ever written: few bytes can stand for gigabytes."""
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(record, LARGEST)
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise zlib.error("cut off, or larger than any run")
    return text


def key_of(*parts: object) -> str:
    """Return 32 hexadecimal digits that stand for texts of any length and content."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def test_key(test: str, label: str) -> str:
    """Return the key of a test with its label."""
    return key_of(test, label)


def baseline_key(name: str, fingerprint: str, test: str, label: str) -> str:
    """Return the key of the runs of one test on one machine."""
    return key_of(name, fingerprint, test, label)


T = TypeVar("T")

_ESTIMATE = ("run_id", "metric_id", "value", "low", "high", "n", "warnings")
_AT_ONCE = 500  # values in a condition: each database has its own limit of parameters
KEEP = 20  # newest accepted runs of a test on a machine that are compared with, as the store of JSON files keeps


class RunsPlace(NamedTuple):
    """The runs of one test on one machine under a baseline's name."""

    id: int
    test_id: int
    machine_id: int
    test: str
    label: str


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values, as many at once as a condition takes."""
    return (values[first : first + _AT_ONCE] for first in range(0, len(values), _AT_ONCE))


def newest_accepted(baseline: str, fingerprint: str, test: str, label: str) -> "Select[Any]":
    """Select the newest accepted runs of a test on a machine, the newest first."""
    from sqlalchemy import select

    run, place = table("run"), table("baseline")
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

    run, place, machine, tests = table("run"), table("baseline"), table("machine"), table("test")
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

    run, place = table("run"), table("baseline")
    newest = select(func.max(run.c.id)).where(run.c.baseline_id == place.c.id, run.c.state == "accepted")
    numbers = select(newest.scalar_subquery()).where(place.c.name == baseline)
    return select(run.c.id, run.c.digest, run.c.record).where(run.c.id.in_(numbers))


def runs_in(place: int, state: str) -> "Select[Any]":
    """Select the runs of a test on a machine that are in a state, the oldest first."""
    from sqlalchemy import select

    run = table("run")
    columns = (run.c.id, run.c.digest, run.c.record, run.c.revision, run.c.changed)
    return select(*columns).where(run.c.baseline_id == place, run.c.state == state).order_by(run.c.id)


def places_named(baseline: str, pattern: str) -> "Select[Any]":
    """Select the tests of a baseline; a name without wildcards is looked up, else every test is looked at."""
    from sqlalchemy import select

    place, test = table("baseline"), table("test")
    found = (
        select(place.c.id, place.c.test_id, place.c.machine_id, test.c.name, test.c.label)
        .join_from(place, test, test.c.id == place.c.test_id)
        .where(place.c.name == baseline)
        .order_by(place.c.id)
    )
    return found if {"*", "?"} & {*pattern} else found.where(test.c.name_key == key_of(pattern))


def newest_runs_of(place: int, newest: int) -> "Select[Any]":
    """Select what a series tells of the newest runs of a test on a machine, whether they are of the baseline or not."""
    from sqlalchemy import select

    run = table("run")
    columns = (run.c.id, run.c.started_at, run.c.revision, run.c.changed, run.c.state)
    return select(*columns).where(run.c.baseline_id == place).order_by(run.c.id.desc()).limit(newest)


def estimates_of(place: int, newest: int) -> "Select[Any]":
    """Select the estimates of these runs."""
    from sqlalchemy import literal, select

    chosen, estimate = newest_runs_of(place, newest).subquery("chosen"), table("estimate")
    columns = [estimate.c[name] for name in _ESTIMATE]
    return select(*columns, literal("")).join_from(chosen, estimate, estimate.c.run_id == chosen.c.id)


def changes_of(place: int, newest: int) -> "Select[Any]":
    """Select the changes of these runs from an anchor."""
    from sqlalchemy import literal_column, select

    chosen, verdict = newest_runs_of(place, newest).subquery("chosen"), table("verdict")
    is_change = (verdict.c.value.is_not(None), verdict.c.scale == "relative")
    return (
        select(*(verdict.c[name] for name in _ESTIMATE), verdict.c.revision)
        .join_from(chosen, verdict, verdict.c.run_id == chosen.c.id)
        .where(verdict.c.anchored.is_(literal_column("true")), *is_change)
    )


def metrics_with(numbers: Collection[int]) -> "Select[Any]":
    """Select metrics by their rows."""
    from sqlalchemy import select

    metric = table("metric")
    return select(metric).where(metric.c.id.in_(list(numbers)))


def read_runs(connection: "Connection", selected: "Select[Any]", where: str) -> tuple[StoredRun, ...]:
    """Read runs."""
    rows = connection.execute(selected)
    return tuple(stored_of(f"run {row.id} of {where}", row.digest, row.record) for row in rows)


def places(connection: "Connection", baseline: str, pattern: str) -> list[RunsPlace]:
    """Return the tests of a baseline whose id matches the glob `pattern`, in which brackets are no wildcards."""
    found = (RunsPlace(*row) for row in connection.execute(places_named(baseline, pattern)))
    literal = pattern.replace("[", "[[]")
    return [place for place in found if fnmatch.fnmatchcase(place.test, literal)]


def places_measured(baseline: str, keys: Collection[str]) -> "Select[Any]":
    """Select tests of a baseline by their keys."""
    return places_named(baseline, "*").where(table("test").c.key.in_(keys))


def places_of(connection: "Connection", baseline: str, measured: Sequence[tuple[str, str]]) -> list[RunsPlace]:
    """Return some tests of a baseline, each with its label."""
    keys = [test_key(test, label) for test, label in measured]
    return [RunsPlace(*row) for part in chunks(keys) for row in connection.execute(places_measured(baseline, part))]


def places_with_runs(connection: "Connection", baseline: str) -> list[RunsPlace]:
    """Return the tests of a baseline that have accepted runs."""
    from sqlalchemy import select

    run, place = table("run"), table("baseline")
    accepted = select(run.c.id).where(run.c.baseline_id == place.c.id, run.c.state == "accepted").exists()
    return [RunsPlace(*row) for row in connection.execute(places_named(baseline, "*").where(accepted))]


def baseline_names(connection: "Connection") -> tuple[str, ...]:
    """Return the names of all baselines."""
    from sqlalchemy import select

    return tuple(sorted(connection.scalars(select(table("baseline").c.name).distinct())))


def held_rows(connection: "Connection", place: int) -> "Sequence[Row[Any]]":
    """Return the held runs of a test on a machine, the oldest first."""
    return connection.execute(runs_in(place, "held")).all()


def machines_of(connection: "Connection", numbers: Collection[int]) -> dict[int, Machine]:
    """Return machines by their rows; there are few."""
    from sqlalchemy import select

    machine = table("machine")
    rows = connection.execute(select(machine.c.id, machine.c.record).where(machine.c.id.in_(list(numbers))))
    found = {row.id: machine_of(row.id, row.record) for row in rows}
    if missing := {*numbers} - {*found}:
        raise Damaged(f"machine {min(missing)} is missing")
    return found


def machine_of(number: int, record: str) -> Machine:
    """Read a machine."""
    try:
        return from_json(Machine, record)
    except SerialisationError as error:
        raise StoreError(f"machine {number} of the store is damaged ({error}): restore a backup") from error


def series_at(connection: "Connection", found: Sequence[RunsPlace], newest: int) -> tuple[Series, ...]:
    """Return every statistic of some tests over time."""
    machines = machines_of(connection, {place.machine_id for place in found})
    lines = (series_of(connection, one, machines[one.machine_id], newest) for one in found)
    return tuple(line for of_place in lines for line in of_place)


def series_of(connection: "Connection", place: RunsPlace, machine: Machine, newest: int) -> tuple[Series, ...]:
    """Return every statistic of a test on a machine over time, of its newest runs."""
    runs = {row.id: row for row in connection.execute(newest_runs_of(place.id, newest))}
    found = [row for one in (estimates_of, changes_of) for row in connection.execute(one(place.id, newest))]
    metrics = {row.id: row for row in connection.execute(metrics_with({row[1] for row in found}))}
    try:
        series = lined_up(place.test, place.label, machine, _values(sorted(found, key=_run_of), runs, metrics))
        for one in series:
            to_json(one)  # columns hold what their writer liked: this refuses what is no such record
    except (SerialisationError, ValueError, TypeError, KeyError) as error:
        raise StoreError(f"the history of {place.test} is damaged ({error}): restore a backup") from error
    return series


def notes(connection: "Connection") -> list[Annotation]:
    """Return all notes, oldest first."""
    from sqlalchemy import select

    note = table("annotation")
    rows = connection.execute(select(note).order_by(note.c.noted_at, note.c.id))
    return [Annotation(revision=row.revision, text=row.text, noted_at=row.noted_at) for row in rows]


def _run_of(row: "Row[Any]") -> int:
    return int(row[0])


def _values(
    rows: "Iterable[Row[Any]]", runs: "Mapping[int, Row[Any]]", metrics: "Mapping[int, Row[Any]]"
) -> Iterator[tuple[Statistic, PastValue]]:
    """Yield what the columns say; what a run or a metric has in common is read once."""
    facts = {
        number: {
            "started_at": run.started_at,
            "revision": run.revision,
            "changed": bool(run.changed),
            "accepted": run.state in ("accepted", "superseded"),
        }
        for number, run in runs.items()
    }
    known = {
        number: (Statistic(one.name, one.statistic, one.source, one.better), one.confidence, one.method)
        for number, one in metrics.items()
    }
    for row in rows:
        run_id, metric_id, value, low, high, n, warnings, anchor = tuple[Any, ...](row)
        statistic, confidence, method = known[metric_id]
        if warnings:
            estimate = from_json(Estimate, warnings)
        else:
            estimate = Estimate(value=value, low=low, high=high, confidence=confidence, n=n, method=method)
        yield statistic._replace(anchor=anchor) if anchor else statistic, PastValue(**facts[run_id], estimate=estimate)
