"""What a report adds to its runs: a row for each verdict, once; and how dashboards read them."""

import re
from array import array
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

import sqlite3

from fakes import postgres
from fakes import records as fake

from pytest_hwperf.records.evidence import Evidence, Gate, Hypothesis, Measurement, Observation, Pair
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, Judgement, Margin
from pytest_hwperf.stats.stored.compare import stored_run_of
from pytest_hwperf.stores.sql.store import SqlStore

ANCHOR = "a" * 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "team.db"


@pytest.fixture
def store(path: Path) -> SqlStore:
    return SqlStore(f"sqlite:///{path}")


def anchored(change: float, day: int, *, against: str = "anchor") -> Report:
    """A report of one test, whose median latency was compared in two pairs with a pinned release."""
    judgement = compared(change, day)
    run = judgement.run
    measurement = Measurement(test=run.test, label=run.label)
    question = Hypothesis(
        measurement=measurement, margin=Margin(metric="latency", statistic="p50", size=0.02), better="lower"
    )
    pairs = tuple(
        Pair(
            number=number, stage="confirm", first="baseline", hash_seeds={}, assignments=(),
            observations=(observed(measurement, change), replace(observed(measurement, 0.5), metric="cpu_time")),
        )
        for number in (1, 2)
    )  # fmt: skip
    gate = Gate(
        against=against, revision=ANCHOR, seed=1, shared={}, seconds={},
        evidence=Evidence(alpha=0.01, hypotheses=(question,), pairs=pairs),
    )  # fmt: skip
    return replace(fake.report(), judgements=(judgement,), gates=(gate,))


def compared(change: float, day: int) -> Judgement:
    verdict = fake.comparison_verdict("latency", "p50", "regressed", (change, change - 0.01, change + 0.01))
    budget = fake.budget_verdict("latency_p95_ms", "latency", "p95", 0.005, "failed")
    run = replace(fake.run(), started_at=f"2026-03-{day:02}T00:00:00+00:00")
    return Judgement(run=run, figures=(fake.figure(),), verdicts=(budget, verdict))


def observed(measurement: Measurement, change: float) -> Observation:
    return Observation(
        measurement=measurement, metric="latency", statistic="p50", baseline=array("d", [1.0, 3.0, 2.0]),
        candidate=array("d", [1.1, 3.3, 2.2]), change=change, preempted=0.25,
    )  # fmt: skip


