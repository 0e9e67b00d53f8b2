"""A database in one file: what it is refused for, and what others may do with it meanwhile."""

import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from fakes import records as fake

from pytest_hwperf.host import extras
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.stores.sql import rows
from pytest_hwperf.stores.sql.store import SqlStore
from pytest_hwperf.stores.sql.tables import restored, storable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "team.db"


def opened(path: Path, patience_s: float = 60.0) -> SqlStore:
    return SqlStore(f"sqlite:///{path}", patience_s=patience_s)


def saved(path: Path) -> SqlStore:
    store = opened(path)
    store.save("main", [fake.session()])
    return store


def medians(store: SqlStore) -> list[float]:
    return [one.figures[0].estimate.value for one in store.load("main", fake.machine(), fake.TEST, "")]


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_file_has_a_write_ahead_log_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "team?.db"
    saved(path)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert medians(opened(path)) == [0.00631]


def test_every_connection_is_durable_and_holds_to_foreign_keys(path: Path) -> None:
    with closing(opened(path)._database._kind._writable()) as connection:  # type: ignore[union-attr] # of a file
        asked = ("synchronous", "foreign_keys", "trusted_schema", "busy_timeout")
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
        longest = connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)
    assert found == [2, 1, 0, 60_000]
    assert longest == 100_000_000


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 8)


