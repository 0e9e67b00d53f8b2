"""A database that is read and written in transactions, each of which happens whole or not at all."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.text import visible
from pytest_hwperf.stores.sql import tables
from pytest_hwperf.stores.sql.sqlite_file import SqliteFile
from pytest_hwperf.stores.sql.tables import Damaged

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

T = TypeVar("T")

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 0.5  # before a server that has gone is asked again; twice as long each time
_LOCK = 0x68777066  # "hwpf": of whoever writes to this database by this package
_DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
_PATIENCE_TO_CONNECT_S = 10

# The beginning of an SQLSTATE of PostgreSQL → the kind of problem, which has a remedy, and its words.
_STATES = {
    "42501": ("refused", "may not be written or read"),
    "25006": ("refused", "may only be read"),
    "55P03": ("held", "is busy"),
    "XX00": ("damaged", "is damaged"),
    "42P01": ("damaged", "lacks a table"),
    "42703": ("damaged", "lacks a column"),
    "28": ("unreachable", "cannot be reached"),
    "3D": ("unreachable", "cannot be reached"),
    "": ("unreachable", "failed"),
}
# The same of a text of SQLite.
_TEXTS = {
    "is locked": ("held", "is busy"),
    "readonly": ("refused", "may only be read"),
    "unable to open": ("refused", "cannot be opened"),
    "interrupted": ("damaged", "takes too long to answer"),
    "is full": ("refused", "has no space left"),
    "disk i/o error": ("refused", "cannot be read or written: the disk may be full"),  # of its log and shared memory
    "not a database": ("foreign", "is no database of SQLite"),
    "no such table": ("damaged", "lacks a table"),
    "no such column": ("damaged", "lacks a column"),
    "": ("damaged", "is damaged"),
}
_STOPPING = ("57P01", "57P02", "57P03")  # a server that shuts down, has crashed, or is starting


class Database:
    """One database; its connections are those of this process alone."""

    def __init__(self, url: str, *, patience_s: float, sleep: Callable[[float], object] = time.sleep) -> None:
        self._kind = SqliteFile(url, patience_s) if url.startswith("sqlite:") else Postgres(url, patience_s)
        self._patience_s, self._sleep = patience_s, sleep
        self._engines: tuple[Engine, ...] = ()  # one that reads, one that writes
        self._process = 0  # that has made the engines
        self._inherited: list[Engine] = []  # of a parent process, kept: closing them would end its connections
        self._is_known = self._was_reached = False

    @property
    def name(self) -> str:
        """The database as messages name it; never with a password."""
        return self._kind.name

    def read(self, action: "Callable[[Connection], T]", empty: T) -> T:
        """Return what `action` reads in one transaction, or `empty` where nothing was ever stored."""

        def reading() -> T:
            if not self._kind.exists():
                return empty
            with self._transaction(writing=False) as connection:
                if not (self._is_known or tables.is_made(connection, self.name)):
                    return empty
                self._is_known = True
                return action(connection)

        return self._attempted(lambda: self._kind.undisturbed(reading))

    def write(self, action: "Callable[[Connection], T]") -> T:
        """Return what `action` has written: the only writer at this moment, into the newest schema.

        It may be called again where the connection was lost: what it does twice must be the same as once.
        """

        def writing() -> T:
            self._kind.prepare()
            with self._transaction(writing=True) as connection:
                self._kind.lock(connection)
                if not self._is_known:
                    tables.migrate(connection, self.name)
                written = action(connection)
            self._is_known = True
            return written

        return self._attempted(writing)

    def close(self) -> None:
        if self._process == os.getpid():
            for engine in self._engines:
                engine.dispose()
        self._engines = ()

    @contextmanager
    def _transaction(self, *, writing: bool) -> "Iterator[Connection]":
        if self._process != os.getpid():
            self._inherited += self._engines
            self._engines, self._process = (), os.getpid()
        self._engines = self._engines or self._kind.engines()
        with (
            self._engines[writing].connect().execution_options(hwperf_writing=writing) as connection,
            connection.begin(),
        ):
            self._was_reached = True
            yield connection

    def _attempted(self, action: Callable[[], T]) -> T:
        """Do it again where a server that was there has gone, as one that is started anew, until patience is over."""
        from sqlalchemy.exc import SQLAlchemyError

        waited_s, wait_s = 0.0, _FIRST_WAIT_S
        while True:
            try:
                return action()
            except (SQLAlchemyError, sqlite3.Error) as error:
                if not (self._was_reached and waited_s < self._patience_s and is_gone(error)):
                    raise explained(error, self.name, self._kind.remedies) from error
            except (Damaged, OverflowError) as error:
                raise StoreError(f"{self.name} is damaged ({error}): {self._kind.remedies['damaged']}") from error
            except OSError as error:
                raise StoreError(
                    f"{self.name} cannot be read or written ({error.strerror}): choose another place for baselines "
                    "with --hwperf-store"
                ) from error
            self._sleep(wait_s)
            waited_s, wait_s = waited_s + wait_s, min(2 * wait_s, _LONGEST_WAIT_S)


class Postgres:
    """A database of PostgreSQL; whatever its URL says is handed on to libpq, TLS too."""

    def __init__(self, url: str, patience_s: float) -> None:
        self._url, self._patience_s = url, patience_s
        self.name = visible(url)
        self.remedies = {
            "unreachable": "check host, name and user; a password is read from PGPASSWORD, ~/.pgpass or a service file",
            "refused": "ask its owner for the right, as docs/baselines.md lists them",
            "held": f"another process is writing for over {patience_s:g} s: wait for that one or end it",
            "damaged": "restore a backup",
            "foreign": "give a database or a schema (?options=-csearch_path%3DNAME) of its own",
        }

    def exists(self) -> bool:
        """Whether there is something to ask."""
        return True

    def prepare(self) -> None:
        """Do nothing: a database is made by its owner."""

    def engines(self) -> "tuple[Engine, Engine]":
        """Return one engine, which keeps a connection, to read and to write."""
        from sqlalchemy import create_engine

        waits = {} if "connect_timeout" in self._url else {"connect_timeout": _PATIENCE_TO_CONNECT_S}
        arguments = {"application_name": "pytest-hwperf", **waits}
        engine = create_engine(self._url, pool_size=1, connect_args=arguments)
        return engine, engine

    def undisturbed(self, action: Callable[[], T]) -> T:
        """Return what a reading action returns: the server keeps writers from disturbing it."""
        return action()

    def lock(self, connection: "Connection") -> None:
        """Wait until no other process writes, and ask the server to flush what is acknowledged."""
        from sqlalchemy import text

        limit = f"{self._patience_s:.0f}s"
        connection.execute(text("SELECT set_config('lock_timeout', :limit, true)"), {"limit": limit})
        connection.execute(text(_DURABLE))
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def is_gone(error: Exception) -> bool:
    """Whether a server has gone in the middle, so that the same may work a moment later."""
    from sqlalchemy.exc import DBAPIError, OperationalError

    if not isinstance(error, DBAPIError) or isinstance(error.orig, sqlite3.Error):
        return False
    state = _state(error)
    return error.connection_invalidated or state in _STOPPING or (isinstance(error, OperationalError) and not state)


def explained(error: Exception, name: str, remedies: Mapping[str, str]) -> StoreError:
    """Return the error for the user: what the database said, in one line, and what to do."""
    raised = getattr(error, "orig", None) or error
    said, state = str(raised).strip().partition("\n")[0], _state(error)
    if isinstance(raised, sqlite3.Error):
        kind, words = next(found for sign, found in _TEXTS.items() if sign in said.lower())
    elif state:
        kind, words = next(found for sign, found in _STATES.items() if state.startswith(sign))
    else:
        kind, words = _STATES["28"]
    return StoreError(f"{name} {words} ({said}): {remedies[kind]}")


def _state(error: Exception) -> str:
    """Return the SQLSTATE, "" where there is none, as of SQLite."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) or ""
