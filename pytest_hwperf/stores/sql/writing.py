"""Statements that change the database; each function is called by the only writer, within its transaction."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_hwperf.core.metrics import Better, metric_of
from pytest_hwperf.core.records import Figure, Machine, Run
from pytest_hwperf.core.serialisation import to_json
from pytest_hwperf.stores.sql.entries import Entry, baseline_key, key_of, stored_of, test_key
from pytest_hwperf.stores.sql.reading import Place, held_rows, machines_of
from pytest_hwperf.stores.sql.tables import tables

if TYPE_CHECKING:
    from sqlalchemy import Connection, TableClause

Row = Mapping[str, Any]

ACCEPTED, HELD = "accepted", "held"
SUPERSEDED, KEPT = "superseded", "kept"  # was of the baseline; never was, and waits for nothing

# What a run that is there already may have been, to become what it is added as: nothing takes it from the baseline, and
# what was replaced in the baseline does not come back.
_BECOMES = {ACCEPTED: (KEPT, HELD), HELD: (KEPT,), KEPT: ()}

_CHUNK = 500  # values in a condition


def add_runs(connection: "Connection", name: str, entries: Sequence[Entry], state: str) -> list[int]:
    """Add runs to a baseline, but for those that it has already; return the number of each row."""
    table = tables().run
    places = _baselines(connection, name, [entry.stored.run for entry in entries])
    of_entry = [(places[_place_key(name, entry.stored.run)], entry.digest) for entry in entries]
    known = _known_runs(connection, of_entry)
    new, number = dict[tuple[int, bytes], Entry](), _last_id(connection, table)
    for key, entry in zip(of_entry, entries, strict=True):
        if key not in known:
            number += 1
            known[key], new[key] = number, entry
    _insert(connection, table, [_run_row(known[key], key[0], entry, state) for key, entry in new.items()])
    _add_estimates(connection, {known[key]: entry for key, entry in new.items()})
    for before in _BECOMES[state]:
        _change_state(connection, [known[key] for key in of_entry if key not in new], before, state)
    return [known[key] for key in of_entry]


def try_out(connection: "Connection") -> None:
    """Find out whether runs can be added, removed and accepted: rights are asked for though nothing is there."""
    for name in ("run", "estimate", "comparison", "pair", "verdict", "baseline"):
        table = getattr(tables(), name)
        connection.execute(table.delete().where(table.c[table.c.keys()[0]] == -1))
    run = tables().run
    connection.execute(run.update().where(run.c.id == -1).values(state=KEPT))


def accept_runs(connection: "Connection", place: Place) -> bool:
    """Make the newest held revision of a test the baseline: its earlier runs are history then."""
    rows = held_rows(connection, place.id)
    if not rows:
        return False
    for row in rows:
        stored_of(f"run {row.id}", row.digest, row.record)  # what is damaged is not accepted
    newest = (rows[-1].revision, rows[-1].changed)
    table = tables().run
    connection.execute(
        table.update().where(table.c.baseline_id == place.id, table.c.state == ACCEPTED).values(state=SUPERSEDED)
    )
    chosen = [row.id for row in rows if (row.revision, row.changed) == newest]
    _change_state(connection, chosen, HELD, ACCEPTED)
    _change_state(connection, [row.id for row in rows if row.id not in chosen], HELD, KEPT)
    return True


def remove_places(connection: "Connection", places: Iterable[Place]) -> None:
    """Remove all runs of some tests, with what is known of them."""
    table = tables().baseline
    for chunk in _chunks([place.id for place in places]):
        connection.execute(table.delete().where(table.c.id.in_(chunk)))


def supersede_replaced(connection: "Connection", places: Sequence[Place], machine: Machine) -> list[Place]:
    """Make runs history that this machine saved with other versions and has saved again; return of which tests."""
    known = machines_of(connection, {place.machine_id for place in places})
    here = {place.test_id for place in places if known[place.machine_id].fingerprint == machine.fingerprint}
    old = [
        place
        for place in places
        if place.test_id in here
        and known[place.machine_id].hardware == machine.hardware
        and known[place.machine_id].fingerprint != machine.fingerprint
    ]
    table = tables().run
    for chunk in _chunks([place.id for place in old]):
        connection.execute(
            table.update().where(table.c.baseline_id.in_(chunk), table.c.state == ACCEPTED).values(state=SUPERSEDED)
        )
    return old


def metric_ids(connection: "Connection", figures: Iterable[tuple[Run, Figure]]) -> "Callable[[Run, Figure], int]":
    """Return a function that gives the row of what a figure is, apart from its value."""
    rows = {_metric_key(run, figure): _metric_row(run, figure) for run, figure in figures}
    ids = ids_of(connection, tables().metric, rows)
    return lambda run, figure: ids[_metric_key(run, figure)]


def ids_of(connection: "Connection", table: "TableClause", rows: Mapping[str, Row]) -> dict[str, int]:
    """Return the row of each key, and add those that are not there yet."""
    from sqlalchemy import select

    found = dict[str, int]()
    for chunk in _chunks(list(rows)):
        chosen = select(table.c.key, table.c.id).where(table.c.key.in_(chunk))
        found |= {key: number for key, number in connection.execute(chosen)}  # noqa: C416 - rows are no pairs to mypy
    missing = [key for key in rows if key not in found]
    first = _last_id(connection, table) + 1 if missing else 0
    added = {key: first + place for place, key in enumerate(missing)}
    _insert(connection, table, [{**rows[key], "key": key, "id": number} for key, number in added.items()])
    return found | added


def insert_parts(connection: "Connection", table: "TableClause", rows: Sequence[Row]) -> None:
    """Add rows that belong to runs."""
    _insert(connection, table, rows)


def _baselines(connection: "Connection", name: str, runs: Sequence[Run]) -> dict[str, int]:
    """Return the row of each test, label and machine under a baseline's name, by its key."""
    machines = ids_of(
        connection, tables().machine, {run.machine.fingerprint: _machine_row(run.machine) for run in runs}
    )
    tests = ids_of(connection, tables().test, {test_key(run.test, run.label): _test_row(run) for run in runs})
    rows = {
        _place_key(name, run): {
            "name": name,
            "test_id": tests[test_key(run.test, run.label)],
            "machine_id": machines[run.machine.fingerprint],
        }
        for run in runs
    }
    return ids_of(connection, tables().baseline, rows)


