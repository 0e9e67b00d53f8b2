"""A database on a server: PostgreSQL."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pytest_hwperf.records.text import visible
from pytest_hwperf.stores.sql.problems import Remedies

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

T = TypeVar("T")

_LOCK = 0x68777066  # "hwpf": of whoever writes to this database by this package
_DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
_PATIENCE_TO_CONNECT_S = 10


class Postgres:
    """A database of PostgreSQL; whatever its URL says is handed on to libpq, TLS too."""

    def __init__(self, url: str, patience_s: float) -> None:
        self._url, self._patience_s = url, patience_s
        self.name = visible(url)
        self.remedies = Remedies(
            unreachable="check host, name and user; a password is read from PGPASSWORD, ~/.pgpass or a service file",
            refused="ask its owner for the right, as docs/baselines.md lists them",
            held=f"another process is writing for over {patience_s:g} s: wait for that one or end it",
            damaged="restore a backup",
            foreign="give a database or a schema (?options=-csearch_path%3DNAME) of its own",
        )

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