def rows(path: Path, question: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def test_a_report_is_kept_once_whatever_comes_first(store: SqlStore, path: Path) -> None:
    """Its runs are those that are saved and held beside it: none is there twice."""
    report = fake.report()
    stored = [stored_run_of(one) for one in report.judgements]
    store.keep("main", report)
    assert store.newest("main") == ()
    store.save("main", stored[:1])
    store.hold("main", stored[1:2])
    for _ in range(2):
        store.keep("main", report)
    assert store.newest("main") == (stored[0],)
    assert [*store.histories("main", held=True)] == [(stored[1],)]
    assert rows(path, "SELECT state FROM run ORDER BY id") == [("accepted",), ("held",), ("kept",)]
    assert rows(path, "SELECT count(*) FROM verdict") == [(sum(len(one.verdicts) for one in report.judgements),)]
    compared = sum(len(one.comparisons) for one in report.judgements)
    assert rows(path, "SELECT count(*) FROM verdict WHERE scale != ''") == [(compared,)]
    against = rows(path, "SELECT DISTINCT against, revision, anchored FROM verdict WHERE scale != ''")
    assert against == [("baseline main", "", 0)]


def test_an_empty_report_keeps_nothing(store: SqlStore, path: Path) -> None:
    store.keep("main", fake.empty_report())
    assert not path.exists()


def test_changes_from_an_anchor_are_a_series_of_their_own(store: SqlStore, path: Path) -> None:
    """Relative to the anchor, oldest first."""
    store.keep("main", anchored(0.03, 2))
    store.keep("main", anchored(0.01, 1))
    store.keep("main", anchored(0.02, 3, against="origin/main"))
    raw, paired = store.history("main")
    assert (raw.anchor, paired.anchor, len(raw.values)) == ("", ANCHOR, 3)
    assert (paired.key, paired.source, paired.better) == (("latency", "p50"), "perf_counter", "lower")
    assert [one.estimate.value for one in paired.values] == [0.01, 0.03]
    comparison = anchored(0.01, 1).judgements[0].verdicts[1].subject
    assert isinstance(comparison, Comparison)
    assert paired.values[0].estimate == comparison.change
    assert [one.accepted for one in (*raw.values, *paired.values)] == [False] * 5
    columns = "place, outcome, fails, scale, value, allowed, against, revision, anchored"
    found = rows(path, f"SELECT {columns} FROM verdict WHERE run_id != 2 ORDER BY run_id, place")  # noqa: S608 - ours
    budget = (0, "failed", 1, "", None, 0.005, "", "", 0)
    assert found == [
        budget, (1, "regressed", 1, "relative", 0.03, 0.02, "anchor", ANCHOR, 1),
        budget, (1, "regressed", 1, "relative", 0.02, 0.02, "origin/main", ANCHOR, 0),
    ]  # fmt: skip


def test_what_stored_runs_have_answered_is_not_against_the_revision_that_was_rerun(store: SqlStore, path: Path) -> None:
    """An accuracy by stored runs is found as pairs find it: its promise tells them apart."""
    report = anchored(0.03, 1, against="baseline main")
    (judgement,) = report.judgements
    budget, verdict = judgement.verdicts
    assert isinstance(verdict.subject, Comparison)
    ways = {"method": state("historical")}, {"promise": state("error rate split", alpha=1, family=2)}
    for day, way in enumerate(ways, 1):
        answer = replace(verdict, subject=replace(verdict.subject, **way))
        run = replace(judgement.run, started_at=f"2026-04-0{day}T00:00:00+00:00")
        changed = replace(judgement, run=run, verdicts=(budget, answer))
        store.keep("main", replace(report, judgements=(changed,), baseline="main"))
    found = rows(path, "SELECT against, revision FROM verdict WHERE scale != ''")
    assert found == [("baseline main", "")] * 2


def test_a_budget_has_the_value_of_its_figure(store: SqlStore, path: Path) -> None:
    store.keep("main", fake.report())
    judgement = fake.report().judgements[0]
    estimates = [(one.metric, one.estimate.value, one.estimate.low, one.source) for one in judgement.figures]
    joined = "FROM verdict JOIN metric ON metric.id = metric_id WHERE run_id = 1 AND scale = '' AND outcome = 'failed'"
    (found,) = rows(path, f"SELECT name, value, low, source {joined}")
    assert found in estimates


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.live)])
def test_a_dashboard_reads_verdicts_by_the_query_of_the_docs(
    request: pytest.FixtureRequest, path: Path, kind: str
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "baselines.md").read_text(encoding="utf-8")
    (query,) = (block for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if block.startswith("SELECT"))
    location = f"sqlite:///{path}"
    if kind == "postgresql":
        server: postgres.Server = request.getfixturevalue("server")
        server.execute("CREATE SCHEMA dashboard")
        location = server.url(schema="dashboard")
    store = SqlStore(location)
    store.keep("main", anchored(0.03, 2))
    found = store._database.read(lambda one: [tuple(row) for row in one.exec_driver_sql(query)], list[Any]())
    store.close()
    shown = [row[2:] for row in found]
    assert shown == [
        (fake.TEST, "", "latency", "p95", "failed", None, None, None, 0.005, ""),
        (fake.TEST, "", "latency", "p50", "regressed", 0.03, 0.03 - 0.01, 0.03 + 0.01, 0.02, "anchor"),
    ]


def test_what_goes_with_a_run_is_removed_with_it(store: SqlStore, path: Path) -> None:
    store.keep("main", anchored(0.03, 2))
    assert store.remove("main", "*") == (fake.TEST,)
    for table in ("run", "estimate", "verdict"):
        assert rows(path, f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608 - ours
