"""`hwperf baseline copy` and `upgrade`: nothing is lost between stores, or it is said."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from fakes import records as fake
from fakes.commands import Told

from pytest_hwperf.cli import USAGE, baseline, main
from pytest_hwperf.cli.output import FAILED, OK
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.run import StoredRun
from pytest_hwperf.stats.stored.history import Annotation
from pytest_hwperf.stores.json_files import JsonStore
from pytest_hwperf.stores.sql.store import SqlStore

NOTE = Annotation(revision="a" * 40, text="new runner", noted_at=fake.STARTED)
TO_SQL = ["baseline", "copy", "json:.hwperf", "sql:sqlite:///team.db"]
TO_JSON = ["baseline", "copy", "sql:sqlite:///team.db", "json:back"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def runs(count: int, test: str = fake.TEST) -> list[StoredRun]:
    return [fake.session(median_s=float(number), test=test) for number in range(1, count + 1)]


def content(store: JsonStore | SqlStore, *, held: bool) -> list[tuple[StoredRun, ...]]:
    return sorted((tuple(one) for one in store.histories("main", held=held)), key=lambda one: one[0].run.test)


def test_both_ways_nothing_is_lost(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Accepted and held runs of each baseline, and notes; a second time nothing changes."""
    first = JsonStore(here / ".hwperf")
    first.save("main", [*runs(3), *runs(2, "other")])
    first.save("next", runs(1))
    first.hold("main", runs(2, "waiting"))
    first.annotate(NOTE)
    for _ in range(2):
        assert OK == main(TO_SQL)
        place = f"sqlite:///{here}/team.db"
        assert [
            f"baseline main: 5 runs in {place}",
            f"baseline main: 2 failed runs in {place}",
            f"baseline next: 1 run in {place}",
            f"1 note copied to {place}",
        ] == capsys.readouterr().out.splitlines()
        assert OK == main(TO_JSON)
        capsys.readouterr()
    database, back = SqlStore(f"sqlite:///{here}/team.db"), JsonStore(here / "back")
    for held in (False, True):
        assert content(first, held=held) == content(database, held=held) == content(back, held=held)
    assert (NOTE,) == database.annotations() == back.annotations()
    files = [
        sorted(path.relative_to(root) for path in root.rglob("*.jsonl")) for root in (here / ".hwperf", here / "back")
    ]
    assert files[0] == files[1]


def test_what_a_folder_does_not_keep_is_counted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once more, it does not go back in time."""
    SqlStore(f"sqlite:///{here}/team.db").save("main", [*runs(25), *runs(20, "other")])
    for _ in range(2):
        assert OK == main(TO_JSON)
        assert [
            f"baseline main: 40 runs in {here}/back",
            "  5 older runs left out: a folder of JSON files keeps the newest 20 of a test",
        ] == [line.partition(", and values")[0] for line in capsys.readouterr().out.splitlines()]
    found = content(JsonStore(here / "back"), held=False)
    assert [runs(20, "other"), runs(25)[5:]] == [[*one] for one in found]


def test_what_a_database_has_superseded_is_counted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not become the baseline again."""
    JsonStore(here / ".hwperf").save("main", runs(2))
    assert OK == main(TO_SQL)
    database = SqlStore(f"sqlite:///{here}/team.db")
    database.hold("main", [later := fake.session(median_s=9.0)])
    database.accept("main", fake.TEST)
    capsys.readouterr()
    assert OK == main(TO_SQL)
    assert [
        f"baseline main: 0 runs in sqlite:///{here}/team.db",
        "  2 older runs left out: the database has them, and a run that was accepted later has taken their place",
    ] == capsys.readouterr().out.splitlines()
    assert [(later,)] == content(database, held=False)


def test_a_damaged_target_is_named(here: Path, told: Told) -> None:
    SqlStore(f"sqlite:///{here}/team.db").save("main", runs(1))
    (stored,) = JsonStore(here / "back").save("main", runs(1, "other"))
    Path(str(stored)).write_text("{", encoding="utf-8")
    assert "is not whole JSON" in told(USAGE, *TO_JSON).err


def test_a_run_that_cannot_be_copied_is_named(here: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches, of which each copies what it can; what was not is counted."""
    monkeypatch.setattr(baseline, "_BATCH", 1)
    SqlStore(f"sqlite:///{here}/team.db").save("main", [*runs(1), *runs(1, "other"), *runs(1, "third")])
    real = JsonStore.save

    def save(store: JsonStore, baseline: str, given: list[StoredRun]) -> tuple[str | StoreError, ...]:
        refused = given[0].run.test == "other"
        return (StoreError("the disk is full"),) if refused else real(store, baseline, given)

    monkeypatch.setattr(JsonStore, "save", save)
    shown = told(FAILED, *TO_JSON)
    assert "hwperf: not copied: the disk is full\n" == shown.err
    assert f"baseline main: 2 runs in {here}/back\n" == shown.out


def test_only_the_named_baseline_is_copied(here: Path, told: Told) -> None:
    assert "hwperf: json:.hwperf has no accepted or held run, and no note\n" == told(FAILED, *TO_SQL).err
    JsonStore(here / ".hwperf").save("main", runs(1))
    JsonStore(here / ".hwperf").save("next", runs(1))
    assert OK == main([*TO_SQL, "--baseline=next"])
    assert SqlStore(f"sqlite:///{here}/team.db").baselines() == ("next",)


def test_a_database_gets_its_tables(here: Path, told: Told) -> None:
    answer = told(OK, "baseline", "upgrade", "--store=sql:sqlite:///team.db").out
    assert f"sqlite:///{here}/team.db has the newest schema\n" == answer
    with closing(sqlite3.connect(here / "team.db")) as connection:
        assert connection.execute("SELECT version_num FROM hwperf_schema").fetchall() == [("1",)]
    assert "only a database has a schema: give sql:…" in told(USAGE, "baseline", "upgrade", "--store=json:.hwperf").err
