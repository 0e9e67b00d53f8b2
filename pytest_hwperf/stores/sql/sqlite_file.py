"""A database in one file: SQLite."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_hwperf.core.errors import StoreError
from pytest_hwperf.core.foreign_text import shortened
from pytest_hwperf.host.files import refused_name
from pytest_hwperf.stores.sql.problems import Remedies

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

_BEFORE = "sqlite:///"
_LONGEST = 100_000_000  # bytes of a value or a statement: no larger one is loaded into memory


class SqliteFile:
    """A file of SQLite; each transaction has a connection of its own, so that none is shared with a forked process."""

    def __init__(self, url: str, patience_s: float) -> None:
        """Name a file, which need not be there.

        Raises:
            StoreError: no file can be called so.
        """
        self._path, self._patience_s, self._is_prepared = Path(url.removeprefix(_BEFORE)), patience_s, False
        self.name = str(self._path)
        if why := refused_name(self._path):
            raise StoreError(f"{shortened(self.name)} names no file ({why}): choose another with --hwperf-store")
        self.remedies = Remedies(
            unreachable="make it readable, or choose another place with --hwperf-store",
            refused="make the file and its folder writable, or choose another place with --hwperf-store",
            held=f"it is held by another process for over {patience_s:g} s: wait for that one or end it",
            damaged=f"restore a backup, or save what can be read with `sqlite3 {self._path.name} .recover`",
            foreign="give another file, or delete this one",
        )

    def exists(self) -> bool:
        """Whether there is something to read.

        Raises:
            StoreError: something that is no file.
        """
        if not os.path.lexists(self._path):
            return False
        if self._path.exists() and not self._path.is_file():
            raise StoreError(f"{self._path} is not a file: choose another place for baselines with --hwperf-store")
        return not self._path.exists() or self._path.stat().st_size > 0

    def prepare(self) -> None:
        """Make the folder and the file, with a write-ahead log where its file system has shared memory."""
        if self._is_prepared:
            return
        self.exists()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = self._connect()
        try:
            with suppress(sqlite3.OperationalError):  # another writer is there, and does the same
                connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        self._is_prepared = True

    def engine(self) -> "Engine":
        """Return an engine that connects to it anew for each transaction."""
        from sqlalchemy import create_engine, event
        from sqlalchemy.pool import NullPool

        engine = create_engine("sqlite://", creator=self._connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin)
        return engine

    def lock(self, connection: "Connection") -> None:
        """Do nothing: the transaction itself has begun as the only one that writes."""

    def _connect(self) -> sqlite3.Connection:
        """Open it to read and write, which SQLite turns into reading alone where the file may not be written.

        In a folder that may not be written, a file with a write-ahead log can only be read as one that nobody writes,
        which is so where there is no log.
        """
        there = self._path.exists() and self._path.stat().st_size > 0
        try:
            return self._opened("rw" if there else "rwc")
        except sqlite3.OperationalError:
            log = self._path.with_name(f"{self._path.name}-wal")
            if not there or (log.exists() and log.stat().st_size > 0):
                raise
            return self._opened("ro&immutable=1")

    def _opened(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode={mode}", uri=True, timeout=self._patience_s, isolation_level=None
        )
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            for pragma in ("foreign_keys = ON", "synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # nothing is read before that
        except BaseException:
            connection.close()
            raise
        return connection


def _begin(connection: "Connection") -> None:
    """Begin a transaction: one that will write waits for other writers now, and not in its middle."""
    writing = connection.get_execution_options().get("hwperf_writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
