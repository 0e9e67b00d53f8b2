"""`--hwperf-store=sql:…`: a session saves to a database and compares with it, and says at its start what is wrong."""

import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from fakes.reruns import SIMULATED

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.stores.sql.store import SqlStore

QUICK = ("--hwperf-sample-time=0.2", "--hwperf-energy=off", "-p", "no:cacheprovider", *SIMULATED)
STORE = "--hwperf-store=sql:sqlite:///team.db"
TESTS = """
import pytest
from fakes.simulated_time import spend

def test_speed(hwperf):
    hwperf(lambda: spend(250))

@pytest.mark.hwbudget(latency_p50_ms=0.1)
def test_slow(hwperf):
    hwperf(lambda: spend(300))
"""

pytestmark = pytest.mark.usefixtures("fakes_in_reach")


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*QUICK, *options)


@pytest.mark.live
def test_a_session_saves_to_a_database_and_compares_with_it(pytester: pytest.Pytester) -> None:
    """The file is relative to the root; a failed run is held, and the command that accepts it is printed."""
    pytester.makepyfile(test_model=TESTS)
    saved = run(pytester, STORE, "--hwperf-save")
    path = pytester.path / "team.db"

    saved.assert_outcomes(passed=1, failed=1)
    saved.stdout.fnmatch_lines([
        f"*1 run saved to baseline main in sqlite:///{path}*",
        f"*hwperf baseline accept --baseline main --store sql:sqlite:///{path} test_model.py::test_slow*",
    ])  # fmt: skip
    store = SqlStore(f"sqlite:///{path}")
    assert [1, 1] == [len([*store.histories("main", held=held)]) for held in (False, True)]
    with closing(sqlite3.connect(path)) as connection:
        verdicts = connection.execute("SELECT outcome, fails FROM verdict").fetchall()
    assert verdicts == [("failed", 1)]
    compared = run(pytester, STORE, "--hwperf-compare", "-ohwperf_rerun=never", "-k", "speed", "-v")
    compared.assert_outcomes(passed=1)
    compared.stdout.no_fnmatch_line("*no baseline*")


def test_a_report_that_is_not_kept_fails_the_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise StoreError("the disk is full: free some space")

    monkeypatch.setattr(SqlStore, "keep", refused)
    pytester.makepyfile(test_model=TESTS)
    result = run(pytester, STORE, "--hwperf-save", "-k", "speed")

    result.stdout.fnmatch_lines(["*verdicts not kept: the disk is full: free some space*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sql:postgresql://me:hush@localhost/runs", "*--hwperf-store=sql:postgresql*it holds a password*PGPASSWORD*"),
        ("sql:postgresql:///none?host=/nowhere&user=me", "*cannot be reached*check host, name and user*"),
    ],
)
def test_a_database_that_cannot_be_used_is_named_at_the_start(pytester: pytest.Pytester, url: str, said: str) -> None:
    """Before anything is measured, and without the password."""
    if "postgresql:///" in url:
        pytest.importorskip("psycopg", reason="psycopg is not installed")
    pytester.makepyfile(test_model="def test_it(hwperf): hwperf(int)")
    for option in ("--hwperf-save", "--hwperf-compare") if "hush" in url else ("--hwperf-save",):
        result = run(pytester, f"--hwperf-store={url}", option)
        result.stderr.fnmatch_lines([f"ERROR: {said}"])
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "hush" not in result.stderr.str() + result.stdout.str()
