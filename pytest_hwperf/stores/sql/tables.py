"""The tables as statements name them; `migrations/` makes them."""

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import TableClause
    from sqlalchemy.types import TypeDecorator

VERSION_TABLE = "hwperf_schema"  # of Alembic; another program's may have the usual name
VERSION = "1"  # the newest schema

_ESCAPED = "\x01"  # begins a text that no database takes as it is; JSON follows


class Damaged(Exception):  # noqa: N818 - what the database is, which names it and what to do
    """A row that this package has never written; `Database` makes a sentence of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """One of each."""

    machine: "TableClause"
    test: "TableClause"
    metric: "TableClause"
    baseline: "TableClause"  # the runs of one test on one machine under one name
    run: "TableClause"
    estimate: "TableClause"
    comparison: "TableClause"
    pair: "TableClause"
    verdict: "TableClause"
    annotation: "TableClause"
    version: "TableClause"


# Columns of each table, each with what it holds: `:` text from outside, `#` a whole number, `~` a number or nothing,
# `?` true or false, `*` bytes; all others hold text of our own.
_COLUMNS = {
    "machine": "#id key :cpu_model :architecture :system :python record #cores #memory_gb",
    "test": "#id key name_key :name :label",
    "metric": "#id key :name :statistic better :source :per :method ?estimated ~confidence",
    "baseline": "#id key name #test_id #machine_id",
    "run": "#id #baseline_id state :started_at :revision ?changed *digest *record",
    "estimate": "#run_id #place #metric_id ~value ~low ~high #n warnings",
    "comparison": "#run_id #place #metric_id ~value ~low ~high ~p_value ~baseline ~margin #n warnings outcome scale "
    ":against :revision ?anchored",
    "pair": "#run_id #place #number stage ~change ~baseline ~candidate ~preempted",
    "verdict": "#run_id #place outcome :reason record ?fails",
    "annotation": "#id key :revision :text :noted_at",
    "version": "version_num",
}
_HELD: dict[str, tuple[type, ...]] = {
    ":": (str,),
    "#": (int,),
    "~": (int, float, type(None)),
    "?": (bool, int),
    "*": (bytes,),
}
_MARKS = "".join(_HELD)
NAMES = frozenset({VERSION_TABLE, *_COLUMNS} - {"version"})  # as the database calls them


@cache
def tables() -> Tables:
    """Return all tables; SQLAlchemy is imported now."""
    from sqlalchemy import column, table

    kind = _column_type()
    made = {
        name: table(
            VERSION_TABLE if name == "version" else name,
            *(column(one.lstrip(_MARKS), kind(one)) for one in columns.split()),
        )
        for name, columns in _COLUMNS.items()
    }
    return Tables(**made)


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
    from sqlalchemy.types import NullType, TypeDecorator

    class Held(TypeDecorator[Any]):
        """What a column holds: SQLite lets whoever writes the file put anything there."""

        impl = NullType
        cache_ok = True

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column, self.is_foreign, self.held = column, column[0] == ":", _HELD.get(column[0], (str,))

        def coerce_compared_value(self, op: Any, value: Any) -> Any:
            return self if self.is_foreign else self.impl_instance.coerce_compared_value(op, value)

        def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
            return storable(value) if self.is_foreign and value is not None else value

        def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002 - the same
            if not isinstance(value, self.held):
                raise Damaged(f"a row has {type(value).__name__} as {self.column.lstrip(_MARKS)}")
            return restored(str(value)) if self.is_foreign else value

    return Held
