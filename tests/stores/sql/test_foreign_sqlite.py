"""A file of SQLite that someone else has made: commands refuse what could do harm before SQLite opens it to write."""

import os
import re
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from fakes import records as fake

from pytest_hwperf.cli import USAGE, main
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.stores.sql import sqlite_file
from pytest_hwperf.stores.sql.store import SqlStore

_MAGIC = bytes.fromhex("d9d505f920a163d7")
_PAGE = 4096
_ENDLESS = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id"
COMMANDS = {
    "list": ("baseline", "list"),
    "upgrade": ("baseline", "upgrade"),
    "accept": ("baseline", "accept", "*"),
    "history": ("history", "*"),
    "remove": ("baseline", "remove", "*"),
}
VIEW = " , ".join(
    f"id AS {name}" for name in ("baseline_id", "state", "started_at", "revision", "changed", "digest", "record")
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a store `team.db`, beside a file `precious` of its user; it is the current folder."""
    made = tmp_path / "repository"
    made.mkdir()
    (tmp_path / "precious").write_bytes(b"of the user")
    SqlStore(f"sqlite:///{made}/team.db").save("main", [fake.session()])
    monkeypatch.chdir(made)
    return made


def ran(command: str) -> int:
    return main([*COMMANDS[command], "--store=sql:sqlite:///team.db"])


def everything(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder and beside it, with their bytes."""
    return {str(path): path.read_bytes() for path in folder.parent.rglob("*") if path.is_file()}


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def hot_journal(folder: Path) -> None:
    """SQLite plays it back and removes the file whose name stands at its end, as a super-journal that is done with."""
    name, pages = os.fsencode(folder.parent / "precious"), (folder / "team.db").stat().st_size // _PAGE
    header = (_MAGIC + struct.pack(">IIIII", 0, 0, pages, 512, _PAGE)).ljust(512, b"\0")
    ending = struct.pack(">I", 2**30 // _PAGE + 1) + name + struct.pack(">II", len(name), sum(name)) + _MAGIC
    (folder / "team.db-journal").write_bytes(header + ending)


def linked(ending: str) -> Callable[[Path], None]:
    """Return what puts a link to the user's file where SQLite has its log or its shared memory."""
    return lambda folder: (folder / f"team.db{ending}").symlink_to(folder.parent / "precious")


def named_twice(ending: str) -> Callable[[Path], None]:
    """Return what gives the user's file a second name where SQLite has its log or its shared memory."""
    return lambda folder: (folder / f"team.db{ending}").hardlink_to(folder.parent / "precious")


def link_to(name: str, *statements: str) -> Callable[[Path], None]:
    """Return what puts a link to a file beside the repository in the place of the store."""

    def put(folder: Path) -> None:
        (folder / "team.db").unlink()
        if statements:
            execute(folder.parent / name, *statements)
        (folder / "team.db").symlink_to(folder.parent / name)

    return put


def changed(*statements: str) -> Callable[[Path], None]:
    """Return what changes the store by statements."""
    return lambda folder: execute(folder / "team.db", *statements)


def another_program(folder: Path) -> None:
    (folder / "team.db").unlink()
    execute(folder / "team.db", "CREATE TABLE visit (id)", "CREATE VIEW v AS SELECT 1")


_TRIGGER = "CREATE TRIGGER t AFTER INSERT ON annotation BEGIN DELETE FROM run; END"
_VIRTUAL = ("DROP TABLE annotation", "CREATE VIRTUAL TABLE annotation USING fts5(id, key)")
_DISGUISE = "UPDATE sqlite_master SET sql = replace(sql, 'CREATE V', 'CREATE /**/ V') WHERE name = 'annotation'"
_GENERATED = "ALTER TABLE run ADD COLUMN large BLOB AS (zeroblob(100000000))"  # bytes that are nowhere in the file
HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "hot journal": (hot_journal, "team.db-journal"),
    "log is a link": (linked("-wal"), "team.db-wal"),
    "shared memory is a link": (linked("-shm"), "team.db-shm"),
    "log has another name": (named_twice("-wal"), "team.db-wal"),
    "shared memory has another name": (named_twice("-shm"), "team.db-shm"),
    "journal is a link": (linked("-journal"), "team.db-journal"),
    "link to another program": (link_to("places.db", "CREATE TABLE visit (id)"), "link"),
    "link to a new file": (link_to("new.db"), "link"),
    "another program": (another_program, "of another program"),
    "endless view": (changed("DROP TABLE run", f"CREATE VIEW run AS {_ENDLESS}, {VIEW} FROM n"), "view 'run'"),
    "trigger": (changed(_TRIGGER), "trigger 't'"),
    "virtual table": (changed(*_VIRTUAL), "virtual table 'annotation'"),
    "disguised virtual table": (
        changed(*_VIRTUAL, "PRAGMA writable_schema = ON", _DISGUISE),
        "virtual table 'annotation'",
    ),
    "generated column": (changed(_GENERATED), "table run with generated columns"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_could_do_harm_is_refused_untouched(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """By each command; nothing in the repository or beside it has changed then."""
    put, named = HOSTILE[kind]
    put(folder)
    before = everything(folder)
    for command in COMMANDS:
        code = ran(command)
        assert everything(folder) == before
        assert code == USAGE
        assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE hwperf_schema SET version_num = x'31'",
        "UPDATE hwperf_schema SET version_num = 'abc'",
        "DELETE FROM hwperf_schema",
        "UPDATE test SET name = x'00ff'",
        "UPDATE baseline SET name = CAST('main' AS BLOB)",
        "UPDATE run SET id = 9223372036854775807",
        "UPDATE run SET record = 'text'",
        "UPDATE estimate SET n = 'many'",
        "DELETE FROM machine",
    ],
)
def test_rows_of_another_type_are_damage(folder: Path, capsys: pytest.CaptureFixture[str], statement: str) -> None:
    """Some command says so; none ends by a mistake of its own."""
    execute(folder / "team.db", "PRAGMA foreign_keys = OFF", statement)
    codes = [ran(command) for command in ("list", "history", "upgrade", "accept")]
    said = capsys.readouterr().err
    try:
        SqlStore(f"sqlite:///{folder}/team.db").save("main", [fake.session(test="new", median_s=2.0)])
    except StoreError as error:
        said += str(error)
    assert {*codes} <= {0, 1, USAGE}
    assert re.search("damaged|valid run", said)


def test_a_name_that_is_no_text_is_no_mistake_of_ours(folder: Path) -> None:
    database = sqlite3.connect(folder / "team.db")
    database.execute("PRAGMA writable_schema = ON")
    database.execute("UPDATE sqlite_master SET name = CAST(x'fffe' AS TEXT) WHERE name = 'annotation'")
    database.commit()
    database.close()
    assert {ran(command) for command in ("list", "history", "upgrade")} <= {0, 1, USAGE}


@pytest.mark.parametrize("command", ["list", "history"])
def test_reading_writes_nothing(folder: Path, command: str) -> None:
    """Nor does it leave a log or shared memory beside the file; a log that is there is not taken over into it."""
    before = everything(folder)
    assert ran(command) == 0
    assert everything(folder) == before

    with closing(sqlite3.connect(folder / "team.db", isolation_level=None)) as connection:
        connection.execute("UPDATE baseline SET name = 'main'")
        logged = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, content in logged.items():
        (folder / name).write_bytes(content)
    before = everything(folder)
    assert ran(command) == 0
    after = everything(folder)
    assert [after[name] for name in before if not name.endswith("-shm")] == [
        before[name] for name in before if not name.endswith("-shm")
    ]


@pytest.mark.usefixtures("folder")
def test_a_statement_that_never_ends_is_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of many rows takes as long as a view that recurs; here the time has run out before it begins."""
    monkeypatch.setattr(sqlite_file, "_LONGEST_S", 0.0)
    monkeypatch.setattr(sqlite_file, "_STEPS", 1)
    assert ran("list") == USAGE
    assert "team.db takes too long to answer (interrupted): restore a backup" in capsys.readouterr().err


def test_a_read_that_a_writer_has_disturbed_is_done_again(folder: Path) -> None:
    """Without a log beside it a file is read as one that nobody writes: whether that was so is looked at afterwards."""
    store, asked = SqlStore(f"sqlite:///{folder}/team.db"), list[int]()

    def disturbed(_: object) -> int:
        asked.append(len(asked))
        if len(asked) == 1:
            SqlStore(f"sqlite:///{folder}/team.db").save("main", [fake.session(median_s=2.0)])
            raise sqlite3.DatabaseError("database disk image is malformed")
        return len(asked)

    assert store._database.read(disturbed, 0) == 2