def instead(put: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a damage that removes the file and puts something else in its place."""

    def damage(path: Path) -> None:
        path.unlink()
        put(path)

    return damage


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no database": (lambda path: path.write_text("[]" * 1000), "is no database of SQLite .*: give another file"),
    "the truncated": (
        lambda path: os.truncate(path, 5000),
        r"is damaged .*: restore a backup, or save .* `sqlite3 '/\S+/the truncated/team\.db' \.recover`",
    ),
    "overwritten": (overwritten, "is damaged .*: restore a backup"),
    "of another program": (
        instead(lambda path: execute(path, "CREATE TABLE run (id)")),
        "holds a table 'run' of another program: give a database of its own",
    ),
    "newer": (
        lambda path: execute(path, "UPDATE hwperf_schema SET version_num = '99'"),
        r"was written by a newer pytest-hwperf \(schema 99, this one reads 1\): upgrade pytest-hwperf",
    ),
    "a table lost": (lambda path: execute(path, "DROP TABLE estimate", "DROP TABLE run"), "lacks a table"),
    "a folder": (instead(Path.mkdir), "is not a file: choose another place"),
}
if sys.platform != "win32":
    import pwd

    DAMAGES["a pipe"] = instead(os.mkfifo), "is not a file: choose another place"


def test_damage_is_named_by_each_road(tmp_path: Path) -> None:
    for name, (damage, problem) in DAMAGES.items():
        path = tmp_path / name / "team.db"
        saved(path)
        damage(path)
        calls: tuple[Callable[[], object], ...] = (
            partial(opened(path).check, "main", writing=True),
            partial(opened(path).load, "main", fake.machine(), fake.TEST, ""),
            partial(opened(path).save, "main", [fake.session(median_s=2.0)]),
        )
        for call in calls:
            with pytest.raises(StoreError, match=problem) as raised:
                call()
            assert str(raised.value).startswith(str(path))
            assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE run SET record = x'00'", r"run 1 of .* holds no valid run \(.*\): restore a backup"),
        ("UPDATE run SET digest = x'00'", r"run 1 of .* was changed \(its digest does not fit\)"),
        ("UPDATE run SET record = substr(record, 1, 90)", r"holds no valid run \(cut off, or larger than any run\)"),
        ("UPDATE machine SET record = '[]'", "machine 1 of the store is damaged"),
        ("UPDATE estimate SET low = 9e9", "the history of .*test_classifier is damaged"),
        ("UPDATE metric SET better = 'x'", "the history of .*test_classifier is damaged"),
    ],
)
def test_a_damaged_row_is_named(path: Path, statement: str, problem: str) -> None:
    store = saved(path)
    execute(path, statement)

    calls: tuple[Callable[[], object], ...] = (
        lambda: store.load("main", fake.machine(), fake.TEST, ""),
        lambda: store.machines("main", fake.TEST, ""),
        lambda: store.history("main"),
    )
    assert [said for said in map(refusal, calls) if re.search(problem, said)]


def refusal(call: Callable[[], object]) -> str:
    """Return what a call is refused for, "" where it is not."""
    try:
        call()
    except StoreError as error:
        return str(error)
    return ""


def test_few_bytes_that_stand_for_many_are_not_unpacked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(path)
    monkeypatch.setattr(rows, "LARGEST", 100)
    with pytest.raises(StoreError, match="cut off, or larger than any run"):
        medians(opened(path))


def test_a_held_run_that_is_damaged_keeps_all_from_being_accepted(path: Path) -> None:
    store = opened(path)
    store.hold("main", [fake.session(test="a"), fake.session(test="b")])
    execute(path, "UPDATE run SET digest = x'00' WHERE id = 2")
    with pytest.raises(StoreError, match="run 2"):
        store.accept("main", "*")
    assert store.newest("main") == ()


def test_a_writer_that_never_ends_is_named(path: Path) -> None:
    """Readers go on meanwhile."""
    saved(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"is busy .*held by another process for over 0\.01 s: wait for that one"):
            opened(path, 0.01).save("main", [fake.session(median_s=2.0)])
        assert medians(opened(path)) == [0.00631]


def test_what_is_superseded_stays_in_the_history(path: Path) -> None:
    """So do failed runs that nobody accepted; only `remove` deletes, and everything."""
    store = saved(path)
    store.hold("main", [fake.session(median_s=2.0, revision="a"), fake.session(median_s=3.0, revision="b")])
    store.accept("main", "*")
    (series,) = store.history("main")
    assert [(one.estimate.value, one.accepted) for one in series.values] == [(0.00631, True), (2.0, False), (3.0, True)]
    assert [one.estimate.value for one in store.history("main", newest=2)[0].values] == [2.0, 3.0]
    store.save("main", [fake.session()])  # it was of the baseline once, and a repeated upload changes nothing
    assert medians(store) == [3.0]
    store.remove("main", "*")
    with closing(sqlite3.connect(path)) as connection:
        for table in ("run", "estimate", "baseline"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608 - ours


def test_a_missing_package_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for location, lacking, extra in (
        ("sqlite:////x.db", "alembic", "sql"),
        ("postgresql+psycopg://h/d", "psycopg", "postgres"),
    ):
        monkeypatch.setattr(extras, "find_spec", lambda name, lacking=lacking: None if name == lacking else object())
        with pytest.raises(StoreError, match=rf"needs {lacking}: pip install 'pytest-hwperf\[{extra}\]'$"):
            SqlStore(location)


def test_a_place_that_no_file_can_have_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/team\.db cannot be read or written \(.*\): choose another place"):
        opened(tmp_path / "file" / "team.db").check("main", writing=True)
    with pytest.raises(StoreError, match=r"names no file \(File name too long\)"):
        SqlStore(f"sqlite:////tmp/{'x' * 300}")


def test_any_text_is_stored_and_restored() -> None:
    """What nobody has stored so is left as it is."""
    for text in ("plain", "é", "", "a\0b", "\ud800", "\x01[]", "\x01", "\x01{", "\x01\x01"):
        stored = storable(text)
        stored.encode()
        assert "\0" not in stored
        assert restored(stored) == text
        assert text[:1] != "\x01" or restored(text) == text


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that another user can reach, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="hwperf-shared-"))
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def as_nobody(action: Callable[[], str]) -> str:
    """Return what an action says in a process of a user without rights; what it imports is there already."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        os.write(writing, action().encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_who_may_only_read_can_compare(shared_folder: Path, mode: int) -> None:
    """The file in a folder that may be written, or not."""
    path = shared_folder / "team.db"
    store = saved(path)
    store.check("main", writing=False)
    assert medians(store) == [0.00631]
    path.chmod(0o644)
    shared_folder.chmod(mode)
    assert as_nobody(lambda: str(medians(opened(path)))) == "[0.00631]"
    assert as_nobody(lambda: refusal(lambda: opened(path).check("main", writing=False))) == ""
    refused: tuple[Callable[[], object], ...] = (
        lambda: opened(path).check("main", writing=True),
        lambda: opened(path).save("main", [fake.session(median_s=2.0)]),
    )
    for call in refused:
        assert "make the file and its folder writable" in as_nobody(partial(refusal, call))
    store.save("main", [fake.session(median_s=3.0)])
    assert medians(store) == [0.00631, 3.0]
