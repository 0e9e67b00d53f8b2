"""Every statement that reads goes by a key or an index: SQLite says how it would."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from fakes import records as fake

from pytest_hwperf.stores.sql import reading, writing
from pytest_hwperf.stores.sql.reading import entry_of
from pytest_hwperf.stores.sql.store import SqlStore
from pytest_hwperf.stores.sql.tables import table

READING = {
    "compare": lambda: reading.newest_accepted("main", fake.machine().fingerprint, fake.TEST, ""),
    "machines": lambda: reading.machines_with_runs("main", fake.TEST, ""),
    "newest": lambda: reading.newest_of_each("main"),
    "histories": lambda: reading.runs_in(1, "held"),
    "one test": lambda: reading.places_named("main", fake.TEST),
    "tests of a pattern": lambda: reading.places_named("main", "*"),
    "runs of a history": lambda: reading.newest_runs_of(1, 1000),
    "estimates of a history": lambda: reading.estimates_of(1, 1000),
    "changes from an anchor": lambda: reading.changes_of(1, 1000),
    "metrics": lambda: reading.metrics_with({1, 2}),
}


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    made = SqlStore(f"sqlite:///{tmp_path}/team.db")
    made.save("main", [fake.session(test=f"t{number}") for number in range(5)])
    return made


def plan_of(store: SqlStore, statement: Any) -> list[str]:
    """Return the steps by which SQLite would find the rows."""

    def explained(connection: Any) -> list[str]:
        compiled = statement.compile(connection, compile_kwargs={"render_postcompile": True})
        values = tuple(compiled.params[name] for name in compiled.positiontup)
        return explain(connection, str(compiled), values)

    return store._database.read(explained, list[str]())


def steps(store: SqlStore, text: str, values: tuple[Any, ...]) -> list[str]:
    return store._database.read(lambda connection: explain(connection, text, values), list[str]())


def explain(connection: Any, text: str, values: tuple[Any, ...]) -> list[str]:
    return [str(row[3]) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]


@pytest.mark.parametrize("name", READING)
def test_nothing_is_looked_at_row_by_row(store: SqlStore, name: str) -> None:
    plan = plan_of(store, READING[name]())
    assert any(step.startswith("SEARCH") for step in plan)
    assert [] == [step for step in plan if step.startswith("SCAN") and step != "SCAN chosen"]


def test_a_scan_is_noticed(store: SqlStore) -> None:
    from sqlalchemy import select

    run = table("run")
    assert ["SCAN run"] == plan_of(store, select(run.c.id).where(run.c.revision == "x"))


def test_adding_looks_runs_up_by_their_digest(store: SqlStore) -> None:
    """Every statement of a save, in which the last number of a table is the end of its index."""
    from sqlalchemy import event

    seen = list[tuple[str, Any]]()

    def note(connection: Any) -> list[int]:
        event.listen(connection, "before_cursor_execute", lambda *given: seen.append((given[2], given[3])))
        return writing.add_runs(connection, "main", [entry], writing.ACCEPTED)

    entry = entry_of(fake.session(median_s=3.0))
    store._database.write(note)
    selects = [(text, values) for text, values in seen if text.startswith("SELECT")]
    assert selects
    for text, values in selects:
        assert [] == [step for step in steps(store, text, tuple(values)) if step.startswith("SCAN")], text
