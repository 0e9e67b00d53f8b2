"""Every statement of a store goes by a key or an index: SQLite says how it would."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from fakes import records as fake
from sqlalchemy import event

from pytest_hwperf.stores.sql.store import SqlStore
from pytest_hwperf.stores.sql.tables import select, table

CALLS: dict[str, Callable[[SqlStore], object]] = {
    "compare": lambda store: store.load("main", fake.machine(), "t1", ""),
    "machines": lambda store: store.machines("main", "t1", ""),
    "newest": lambda store: store.newest("main"),
    "histories": lambda store: [*store.histories("main", held=True)],
    "one test": lambda store: store.tests("main", "t1"),
    "tests of a pattern": lambda store: store.tests("main", "t*"),
    "history": lambda store: store.history("main", "t1"),
    "history of some tests": lambda store: store.history_of("main", [("t1", ""), ("t2", "")], newest=10),
    "save": lambda store: store.save("main", [fake.session(median_s=3.0)]),
    "accept": lambda store: store.accept("main", "*"),
    "prune": lambda store: store.prune("main", fake.machine()),
    "remove": lambda store: store.remove("main", "t1"),
}


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    made = SqlStore(f"sqlite:///{tmp_path}/team.db")
    made.save("main", [fake.session(test=f"t{number}") for number in range(5)])
    made.hold("main", [fake.session(test="t1", median_s=2.0)])
    return made


@contextmanager
def plans(store: SqlStore) -> Iterator[list[str]]:
    """Collect the steps by which SQLite finds the rows of every statement."""
    found = list[str]()

    def explain(_: Any, cursor: Any, text: str, values: Any, *__: Any) -> None:
        if text.startswith(("SELECT", "UPDATE", "DELETE")):
            cursor.execute(f"EXPLAIN QUERY PLAN {text}", values)
            found.extend(str(row[3]) for row in cursor.fetchall())

    engines = store._database._engines
    for engine in engines:
        event.listen(engine, "before_cursor_execute", explain)
    yield found
    for engine in engines:
        event.remove(engine, "before_cursor_execute", explain)


def test_nothing_is_looked_at_row_by_row(store: SqlStore) -> None:
    """The last of the calls remove what the others find."""
    for name, call in CALLS.items():
        with plans(store) as found:
            call(store)
        assert any(step.startswith("SEARCH") for step in found), name
        assert [] == [step for step in found if step.startswith("SCAN") and step != "SCAN chosen"], name


def test_a_scan_is_noticed(store: SqlStore) -> None:
    run = table("run")
    with plans(store) as found:
        store._runs(select(run.c.id, run.c.digest, run.c.record).where(run.c.revision == "x"))
    assert found == ["SCAN run"]
