"""A real server of PostgreSQL: several writers, roles with few rights, and ends in the middle."""

import signal
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed")
pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from fakes import postgres, store_writers
from fakes import records as fake
from sqlalchemy import event

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.stats.stored.history import Annotation
from pytest_hwperf.stores.sql.store import SqlStore

pytestmark = pytest.mark.live  # a server takes seconds to start

_numbers = count()


@pytest.fixture
def schema(server: postgres.Server) -> Iterator[str]:
    name = f"own{next(_numbers)}"
    server.execute(f"CREATE SCHEMA {name}")
    yield name
    server.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def store(server: postgres.Server, schema: str) -> Iterator[SqlStore]:
    opened = SqlStore(server.url(schema=schema))
    yield opened
    opened.close()


@pytest.fixture
def roles(server: postgres.Server, schema: str) -> Iterator[tuple[str, str]]:
    """A reader and a writer, as docs/baselines.md makes them."""
    reader, writer = f"reader_{schema}", f"writer_{schema}"
    server.execute(
        f"CREATE ROLE {reader} LOGIN PASSWORD '{postgres.PASSWORD}'",
        f"CREATE ROLE {writer} LOGIN PASSWORD '{postgres.PASSWORD}'",
        f"GRANT USAGE ON SCHEMA {schema} TO {reader}, {writer}",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {reader}, {writer}",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT INSERT, UPDATE, DELETE ON TABLES TO {writer}",
    )
    yield reader, writer
    server.execute(f"DROP OWNED BY {reader}, {writer}", f"DROP ROLE {reader}, {writer}")


def medians(store: SqlStore) -> list[float]:
    return [one.figures[0].estimate.value for one in store.load("main", fake.machine(), fake.TEST, "")]


def test_roles_may_no_more_than_they_need(server: postgres.Server, schema: str, roles: tuple[str, str]) -> None:
    """A reader compares and cannot write; a writer writes, accepts and removes, and cannot change the schema."""
    reader, writer = (SqlStore(server.url(user=role, schema=schema)) for role in roles)
    with pytest.raises(StoreError, match=r"permission denied for schema .*: ask its owner for the right"):
        writer.check("main", writing=True)
    reader.check("main", writing=False)
    owner = SqlStore(server.url(schema=schema))
    owner.check("main", writing=True)
    writer.check("main", writing=True)
    writer.save("main", [fake.session(median_s=1.0)])
    writer.hold("main", [fake.session(median_s=2.0, test="other")])
    writer.annotate(Annotation(revision="a", text="b", noted_at="c"))
    assert writer.accept("main", "other") == ("other",)
    assert writer.remove("main", "other") == ("other",)
    with pytest.raises(StoreError, match="must be owner of table run"):
        writer._database.write(lambda connection: connection.exec_driver_sql("ALTER TABLE run ADD COLUMN x INT"))

    reader.check("main", writing=False)
    assert medians(reader) == [1.0]
    assert len(reader.history("main")) == 1
    calls: tuple[Callable[[], object], ...] = (
        lambda: reader.check("main", writing=True),
        lambda: reader.save("main", [fake.session()]),
        lambda: reader.remove("main", "*"),
    )
    for call in calls:
        with pytest.raises(StoreError, match=r"permission denied for table .*: ask its owner for the right"):
            call()
    for one in (reader, writer, owner):
        one.close()


def test_tables_of_another_program_are_left_alone(server: postgres.Server, schema: str, store: SqlStore) -> None:
    server.execute(f"CREATE TABLE {schema}.verdict (id INT)")

    for writing in (False, True):
        with pytest.raises(StoreError, match="holds a table verdict of another program: give a database of its own"):
            store.check("main", writing=writing)


def test_a_restart_in_the_middle_is_waited_for(server: postgres.Server, store: SqlStore) -> None:
    """By a writer and by a reader whose connections are gone, also after a crash of the server."""
    store.save("main", [fake.session(median_s=1.0)])
    server.stop(signal.SIGINT)
    server.start()
    assert medians(store) == [1.0]
    server.stop(signal.SIGKILL)
    server.start()
    store.save("main", [fake.session(median_s=2.0)])
    assert medians(store) == [1.0, 2.0]


def test_a_server_that_stays_away_is_named(server: postgres.Server, schema: str) -> None:
    """After the patience that was given, by the clock of the test; one that was never there at once."""
    waits = list[float]()
    store = SqlStore(server.url(schema=schema), patience_s=1.0)
    store._database._sleep = waits.append
    store.save("main", [fake.session()])
    server.stop()
    try:
        with pytest.raises(StoreError, match=r"cannot be reached .*: check host, name and user"):
            medians(store)
        assert sum(waits) >= 1.0
        first = SqlStore(server.url(schema=schema))
        first._database._sleep = waits.append
        with pytest.raises(StoreError, match=r"cannot be reached .*: check host, name and user"):
            first.check("main", writing=False)
    finally:
        server.start()
    assert medians(store) == [0.00631]
    store.close()


def test_a_wrong_password_is_named_and_not_shown(
    server: postgres.Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "hush-hush")
    with pytest.raises(StoreError, match=r"password authentication failed .*PGPASSWORD") as raised:
        SqlStore(server.url(schema=schema)).check("main", writing=False)
    assert "hush" not in str(raised.value)


def test_a_writer_that_never_ends_is_named(server: postgres.Server, schema: str, store: SqlStore) -> None:
    store.save("main", [fake.session(median_s=1.0)])
    other = SqlStore(server.url(schema=schema), patience_s=1.0)

    def meanwhile(_: object) -> None:
        with pytest.raises(StoreError, match=r"is busy .*another process is writing for over 1 s"):
            other.save("main", [fake.session(median_s=2.0)])
        assert medians(other) == [1.0]

    store._database.write(meanwhile)
    other.close()


def test_what_is_acknowledged_is_flushed_though_the_server_would_not(server: postgres.Server, schema: str) -> None:
    store = SqlStore(f"{server.url(schema=schema)}%20-csynchronous_commit%3Doff")
    assert store._database.write(lambda one: one.exec_driver_sql("SHOW synchronous_commit").scalar()) == "on"
    assert store._database.read(lambda one: one.exec_driver_sql("SHOW synchronous_commit").scalar(), None) == "off"
    store.close()


def test_statements_use_indexes(store: SqlStore) -> None:
    """Where sequential scans are not forbidden but dear: a table of tests would be read whole with few rows."""
    store.save("main", [fake.session(test=f"t{number}") for number in range(5)])

    steps = list[str]()

    def explain(_: Any, cursor: Any, text: str, values: Any, *__: Any) -> None:
        if text.startswith("SELECT") and "run" in text:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {text}", values)
            steps.extend(row[0] for row in cursor.fetchall())

    event.listen(store._database._engines[0], "before_cursor_execute", explain)
    store.load("main", fake.machine(), "t1", "")
    store.newest("main")
    store.history("main", "t1")
    assert [step for step in steps if "Index" in step]
    assert [] == [step for step in steps if "Seq Scan" in step]


def test_a_killed_server_loses_nothing(server: postgres.Server, schema: str) -> None:
    said = store_writers.killed_servers(server, server.url(schema=schema), 1, longest_s=0.5)
    assert "none lost" in said
    assert not said.startswith("0 acknowledged")
