"""A real PostgreSQL server for tests: in a temporary folder, reached by a socket in it, ended with the tests."""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DEBIAN = Path("/usr/lib/postgresql")  # which has each version in a folder; others have it in PATH
PASSWORD = "not-a-secret"  # noqa: S105 - the socket lies in a private folder
LONGEST_START_S = 60.0

_PR_SET_PDEATHSIG = 1


@cache
def why_missing() -> str:
    """Return why no server can be had here, "" where one can."""
    missing = [name for name in ("sqlalchemy", "alembic", "psycopg") if find_spec(name) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    if sys.platform != "linux":
        return "servers of tests are ended by Linux"
    if folder() is None:
        return "no PostgreSQL: neither initdb in PATH nor in /usr/lib/postgresql"
    return "" if os.geteuid() or _user() else "PostgreSQL does not run as root, and there is no other user"


@cache
def folder() -> Path | None:
    """Return the folder of PostgreSQL's programs."""
    found = shutil.which("initdb")
    places = [Path(found).resolve()] if found else sorted(DEBIAN.glob("*/bin/initdb"))
    return places[-1].parent if places else None


class Server:
    """A server that is started, stopped and killed; durable, as one that holds real runs."""

    def __init__(self, place: Path) -> None:
        self._place, self._data = place, place / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.passwords = place / "pgpass"
        self.passwords.write_text(f"*:*:*:*:{PASSWORD}\n", encoding="utf-8")
        self.passwords.chmod(0o600)
        given = place / "password"
        given.write_text(PASSWORD, encoding="utf-8")
        for path in (place, given):
            _give(path)
        self._run(
            "initdb", "--no-sync", "--auth=scram-sha-256", "--username=owner", f"--pwfile={given}", "--encoding=UTF8",
            "--locale=C", f"--pgdata={self._data}",
        )  # fmt: skip

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = ("max_connections=60", "shared_buffers=32MB", "wal_level=minimal", "max_wal_senders=0")
        command = [str(self._program("postgres")), "-D", str(self._data), "-k", str(self._place), "-h", ""]
        with (self._place / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *(word for setting in settings for word in ("-c", setting))],
                stdout=log, stderr=log, preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread is under way
                cwd=self._place, **_identity(),
            )  # fmt: skip
        deadline = time.monotonic() + LONGEST_START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._place / "log").read_text(encoding="utf-8", errors="replace"))
            time.sleep(0.02)

    def stop(self, kind: signal.Signals = signal.SIGINT) -> None:
        """Stop it in a way: SIGINT is fast, SIGQUIT immediate, SIGKILL a crash."""
        if self._process is None:
            return
        children = _children(self._process.pid)
        self._process.send_signal(kind)
        self._process.wait(LONGEST_START_S)
        for child in children:  # of a killed server; they notice by themselves, but its start would wait for them
            while kind == signal.SIGKILL and Path(f"/proc/{child}").exists():
                time.sleep(0.01)
        self._process = None

    def url(self, database: str = "postgres", user: str = "owner", schema: str = "") -> str:
        """Return the URL of a database, as SQLAlchemy takes it."""
        path = f"&options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql+psycopg://{user}@/{database}?host={self._place}{path}"

    def execute(self, *statements: str, user: str = "owner") -> None:
        """Execute statements, each by itself."""
        import psycopg

        with psycopg.connect(
            host=str(self._place), user=user, password=PASSWORD, dbname="postgres", autocommit=True
        ) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _answers(self) -> bool:
        import psycopg

        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._program(program)), *arguments], capture_output=True, text=True, check=False, cwd=self._place,
            **_identity(),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def _program(self, name: str) -> Path:
        place = folder()
        assert place is not None
        return place / name


@contextmanager
def server() -> Iterator[Server]:
    """A running server, until the end; its folder is short, since the path of a socket has to be."""
    place = Path(tempfile.mkdtemp(prefix="hwperf-pg-"))
    try:
        made = Server(place)
        try:
            made.start()
            yield made
        finally:
            made.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _user() -> str:
    """Return an unprivileged user, "" where there is none."""
    known = {one.pw_name for one in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), "")


def _identity() -> dict[str, Any]:
    """Return how a process is started as another user, which only root has to."""
    if os.geteuid():
        return {}
    found = pwd.getpwnam(_user())
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


def _give(path: Path) -> None:
    if not os.geteuid():
        found = pwd.getpwnam(_user())
        os.chown(path, found.pw_uid, found.pw_gid)


def _end_with_parent() -> None:
    """Let the server end where the tests were killed: it is asked to stop at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _children(process: int) -> list[int]:
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in path.read_text(encoding="ascii").split()] if path.exists() else []
