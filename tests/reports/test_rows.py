"""Rows in groups: every verdict is in one of them, the worst first, and nothing open among what is well."""

from collections.abc import Sequence
from typing import get_args

from fakes import records as fake

from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import BudgetOutcome, ComparisonOutcome, Judgement
from pytest_hwperf.reports.rows import GROUPS, Row, grouped, metric_of, row_of, rows_of, sorted_keys, unit_of


def report(*judgements: Judgement) -> Report:
    return replace(fake.empty_report(), judgements=judgements)


def compared(test: str, outcome: ComparisonOutcome, change: float, margin: float = 0.02) -> Judgement:
    verdict = fake.comparison_verdict(
        "latency", "p50", outcome, (change, change - 0.01, change + 0.01), margin=margin, baseline=0.001
    )
    return Judgement(run=fake.run(test=test), figures=(fake.figure(),), verdicts=(verdict,))


def limited(test: str, metric: str, value: float, limit: float, *, fails: bool = True) -> Judgement:
    statistic = "mean" if metric == "throughput" else "p50"
    verdict = replace(fake.budget_verdict("k", metric, statistic, limit, "failed"), fails=fails)
    figure = fake.figure(metric, statistic, fake.estimate(value, value, value, 9))
    return Judgement(run=fake.run(test=test), figures=(figure,), verdicts=(verdict,))


def names_of(rows: Sequence[Row]) -> list[str]:
    return [row.test for row in rows]


def test_every_outcome_has_a_group() -> None:
    assert {*get_args(BudgetOutcome), *get_args(ComparisonOutcome)} == {one for own in GROUPS.values() for one in own}


def test_every_verdict_is_in_one_group() -> None:
    rows = [row for group in grouped(fake.report()).values() for row in group if row.verdicts]
    verdicts = [verdict for judgement in fake.report().judgements for verdict in judgement.verdicts]
    assert sorted(map(repr, verdicts)) == sorted(repr(row.verdict) for row in rows)


def test_regressions_stand_by_their_multiple_of_the_margin() -> None:
    """+5 % of 2 %, +9 % of 10 %, +30 % of 20 %: 2.5, 0.9 and 1.5 margins."""
    found = grouped(
        report(
            compared("a", "regressed", 0.09, 0.1),
            compared("b", "regressed", 0.05),
            compared("c", "regressed", 0.30, 0.2),
            compared("d", "regressed", 0.001, 0.0),
            compared("e", "improved", -0.04),
            compared("f", "improved", -0.08),
        )
    )
    assert ["b", "c", "d", "a"] == names_of(found["regressed"])
    assert ["f", "e"] == names_of(found["improved"])


def test_missed_budgets_stand_by_how_far_they_are_missed() -> None:
    """12 ms of 10, 300 of at least 1000 a second, 5 ms of 0: 20 %, 70 %, and more than any share."""
    found = grouped(
        report(
            limited("a", "latency", 0.012, 0.010),
            limited("b", "throughput", 300, 1000),
            limited("c", "latency", 0.005, 0.0),
        )
    )
    assert ["c", "b", "a"] == names_of(found["failed"])


def test_a_forged_budget_without_a_figure_stands_last() -> None:
    without = replace(limited("a", "latency", 0.9, 0.010), figures=())
    assert ["b", "a"] == names_of(grouped(report(without, limited("b", "latency", 0.02, 0.01)))["failed"])


def test_what_is_open_and_fails_stands_first() -> None:
    fails = compared("b", "inconclusive", 0.001)
    fails = replace(fails, verdicts=(replace(fails.verdicts[0], fails=True),))
    absent = fake.budget_verdict("energy_budget_mj", "energy", "mean", 0.1, "unmeasured")
    last = replace(fake.sklearn_judgement(), verdicts=(absent,))
    found = grouped(report(compared("a", "inconclusive", 0.03), fails, fake.plain_judgement(), last))
    assert ["b", "a"] == names_of(found["inconclusive"])
    assert [True, False] == [row.verdict.fails for row in found["unanswered"]]
    assert "inconclusive (fails)" == found["inconclusive"][0].outcome
    assert found["unanswered"][0].budget