def _known_runs(connection: "Connection", of_entry: Sequence[tuple[int, bytes]]) -> dict[tuple[int, bytes], int]:
    from sqlalchemy import select

    table, wanted = tables().run, {*of_entry}
    found = dict[tuple[int, bytes], int]()
    for chunk in _chunks(list({digest for _, digest in of_entry})):
        chosen = select(table.c.baseline_id, table.c.digest, table.c.id).where(table.c.digest.in_(chunk))
        rows = [((place, bytes(digest)), number) for place, digest, number in connection.execute(chosen)]
        found |= {key: number for key, number in rows if key in wanted}
    return found


def _add_estimates(connection: "Connection", entries: Mapping[int, Entry]) -> None:
    figures = [(entry.stored.run, figure) for entry in entries.values() for figure in entry.stored.figures]
    metric = metric_ids(connection, figures)
    rows = [
        {
            "run_id": number,
            "place": place,
            "metric_id": metric(entry.stored.run, figure),
            **estimate_columns(figure),
        }
        for number, entry in entries.items()
        for place, figure in enumerate(entry.stored.figures)
    ]
    _insert(connection, tables().estimate, rows)


def estimate_columns(figure: Figure) -> dict[str, Any]:
    """Return an estimate as columns; its remarks are JSON."""
    one = figure.estimate
    remarks = to_json(one, check=False).decode() if one.warnings else ""
    return {"value": one.value, "low": one.low, "high": one.high, "n": one.n, "warnings": remarks}


def _machine_row(machine: Machine) -> Row:
    names = ("cpu_model", "architecture", "system", "python", "cores", "memory_gb")
    return {name: getattr(machine, name) for name in names} | {"record": to_json(machine).decode()}


def _test_row(run: Run) -> Row:
    return {"name_key": key_of(run.test), "name": run.test, "label": run.label}


def _run_row(number: int, place: int, entry: Entry, state: str) -> Row:
    run = entry.stored.run
    return {
        "id": number,
        "baseline_id": place,
        "state": state,
        "started_at": run.started_at,
        "revision": run.revision,
        "changed": run.changed,
        "digest": entry.digest,
        "record": entry.record,
    }


def _metric_row(run: Run, figure: Figure) -> Row:
    return {
        "name": figure.metric,
        "statistic": figure.statistic,
        "better": _better(run, figure),
        "source": figure.source,
        "per": figure.per,
        "method": figure.estimate.method,
        "estimated": figure.estimated,
        "confidence": figure.estimate.confidence,
    }


def _metric_key(run: Run, figure: Figure) -> str:
    return key_of(*_metric_row(run, figure).values())


def _better(run: Run, figure: Figure) -> Better:
    return metric_of(figure.metric, run.directions.get(figure.metric, "lower")).better


def _place_key(name: str, run: Run) -> str:
    return baseline_key(name, run.machine.fingerprint, run.test, run.label)


def _change_state(connection: "Connection", runs: Sequence[int], before: str, after: str) -> None:
    table = tables().run
    for chunk in _chunks(runs):
        connection.execute(table.update().where(table.c.id.in_(chunk), table.c.state == before).values(state=after))


def _last_id(connection: "Connection", table: "TableClause") -> int:
    from sqlalchemy import func, select

    return connection.scalar(select(func.coalesce(func.max(table.c.id), 0))) or 0


def _insert(connection: "Connection", table: "TableClause", rows: Sequence[Row]) -> None:
    if rows:
        connection.execute(table.insert(), rows)


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[first : first + _CHUNK] for first in range(0, len(values), _CHUNK))
