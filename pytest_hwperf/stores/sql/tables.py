"""The tables, declared once: the migration makes them, statements name them, and what they hold is checked."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.text import shortened

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData, Select, Table
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


# Kind and names of the columns of each table, behind its `id`; "of" refers to another table. `foreign` is text from
# outside, and what many rows refer to is found by its key. Values of metrics lie beside each other for each run.
_VALUES = (
    ("of", "run"), ("count", "place"), ("of", "metric"), ("real", "value low high"), ("count", "n"),
    ("text", "warnings"),
)  # fmt: skip
_COLUMNS: Mapping[str, Sequence[tuple[str, str]]] = {
    "machine": (
        ("text", "key"), ("foreign", "cpu_model architecture system python"), ("text", "record"),
        ("count", "cores memory_gb"),
    ),
    "test": (("text", "key name_key"), ("foreign", "name label")),
    "metric": (
        ("text", "key statistic better"), ("foreign", "name source per method"), ("truth", "estimated"),
        ("real", "confidence"),
    ),
    "baseline": (("text", "key name"), ("of", "test machine")),  # the runs of one test on one machine under one name
    "run": (
        ("of", "baseline"), ("text", "state"), ("foreign", "started_at revision"), ("truth", "changed"),
        ("bytes", "digest record"),
    ),
    "estimate": _VALUES,
    "verdict": (  # `value` is what was judged: of a budget the figure, of a comparison the change
        *_VALUES, ("text", "outcome"), ("truth", "fails"), ("foreign", "reason"),
        ("text", "scale"),  # of a comparison; "": of a budget
        ("real", "allowed baseline p_value"),  # limit or margin; the last two of a comparison
        ("foreign", "against revision"), ("truth", "anchored"),
    ),
    "annotation": (("text", "key"), ("foreign", "revision text noted_at")),
}  # fmt: skip
_INDEXES: Mapping[str, Mapping[str, str]] = {
    "test": {"test_by_name": "name_key"},
    "baseline": {
        "baseline_by_name": "name", "baseline_of_test": "test_id name", "baseline_of_machine": "machine_id",
    },
    "run": {"run_of_baseline": "baseline_id state id"},
}  # fmt: skip


@cache
def metadata() -> "MetaData":
    """Declare all tables; what belongs to a baseline or a run goes with it."""
    import sqlalchemy as sa

    made, held = sa.MetaData(), _column_type()
    number = held(sa.BigInteger().with_variant(sa.Integer(), "sqlite"), int)  # for SQLite that of the row
    text, foreign = held(sa.Text(), str), held(sa.Text(), str, is_foreign=True)
    count, real, truth = held(sa.BigInteger(), int), held(sa.Double(), int | float | None), held(sa.Boolean(), int)
    kinds = {"text": text, "foreign": foreign, "count": count, "real": real, "truth": truth}
    kinds["bytes"] = held(sa.LargeBinary(), bytes)
    for name, columns in _COLUMNS.items():
        parts: list[SchemaItem] = []
        for kind, column in ((kind, column) for kind, names in columns for column in names.split()):
            if kind == "of":
                kept = sa.ForeignKey(f"{column}.id", ondelete="CASCADE" if column in ("baseline", "run") else None)
                parts.append(sa.Column(f"{column}_id", number, kept, nullable=False))
            else:
                unique = True if column == "key" else None
                parts.append(sa.Column(column, kinds[kind], nullable=kind == "real", unique=unique))
        parts += [sa.UniqueConstraint("digest", "baseline_id")] if name == "run" else []
        parts += [sa.Index(index, *names.split()) for index, names in _INDEXES.get(name, {}).items()]
        if name in ("estimate", "verdict"):
            key = sa.PrimaryKeyConstraint("run_id", "place")
            sa.Table(name, made, *parts, key, sqlite_with_rowid=False)
        else:
            sa.Table(name, made, sa.Column("id", number, primary_key=True, autoincrement=False), *parts)
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