def test_the_cause_is_what_moved_then_what_disturbed() -> None:
    moved = state("operator moved", operator="Gather", candidate=0.002, baseline=0.001, share=0.91)
    verdict = fake.comparison_verdict(
        "latency", "p50", "inconclusive", (0.03, 0.01, 0.05), baseline=0.001, detectable=0.076, warnings=("a", "a", "b")
    )
    told = fake.of_subject(verdict, moved=moved, cause=said("why"), interference=0.2)
    row = row_of(fake.plain_judgement(), told)
    assert row.cause == f"{moved}; why; 20 % of turns were interrupted by other work; a; b"
    assert row.detectable == "7.6 %"


def test_an_inconclusive_budget_tells_what_decided_it_and_what_is_lacking() -> None:
    budget = fake.budget_verdict("latency_p99_ms", "latency", "p99", 0.01, "inconclusive")
    row = row_of(fake.sklearn_judgement(), replace(budget, decided_by=(state("timed point"),)))
    assert row.cause == f"p99 needs 459 calls for an upper bound at 98 %; {state('timed point')}"
    assert row.name == "latency p99"


def test_an_unmeasured_budget_tells_why() -> None:
    row = next(row for row in grouped(fake.report())["unanswered"] if row.budget)
    assert (row.values, row.cause) == ("unmeasured", fake.NO_COUNTER)


CHANGES: list[tuple[tuple[float, float, float | None], str]] = [
    ((0.048, 0.031, 0.065), "+4.8 % (+3.1 .. +6.5)"),
    ((-0.12, -0.151, -0.09), "-12 % (-15 .. -9.0)"),
    ((0.0, -0.01, 0.01), "0 % (-1.0 .. +1.0)"),
    ((0.0, 0.0, 0.0), "0 %"),
    ((2.9, 0.9, 3.1), "×3.9 (×1.9 .. ×4.1)"),
    ((0.05, 0.03, None), "+5.0 % (+3.0 .. ?)"),
]


def test_change_and_its_ends_are_in_one_unit() -> None:
    verdict = fake.comparison_verdict("latency", "p50", "regressed", (0.05, 0.03, 0.07))
    told = [fake.of_subject(verdict, change=fake.estimate(*change, 12)) for change, _ in CHANGES]
    assert [shown for _, shown in CHANGES] == [row_of(fake.plain_judgement(), one).change for one in told]


INTERVALS = [
    (3553.0, 3553.0, "3.55 kB"),  # every reading is the same
    (None, None, "3.55 kB"),
    (3551.0, 3554.0, "3.55 kB (3.55 .. 3.55)"),
    (3400.0, None, "3.55 kB (3.40 .. ?)"),
]


def test_a_value_has_its_interval_where_there_is_one() -> None:
    for low, high, shown in INTERVALS:
        figure = fake.figure("model_size", "p50", fake.estimate(3553.0, low, high, 3), per="model")
        (row,) = rows_of(Judgement(run=fake.run(), figures=(figure,), verdicts=()))
        assert shown == row.value


def test_metrics_are_in_their_order_and_the_users_follow() -> None:
    keys = [("zeal", "mean"), ("energy", "mean"), ("latency", "p99_9"), ("latency", "odd"), ("latency", "mean")]
    assert sorted_keys([*keys, *keys]) == [
        ("latency", "mean"),
        ("latency", "p99_9"),
        ("latency", "odd"),
        ("energy", "mean"),
        ("zeal", "mean"),
    ]


def test_users_metric_keeps_its_direction() -> None:
    run = replace(fake.run(), directions={"hits": "higher"})
    assert ("higher", "lower") == (metric_of(run, "hits").better, metric_of(run, "forgotten").better)


def test_what_is_counted_has_a_short_name() -> None:
    counted = ("batch of 9 calls", "fresh process", "window", "")
    assert ["batch", "process", "window", ""] == [unit_of(per) for per in counted]
