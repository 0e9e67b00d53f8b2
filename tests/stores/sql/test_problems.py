"""What a database says becomes a sentence that names it and what to do."""

import sqlite3
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")

from sqlalchemy.exc import DBAPIError, InvalidRequestError, OperationalError

from pytest_hwperf.stores.sql.database import explained, is_gone

REMEDIES = {"unreachable": "look", "refused": "ask", "held": "wait", "damaged": "restore", "foreign": "move"}


class ServerError(Exception):
    """What psycopg raises."""

    def __init__(self, said: str, sqlstate: str | None) -> None:
        super().__init__(said)
        self.sqlstate = sqlstate


def of_server(sqlstate: str | None, said: str = "said\nmore", kind: Any = DBAPIError, **others: Any) -> DBAPIError:
    error: DBAPIError = kind("SELECT secret", {}, ServerError(said, sqlstate), **others)
    return error


EXPLAINED: list[tuple[Exception, str]] = [
    (of_server("42501"), "it may not be written or read (said): ask"),
    (of_server("25006"), "it may only be read (said): ask"),
    (of_server("55P03"), "it is busy (said): wait"),
    (of_server("XX001"), "it is damaged (said): restore"),
    (of_server("42P01"), "it lacks a table (said): restore"),
    (of_server("28P01"), "it cannot be reached (said): look"),
    (of_server("23505"), "it failed (said): look"),
    (of_server(None, "port 5328 is locked"), "it cannot be reached (port 5328 is locked): look"),
    (sqlite3.OperationalError("database is locked"), "it is busy (database is locked): wait"),
    (
        OperationalError("SELECT secret", {}, sqlite3.OperationalError("database or disk is full")),
        "it has no space left (database or disk is full): ask",
    ),
    (
        sqlite3.OperationalError("disk I/O error"),
        "it cannot be read or written: the disk may be full (disk I/O error): ask",
    ),
    (sqlite3.DatabaseError("file is not a database"), "it is no database of SQLite (file is not a database): move"),
    (sqlite3.DataError("string or blob too big"), "it is damaged (string or blob too big): restore"),
    (InvalidRequestError("odd"), "it cannot be reached (odd): look"),
]


def test_it_is_explained() -> None:
    """In one line, without the statement."""
    assert [told for _, told in EXPLAINED] == [str(explained(error, "it", REMEDIES)) for error, _ in EXPLAINED]


GONE: list[tuple[Exception, bool]] = [
    (of_server("57P01"), True),
    (of_server("57P03", kind=OperationalError), True),
    (of_server(None, kind=OperationalError), True),
    (of_server("40001", connection_invalidated=True), True),
    (of_server("42501"), False),
    (of_server("28P01", kind=OperationalError), False),
    (OperationalError("x", {}, sqlite3.OperationalError("database is locked")), False),
    (sqlite3.OperationalError("database is locked"), False),
    (InvalidRequestError("odd"), False),
]


def test_only_a_server_that_has_gone_is_tried_again() -> None:
    assert [gone for _, gone in GONE] == [is_gone(error) for error, _ in GONE]
