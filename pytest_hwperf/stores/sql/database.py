"""A database that is read and written in transactions, each of which happens whole or not at all."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.stores.sql import problems, tables
from pytest_hwperf.stores.sql.postgres import Postgres
from pytest_hwperf.stores.sql.sqlite_file import SqliteFile
from pytest_hwperf.stores.sql.tables import Damaged

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

T = TypeVar("T")

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 0.5  # before a server that has gone is asked again; twice as long each time


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
                if not (self._was_reached and waited_s < self._patience_s and problems.is_gone(error)):
                    raise problems.explained(error, self.name, self._kind.remedies) from error
            except (Damaged, OverflowError) as error:
                raise StoreError(f"{self.name} is damaged ({error}): {self._kind.remedies.damaged}") from error
            except OSError as error:
                raise StoreError(
                    f"{self.name} cannot be read or written ({error.strerror}): choose another place for baselines "
                    "with --hwperf-store"
                ) from error
            self._sleep(wait_s)
            waited_s, wait_s = waited_s + wait_s, min(2 * wait_s, _LONGEST_WAIT_S)
