"""A database in one file: SQLite. It may come from anyone, and is looked at before SQLite opens it to write."""

import os
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from pytest_hwperf.host.files import refused_name, stat_given
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.text import shell_word, shortened
from pytest_hwperf.stores.sql.tables import VERSION_TABLE, metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

T = TypeVar("T")

_BEFORE = "sqlite:///"
_LONGEST = 100_000_000  # bytes of a value or a statement: no larger one is loaded into memory
_LONGEST_S = 60.0  # of a statement
_STEPS = 10_000  # of SQLite's virtual machine, between two looks at the clock
_SETTINGS = ("foreign_keys = ON", "synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON")
_UNSEEN = "make the folders above it readable, or choose another place with --hwperf-store"
_PAUSE_S = 0.05  # before a lock is asked for again


class SqliteFile:
    """A file of SQLite; each transaction has a connection of its own, so that none is shared with a forked process."""

    def __init__(self, url: str, patience_s: float) -> None:
        """Name a file, which need not be there."""
        self._path, self._patience_s = Path(url.removeprefix(_BEFORE)), patience_s
        self._is_prepared = self._is_shared = False
        self._seen: tuple[int, int, int] | None = None  # the file as it was when it was opened without locks
        self._ends = 0.0  # of the present statement
        self.name = str(self._path)
        if why := refused_name(self._path):
            raise StoreError(f"{shortened(self.name)} names no file ({why}): choose another with --hwperf-store")
        self.remedies = {
            "unreachable": "make it readable, or choose another place with --hwperf-store",
            "refused": "make the file and its folder writable, or choose another place with --hwperf-store",
            "held": f"it is held by another process for over {patience_s:g} s: wait for that one or end it",
            "damaged": f"restore a backup, or save what can be read with `sqlite3 {shell_word(self.name)} .recover`",
            "foreign": "give another file, or delete this one",
        }

    def exists(self) -> bool:
        """Whether there is something to read."""
        self._check_names()
        seen = partial(stat_given, self._path, _UNSEEN, error=StoreError)
        if (found := seen()) is None:
            return seen(follow=False) is not None  # a link to nowhere, which SQLite refuses
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"{self._path} is not a file: choose another place for baselines with --hwperf-store")
        return found.st_size > 0

    def prepare(self) -> None:
        """Make the folder and the file, with a write-ahead log, once nothing speaks against what is there."""
        if self._is_prepared:
            return
        if self.exists():
            self.undisturbed(lambda: self._read_only().close())
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._writable()) as connection:
            self._keep_log(connection)
        self._is_prepared = True

    def engines(self) -> "tuple[Engine, Engine]":
        """Return an engine that reads and one that writes; each connects anew for each transaction."""
        return self._engine(self._read_only), self._engine(self._writable)

    def _engine(self, creator: Callable[[], sqlite3.Connection]) -> "Engine":
        from sqlalchemy import create_engine, event
        from sqlalchemy.pool import NullPool

        engine = create_engine("sqlite://", creator=creator, poolclass=NullPool)
        event.listen(engine, "begin", _begin)
        event.listen(engine, "before_cursor_execute", lambda *_: self._start_clock())
        return engine

    def lock(self, connection: "Connection") -> None:
        """Do nothing: the transaction itself has begun as the only one that writes."""

    def undisturbed(self, action: Callable[[], T]) -> T:
        """Read without locks; read again with locks if another process wrote to the file meanwhile."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            found = action()
        except (SQLAlchemyError, sqlite3.Error, StoreError):
            if not self._was_disturbed():
                raise
        else:
            if not self._was_disturbed():
                return found
        self._is_shared = True
        return action()

    def _was_disturbed(self) -> bool:
        return self._seen is not None and self._seen != self._state()

    def _state(self) -> tuple[int, int, int]:
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read_only(self) -> sqlite3.Connection:
        """Open it to read, so that no byte of it changes and nothing is made beside it.

        With locks SQLite would leave a log and shared memory behind, so it does without where no log is there.
        """
        log = self._beside("-wal")
        has_log = log.exists() and log.stat().st_size > 0
        self._seen = None if has_log or self._is_shared else self._state()
        return self._opened("ro" if self._seen is None else "ro&immutable=1")

    def _writable(self) -> sqlite3.Connection:
        """Open it to read and write, which SQLite turns into reading alone where the file may not be written."""
        return self._opened("rw" if self.exists() else "rwc")

    def _opened(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode={mode}", uri=True, timeout=self._patience_s, isolation_level=None
        )
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            self._start_clock()
            connection.set_progress_handler(lambda: time.monotonic() > self._ends, _STEPS)
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}")
            self._check_schema(connection)
        except UnicodeDecodeError as error:  # of what SQLite says of the schema
            connection.close()
            raise StoreError(f"{self._path} is damaged: a name in it is no text; restore a backup") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _start_clock(self) -> None:
        self._ends = time.monotonic() + _LONGEST_S

    def _beside(self, ending: str) -> Path:
        real = Path(os.path.realpath(self._path))  # where SQLite looks
        return real.with_name(f"{real.name}{ending}")

    def _check_names(self) -> None:
        """Refuse links, which SQLite follows, and a journal, which it plays back: that can delete any file."""
        if os.path.realpath(self._path.parent) != os.path.dirname(os.path.realpath(self._path)):  # noqa: PTH120 - loops
            raise StoreError(f"{self._path} is a link out of its folder: give the file itself with --hwperf-store")
        for ending in ("-journal", "-wal", "-shm"):
            beside = self._beside(ending)
            if os.path.lexists(beside) and (ending == "-journal" or not _is_own(beside)):
                raise StoreError(
                    f"{beside} is not of pytest-hwperf, and SQLite could change or delete other files by it: delete it "
                    f"with {self._path.name}, or restore a backup of both"
                )

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Refuse what another program has made, and anything that would run when a table is read or written."""
        connection.text_factory = lambda raw: raw.decode(errors="replace")  # a name may be any bytes
        found = connection.execute("SELECT type, lower(name), lower(tbl_name), rootpage FROM sqlite_master").fetchall()
        connection.text_factory, own = str, {VERSION_TABLE, *metadata().tables}
        for kind, name, table, page in found:
            is_virtual = kind == "table" and not page  # whatever its statement looks like: it has no rows in the file
            if {name, table} & own and (kind not in ("table", "index") or is_virtual):
                raise StoreError(
                    f"{self._path} has a {'virtual ' * is_virtual}{kind} {shortened(str(name))}, which pytest-hwperf "
                    "never makes: restore a backup, or give another file"
                )
        names = {str(name) for _, name, _, _ in found}
        for name in sorted(names & own):
            if any(column[-1] for column in connection.execute(f"PRAGMA table_xinfo({name})")):  # of our own names
                raise StoreError(
                    f"{self._path} has a table {name} with generated columns, which pytest-hwperf never makes: "
                    "restore a backup, or give another file"
                )
        if names and VERSION_TABLE not in names:
            raise StoreError(
                f"{self._path} holds a table {shortened(min(names))} of another program: give a database of its own"
            )

    def _keep_log(self, connection: sqlite3.Connection) -> None:
        """Turn the write-ahead log on; by way of a journal in memory, so that none ever lies beside the file."""
        ends = time.monotonic() + self._patience_s
        while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            try:
                connection.execute("PRAGMA journal_mode = MEMORY")
                if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                    raise StoreError(
                        f"{self._path} cannot have a write-ahead log on this file system: choose another place with "
                        "--hwperf-store"
                    )
            except sqlite3.OperationalError as error:  # another writer is there, and does the same
                if "locked" not in str(error) or time.monotonic() > ends:
                    raise
                time.sleep(_PAUSE_S)


def _is_own(path: Path) -> bool:
    """Whether it is a plain file that has no other name: SQLite writes to such a file without asking whose it is."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _begin(connection: "Connection") -> None:
    """Begin a transaction: one that will write waits for other writers now, and not in its middle."""
    writing = connection.get_execution_options().get("hwperf_writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
