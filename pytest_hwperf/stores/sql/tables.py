"""The tables, declared once: the migration makes them, statements name them, and what they hold is checked."""

import io
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.text import shortened

if TYPE_CHECKING:
    from sqlalchemy import Column, Connection, MetaData, Select, Table
    from sqlalchemy.schema import SchemaItem
    from sqlalchemy.types import TypeDecorator


VERSION_TABLE = "hwperf_schema"  # of Alembic; another program's may have the usual name
VERSION = "1"  # the only schema

_ESCAPED = "\x01"  # begins a text that no database takes as it is; JSON follows


class Damaged(Exception):  # noqa: N818 - what the database is, which names it and what to do
    """A row that this package has never written; `Database` makes a sentence of it."""


def table(name: str) -> "Table":
    """Return a table; SQLAlchemy is imported now."""
    return metadata().tables[name]


def select(*columns: Any) -> "Select[Any]":
    """Return a statement that selects columns; SQLAlchemy is imported now."""
    import sqlalchemy as sa

    return sa.select(*columns)


@cache
def metadata() -> "MetaData":
    """Declare all tables."""
    import sqlalchemy as sa

    made, held = sa.MetaData(), _column_type()
    number = held(sa.BigInteger().with_variant(sa.Integer(), "sqlite"), int)  # for SQLite that of the row
    text, foreign = held(sa.Text(), str), held(sa.Text(), str, is_foreign=True)
    count, real, truth = held(sa.BigInteger(), int), held(sa.Double(), int | float | None), held(sa.Boolean(), int)

    def columns(kind: "TypeDecorator[Any]", names: str) -> "list[Column[Any]]":
        return [sa.Column(name, kind, nullable=kind is real) for name in names.split()]

    def of(owner: str) -> "Column[Any]":
        """Refer to another table; what belongs to a baseline or a run goes with it."""
        kept = sa.ForeignKey(f"{owner}.id", ondelete="CASCADE" if owner in ("baseline", "run") else None)
        return sa.Column(f"{owner}_id", number, kept, nullable=False)

    def declare(name: str, *parts: "SchemaItem") -> None:
        sa.Table(name, made, sa.Column("id", number, primary_key=True, autoincrement=False), *parts)

    def declare_keyed(name: str, *parts: "SchemaItem") -> None:
        """Declare what many rows refer to, each found by its key."""
        declare(name, sa.Column("key", text, nullable=False, unique=True), *parts)

    def declare_values(name: str, *parts: "SchemaItem") -> None:
        """Declare values of metrics, which lie beside each other for each run."""
        at, key = (of("run"), *columns(count, "place"), of("metric")), sa.PrimaryKeyConstraint("run_id", "place")
        value = (*columns(real, "value low high"), *columns(count, "n"), *columns(text, "warnings"))
        sa.Table(name, made, *at, *value, *parts, key, sqlite_with_rowid=False)

    declare_keyed(
        "machine", *columns(foreign, "cpu_model architecture system python"), *columns(text, "record"),
        *columns(count, "cores memory_gb"),
    )  # fmt: skip
    declare_keyed(
        "test", *columns(text, "name_key"), *columns(foreign, "name label"), sa.Index("test_by_name", "name_key")
    )
    declare_keyed(
        "metric", *columns(text, "statistic better"), *columns(foreign, "name source per method"),
        *columns(truth, "estimated"), *columns(real, "confidence"),
    )  # fmt: skip
    declare_keyed(  # the runs of one test on one machine under one name
        "baseline", *columns(text, "name"), of("test"), of("machine"), sa.Index("baseline_by_name", "name"),
        sa.Index("baseline_of_test", "test_id", "name"), sa.Index("baseline_of_machine", "machine_id"),
    )  # fmt: skip
    declare(
        "run", of("baseline"), *columns(text, "state"), *columns(foreign, "started_at revision"),
        *columns(truth, "changed"), *columns(held(sa.LargeBinary(), bytes), "digest record"),
        sa.UniqueConstraint("digest", "baseline_id"), sa.Index("run_of_baseline", "baseline_id", "state", "id"),
    )  # fmt: skip
    declare_values("estimate")
    declare_values(  # `value` is what was judged: of a budget the figure, of a comparison the change
        "verdict", *columns(text, "outcome"), *columns(truth, "fails"), *columns(foreign, "reason"),
        *columns(text, "scale"),  # of a comparison; "": of a budget
        *columns(real, "allowed baseline p_value"),  # limit or margin; the last two of a comparison
        *columns(foreign, "against revision"), *columns(truth, "anchored"),
    )  # fmt: skip
    declare_keyed("annotation", *columns(foreign, "revision text noted_at"))
    return made


def storable(text: str) -> str:
    """Return a text that every database takes: none takes lone surrogates, and PostgreSQL no null character."""
    if text.isascii() and "\0" not in text and not text.startswith(_ESCAPED):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{_ESCAPED}{json.dumps(text)}"
    return f"{_ESCAPED}{json.dumps(text)}" if "\0" in text or text.startswith(_ESCAPED) else text


def restored(text: str) -> str:
    """Return the text that `storable` was given; what it cannot have written is left as it is."""
    if not text.startswith(_ESCAPED):
        return text
    try:
        plain = json.loads(text[1:])
    except ValueError:
        return text
    return plain if isinstance(plain, str) else text


def _column_type() -> "type[TypeDecorator[Any]]":
    from sqlalchemy import Dialect
    from sqlalchemy.types import NullType, TypeDecorator, TypeEngine

    class Held(TypeDecorator[Any]):
        """What a column holds: SQLite lets whoever writes the file put anything there."""

        impl: TypeEngine[Any] | type[TypeEngine[Any]] = NullType
        cache_ok = True

        def __init__(self, kind: TypeEngine[Any], held: Any, *, is_foreign: bool = False) -> None:
            super().__init__()
            self.impl = self.kind = kind
            self.held, self.is_foreign = held, is_foreign

        def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
            return storable(value) if self.is_foreign and value is not None else value

        def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ARG002 - the same
            return self._checked  # before any conversion: of a number, bytes() would make as many bytes

        def _checked(self, value: Any) -> Any:
            if not isinstance(value, self.held):
                raise Damaged(f"a row has {type(value).__name__} in a column of {self.kind}")
            return restored(value) if self.is_foreign else value

    return Held


def is_made(connection: "Connection", name: str) -> bool:
    """Whether a database has the schema that this version reads; False of an empty one."""
    from sqlalchemy import inspect

    found = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in found:
        if clash := found & {*metadata().tables}:
            raise StoreError(
                f"{name} holds a table {min(clash)} of another program: give a database of its own, or with PostgreSQL "
                "a schema (?options=-csearch_path%3DNAME)"
            )
        return False
    versions = connection.exec_driver_sql("SELECT version_num FROM hwperf_schema").scalars().all()
    if len(versions) != 1 or not re.fullmatch(r"[1-9][0-9]{0,8}", str(versions[0])):
        raise Damaged(f"{VERSION_TABLE} has {shortened(str([*versions]))} in the place of one version")
    if versions[0] != VERSION:
        raise StoreError(
            f"{name} was written by a newer pytest-hwperf (schema {versions[0]}, this one reads {VERSION}): upgrade "
            "pytest-hwperf"
        )
    return True


def migrate(connection: "Connection", name: str) -> None:
    """Give a database the newest schema, in the transaction of `connection`, which must be the only writer."""
    if is_made(connection, name):
        return
    from alembic import command
    from alembic.config import Config

    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
