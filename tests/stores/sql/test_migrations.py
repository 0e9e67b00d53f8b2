"""A database of every schema that was released gets the newest one, with all that it holds.

A file of `schemas/` is what a database of that schema was dumped to when it was released. It never changes.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from alembic.script import ScriptDirectory
from fakes import postgres
from fakes import records as fake

from pytest_hwperf.core.history import Annotation
from pytest_hwperf.stores.sql import migrating, tables
from pytest_hwperf.stores.sql.store import SqlStore

SCHEMAS = Path(__file__).parent / "schemas"
RELEASED = [str(number) for number in range(1, int(tables.VERSION) + 1)]


def assert_whole(store: SqlStore) -> None:
    """Compare with what was stored when the schema was released."""
    store.check("main", writing=True)
    runs = store.load("main", fake.machine(), fake.TEST, "")
    held = [runs for runs in store.histories("main", held=True) if runs[0].run.test == fake.TEST]

    assert runs == (fake.session(median_s=1.0), fake.session(median_s=2.0))
    assert held == [(fake.session(median_s=3.0),)]
    assert [1.0, 2.0, 3.0] == [one.estimate.value for one in store.history("main", fake.TEST)[0].values]
    assert store.annotations() == (Annotation(revision="a" * 40, text="new runner", noted_at=fake.STARTED),)
    store.save("main", [fake.session(median_s=4.0)])
    assert len(store.load("main", fake.machine(), fake.TEST, "")) == 3


@pytest.mark.parametrize("schema", RELEASED)
def test_sqlite_is_migrated_from_every_released_schema(tmp_path: Path, schema: str) -> None:
    """To the same tables and indexes as a new file has."""
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript((SCHEMAS / f"{schema}.sqlite.sql").read_text(encoding="utf-8"))
    assert_whole(SqlStore(f"sqlite:///{old}"))
    SqlStore(f"sqlite:///{new}").check("main", writing=True)

    assert made_of(old) == made_of(new)


def made_of(path: Path) -> list[str]:
    """Return the statements that made everything in a file, whatever their spaces."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    return [re.sub(r"\s+", "", sql) for (sql,) in rows]


@pytest.mark.parametrize("schema", RELEASED)
def test_postgresql_is_migrated_from_every_released_schema(server: postgres.Server, schema: str) -> None:
    text = (SCHEMAS / f"{schema}.postgresql.sql").read_text(encoding="utf-8")
    name = f"released{schema}"
    server.execute(text.replace("released", name))
    store = SqlStore(server.url(schema=name))
    try:
        assert_whole(store)
    finally:
        store.close()
        server.execute(f"DROP SCHEMA {name} CASCADE")


def test_the_newest_schema_is_the_last_step() -> None:
    script = ScriptDirectory(str(Path(migrating.__file__).parent / "migrations"))

    assert script.get_heads() == [tables.VERSION]
    assert RELEASED == [step.revision for step in script.walk_revisions()][::-1]
