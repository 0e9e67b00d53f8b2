"""Budgets and comparisons get their answers: outcome, reason, and whether the test fails."""

from fakes.records import run

from pytest_hwperf.records.messages import Statement, said, state
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.run import Estimate, Figure, replace
from pytest_hwperf.records.verdict import (
    Budget,
    BudgetOutcome,
    Comparison,
    ComparisonOutcome,
    Policy,
    Undecided,
    Verdict,
)
from pytest_hwperf.stats.verdicts import (
    answers_markers,
    explain,
    failure_lines,
    judge,
    judge_budget,
    judge_comparison,
    keeps,
    pairs_failed,
    why_it_cannot_pass,
)

BUDGET = Budget(keyword="latency_p95_ms", metric="latency", statistic="p95", limit=0.010)
FLOOR = Budget(keyword="throughput_min_qps", metric="throughput", statistic="mean", limit=100.0)


def figure(low: float | None, value: float, high: float | None, metric: str = "latency", stat: str = "p95") -> Figure:
    estimate = Estimate(value=value, low=low, high=high, confidence=0.9, n=400, method="m", warnings=())
    return Figure(metric=metric, statistic=stat, estimate=estimate, source="perf_counter", per="call")


def comparison(outcome: ComparisonOutcome = "regressed", **changes: object) -> Comparison:
    change = Estimate(value=0.048, low=0.039, high=0.056, confidence=0.98, n=8, method="m")
    made = Comparison(
        metric="latency",
        statistic="p50",
        outcome=outcome,
        change=change,
        scale="relative",
        margin=0.02,
        p_value=None,
        pairs=8,
        method=said("8 sessions, historical"),
        detectable=0.18,
        baseline=0.006,
    )
    return replace(made, **changes)


def test_a_budget_is_answered_by_the_whole_interval() -> None:
    """A lower limit is the mirror image. Where the interval holds the limit, the point decides whether it fails."""
    rate = ("throughput", "mean")
    table = [
        (BUDGET, figure(0.008, 0.009, 0.0099), "passed", False),
        (BUDGET, figure(0.011, 0.012, 0.013), "failed", True),
        (BUDGET, figure(0.009, 0.0095, 0.011), "inconclusive", False),
        (BUDGET, figure(0.009, 0.0105, 0.011), "inconclusive", True),
        (FLOOR, figure(101, 110, 120, *rate), "passed", False),
        (FLOOR, figure(80, 90, 99, *rate), "failed", True),
        (FLOOR, figure(90, 99, 110, *rate), "inconclusive", True),
        (FLOOR, figure(90, 101, 110, *rate), "inconclusive", False),
    ]
    found = [judge_budget(run(), [seen], budget, Policy()) for budget, seen, _, _ in table]
    assert [(outcome, fails) for _, _, outcome, fails in table] == [(one.outcome, one.fails) for one in found]


def test_an_inconclusive_budget_says_so_whatever_it_does() -> None:
    table: list[tuple[Undecided, float, bool, str]] = [
        ("point", 0.0095, False, "decided by the point estimate, near a limit a coin toss"),
        ("point", 0.0105, True, "decided by the point estimate, near a limit a coin toss"),
        ("retry", 0.0105, True, "decided by the point estimate, near a limit a coin toss"),
        ("pass", 0.0105, False, "let pass as asked"),
        ("fail", 0.0095, True, "failed as asked"),
    ]
    for undecided, point, fails, reported in table:
        verdict = judge_budget(run(), [figure(0.009, point, 0.011)], BUDGET, Policy(undecided=undecided))
        assert (verdict.outcome, verdict.fails) == ("inconclusive", fails)
        assert verdict.reason.endswith(
            f"limit 10 ms; 400 calls, perf_counter; inconclusive (the interval holds the limit), {reported}"
        )
        assert [reported] == [str(one) for one in verdict.decided_by]


def test_a_load_in_doubt_is_no_question_of_its_limit() -> None:
    """Its point is far from the limit, which says nothing of what the load may come to."""
    doubt = state("no steady state", ratio=1.5, low=1.2, what="median latency")
    found = figure(0.0001, 0.0001, None)
    verdict = judge_budget(
        run(), [replace(found, estimate=replace(found.estimate, warnings=(doubt,)))], BUDGET, Policy()
    )
    assert (verdict.outcome, verdict.fails) == ("inconclusive", False)
    assert "no steady state: thirds of the load differ" in verdict.reason
    assert ["doubted point"] == [one.kind for one in verdict.decided_by]
    assert "coin toss" not in verdict.reason


def test_a_bound_that_is_missing_puts_no_point_near_the_limit() -> None:
    (decision,) = judge_budget(run(), [figure(0.0001, 0.0001, None)], BUDGET, Policy()).decided_by
    assert "point" == decision.kind


def test_a_value_at_its_limit_keeps_it() -> None:
    values = ((BUDGET, 0.010), (BUDGET, 0.0101), (FLOOR, 100.0), (FLOOR, 99.9))
    assert [True, False, True, False] == [keeps(run(), budget, value) for budget, value in values]


def test_five_processes_on_one_side_decide() -> None:
    table: list[tuple[list[float], str, str]] = [
        ([0.009] * 5, "passed", "5 of 5 fresh processes kept the limit"),
        ([0.011] * 5, "failed", "0 of 5 fresh processes kept the limit"),
        ([0.009, 0.009, 0.011], "inconclusive", "2 of 3 fresh processes kept the limit"),
        ([0.009] * 4, "inconclusive", "4 of 4 fresh processes kept the limit"),
    ]
    for retried, outcome, said_of_them in table:
        inconclusive = figure(0.009, 0.0105, 0.011)
        (verdict,) = judge(run(), [inconclusive], [], [BUDGET], Policy(undecided="retry"), {BUDGET.key: retried})
        assert (outcome, outcome != "passed") == (verdict.outcome, verdict.fails)
        assert verdict.reason.endswith(said_of_them)
        assert said_of_them == str(verdict.decided_by[-1])


def test_five_processes_pass_no_percentile_of_too_few_calls_and_no_doubtful_load() -> None:
    """The highest of 20 calls lies below the p99 in most processes; a median of few calls has no such bias."""
    few = state("no bound", statistic="p99", side="upper", level=95.0, needed=299, n=20)
    table: list[tuple[str, Statement, float, BudgetOutcome]] = [
        ("p99", few, 0.009, "inconclusive"),
        ("p99", few, 0.011, "failed"),
        ("p50", few, 0.009, "passed"),
        ("p50", state("backlog grows", first=1, last=300), 0.009, "inconclusive"),
    ]
    for statistic, doubt, value, outcome in table:
        short = figure(0.009, 0.0095, None, stat=statistic)
        short = replace(short, estimate=replace(short.estimate, warnings=(doubt,)))
        budget = replace(BUDGET, statistic=statistic)
        assert outcome == judge_budget(run(), [short], budget, Policy(undecided="retry"), [value] * 5).outcome


def test_a_percentile_that_cannot_pass_in_its_time_says_which_it_needs() -> None:
    """299 calls of 6.27 ms on average take 1.87 s."""
    warning = state("no bound", statistic="p99", side="upper", level=95.0, needed=299, n=30)
    short = figure(0.009, 0.0095, None, stat="p99")
    short = replace(short, estimate=replace(short.estimate, warnings=(warning,)))
    verdict = judge_budget(run(), [short], replace(BUDGET, statistic="p99"), Policy())
    assert verdict.reason.endswith("; 299 calls take 1.87 s: --hwperf-sample-time=4")


def test_what_cannot_pass_in_its_time_is_known_from_one_call() -> None:
    """By what the verdict needs: an upper bound at 95 %, of which so many calls are the fewest."""
    table = [
        ("p99", 6.6e-3, ""),  # 299 calls take 1.97 s
        ("p99", 0.05, "latency p99 cannot pass in 2.00 s of calls: 299 calls take 15.0 s: --hwperf-sample-time=30"),
        (
            "p99_9",
            1e-3,
            "latency p99_9 cannot pass in 2.00 s of calls: 2,995 calls take 3.00 s: --hwperf-sample-time=6",
        ),
        ("p50", 0.5, "latency p50 cannot pass in 2.00 s of calls: 5 calls take 2.50 s: --hwperf-sample-time=5"),
        ("p99_9", 1.0, "2,995 calls take 2995 s: --hwperf-sample-time=3600"),
        ("p99_9", 2.0, "2,995 calls take 5990 s: give a limit to a lower percentile"),
        ("mean", 9.0, ""),
        ("max", 9.0, ""),
    ]
    for statistic, call_s, words in table:
        found = why_it_cannot_pass(replace(BUDGET, statistic=statistic), call_s, 2.0)
        assert found.endswith(words)
        assert bool(found) == bool(words)
        assert "" == why_it_cannot_pass(replace(BUDGET, metric="throughput", statistic="mean"), call_s, 2.0)


def test_a_budget_says_value_interval_n_source_and_limit() -> None:
    verdict = judge_budget(run(), [figure(0.011, 0.012, 0.013)], BUDGET, Policy())
    few = figure(0.009, 0.0095, None)
    few = replace(few, estimate=replace(few.estimate, warnings=("p95 has no upper 95 % bound below n=59, have n=30",)))
    assert explain(verdict) == ("FAILED  latency p95 12.0 ms (11.0 .. 13.0), limit 10 ms; 400 calls, perf_counter")
    assert "inconclusive (p95 has no upper 95 % bound below n=59, have n=30)" in (
        judge_budget(run(), [few], BUDGET, Policy()).reason
    )


def test_an_unmeasured_budget_fails_and_says_why() -> None:
    budget = Budget(keyword="energy_budget_mj", metric="energy", statistic="mean", limit=0.002)
    verdict = judge_budget(run(unmeasured={"energy": "energy is off"}), [], budget, Policy())
    assert (verdict.outcome, verdict.fails) == ("unmeasured", True)
    assert verdict.reason == "energy unmeasured, limit 2 mJ: energy is off"


def test_an_unmeasured_budget_may_pass_where_it_is_reported_to() -> None:
    """It keeps its outcome: what was not measured is never called passed."""
    table: list[tuple[Budget, Policy]] = [(BUDGET, Policy(undecided="pass")), (replace(BUDGET, default=True), Policy())]
    for budget, policy in table:
        verdict = judge_budget(run(), [], budget, policy)
        assert (verdict.outcome, verdict.fails) == ("unmeasured", False), (budget, policy)


def test_an_unmeasured_accuracy_tells_the_remedy() -> None:
    budget = Budget(keyword="accuracy_min", metric="accuracy", statistic="mean", limit=0.9)
    assert "give y_true=" in judge_budget(run(), [], budget, Policy()).reason


def test_what_a_comparison_does() -> None:
    table: list[tuple[ComparisonOutcome, bool, bool]] = [
        ("regressed", True, True),
        ("improved", False, False),
        ("equivalent", False, False),
        ("inconclusive", False, True),
        ("not comparable", False, True),
        ("no baseline", False, False),  # a first run is no error
    ]
    for outcome, fails, fails_strictly in table:
        made = comparison(outcome)
        metric = run().metric("latency")
        assert judge_comparison(metric, made, Policy()).fails == fails
        assert judge_comparison(metric, made, Policy(strict=True)).fails == fails_strictly


def test_a_statistic_that_another_one_answers_does_not_fail_strictly() -> None:
    for kind, fails in (("reciprocal", False), ("other data", True)):
        made = replace(comparison("not comparable"), cause=state(kind, other="latency mean"))
        assert judge_comparison(metric_of("throughput"), made, Policy(strict=True)).fails == fails


def test_a_test_that_the_baseline_could_not_run_fails_strictly_and_a_new_one_does_not() -> None:
    table: list[tuple[str | None, bool]] = [
        ("test ended", True),
        ("not runnable", True),
        ("lost, logged", True),
        ("no such test", False),
        (None, False),
    ]
    for kind, fails in table:
        made = replace(comparison("no baseline"), cause=state(kind) if kind else None)
        assert judge_comparison(run().metric("latency"), made, Policy(strict=True)).fails == fails
        assert not judge_comparison(run().metric("latency"), made, Policy()).fails, (kind, fails)


def test_a_test_that_does_not_run_in_pairs_is_told_from_one_that_cannot_be_compared() -> None:
    table: list[tuple[ComparisonOutcome, str | None, bool]] = [
        ("not comparable", "not at once", True),
        ("not comparable", "test ended", True),
        ("not comparable", "other conditions", False),
        ("not comparable", None, False),
        ("no baseline", "test ended", False),
    ]
    assert [] == [
        (outcome, kind, failed)
        for outcome, kind, failed in table
        if failed != pairs_failed(replace(comparison(outcome), cause=state(kind) if kind else None))
    ]


JUST_BEYOND = Estimate(value=0.0504, low=0.0501, high=0.0512, confidence=0.98, n=8, method="m")
OPEN = Estimate(value=0.1, low=None, high=None, confidence=0.98, n=1, method="m")
MORE_IS_BETTER = comparison("inconclusive", metric="accuracy", statistic="mean", scale="absolute", detectable=-0.02)


def test_a_comparison_says_its_numbers_or_why_there_are_none() -> None:
    table: list[tuple[Comparison, str]] = [
        (
            comparison(p_value=0.0002),
            "REGRESSED  latency p50 +4.8 % (+3.9 .. +5.6), 6.00 → 6.29 ms, margin 2 %; p=0.0002, 8 sessions, hist",
        ),
        # a change just beyond the margin does not look like it
        (
            comparison(change=JUST_BEYOND, margin=0.05, baseline=None),
            "REGRESSED  latency p50 +5.04 % (+5.0 .. +5.1), margin 5 %",
        ),
        (comparison("inconclusive", baseline=None), "margin 2 %; smallest detectable change 18 %"),
        (comparison("inconclusive", detectable=None), "margin 2 %; 8 sessions, historical"),
        (MORE_IS_BETTER, "smallest detectable change 2 pp"),
        (comparison(change=OPEN), "+10.0 % (? .. ?)"),
        (
            comparison("no baseline", change=None, cause=state("no baseline")),
            "NO BASELINE  latency p50: no baseline: save one with --hwperf-save",
        ),
    ]
    assert [] == [
        (made, words)
        for made, words in table
        if words not in explain(judge_comparison(run().metric(made.metric), made, Policy()))
    ]


def test_an_inconclusive_comparison_says_how_often_it_was_disturbed() -> None:
    table: list[tuple[ComparisonOutcome, float, str]] = [
        ("inconclusive", 0.54, "54 % of turns were interrupted by other work"),
        ("inconclusive", 0.0, ""),
        ("equivalent", 0.54, ""),
    ]
    for outcome, share, words in table:
        disturbed = replace(comparison(outcome), interference=share)
        verdict = judge_comparison(run().metric("latency"), disturbed, Policy())
        assert words == str(disturbed.disturbance or "")
        assert words in verdict.reason
        assert ("interrupted" in verdict.reason) == bool(words)


def test_a_run_is_answered_budgets_first() -> None:
    verdicts: tuple[Verdict, ...] = judge(run(), [figure(0.008, 0.009, 0.0099)], [comparison()], [BUDGET], Policy())
    assert [verdict.outcome for verdict in verdicts] == ["passed", "regressed"]


def test_a_run_of_own_metrics_leaves_the_markers_to_the_measured_one() -> None:
    """Where nothing was measured, budgets are reported unmeasured in every run."""
    measured, own = run(label="measured"), replace(run(label="own"), samples=())
    assert [True, False] == [answers_markers(one, {"measured"}) for one in (measured, own)]
    assert answers_markers(own, set())


def test_examples_that_would_decide_a_share_are_told() -> None:
    table: list[tuple[float, float | None, float, float, int]] = [
        (0.8, 0.5, 0.96, 0.7, 90),  # 0.3 to be 0.1: 10 * 9
        (0.6, 0.4, 0.9, 0.7, 90),  # from below
        (0.0, 0.0, 0.26, 0.05, 52),  # an interval of 0 shrinks with n: 10 * 5.2
        (0.7, 0.5, 0.9, 0.7, 0),  # at the limit no number decides
        (0.8, None, 0.96, 0.7, 0),
    ]
    for value, low, high, limit, needed in table:
        budget = Budget(keyword="accuracy_min", metric="accuracy", statistic="mean", limit=limit)
        estimate = Estimate(value=value, low=low, high=high, confidence=0.9, n=10, method="m")
        seen = Figure(metric="accuracy", statistic="mean", estimate=estimate, source="labels", per="example")
        verdict = judge_budget(run(), [seen], budget, Policy())
        told = [one for one in verdict.decided_by if one.kind == "few examples"]
        assert ([needed] if needed else []) == [one.numbers["needed"] for one in told]


def test_a_failure_says_its_numbers_and_below_them_what_moved() -> None:
    moved = state("operator moved", operator="Gather", candidate=0.002, baseline=0.001, share=0.91)
    verdict = judge_comparison(metric_of("latency"), comparison(moved=moved), Policy())
    numbers, told = verdict.reason.split("; ", 1)
    assert [numbers, str(moved), told] == failure_lines(run(), verdict)
    assert verdict.reason.startswith("latency p50 +4.8 % (+3.9 .. +5.6)")


def test_a_failure_that_is_no_plain_one_ends_with_its_outcome() -> None:
    inconclusive = judge_comparison(metric_of("latency"), comparison("inconclusive"), Policy(strict=True))
    missed = judge_budget(run(), [figure(0.011, 0.012, 0.013)], BUDGET, Policy())
    assert [f"{inconclusive.reason}; inconclusive"] == failure_lines(run(), inconclusive)
    assert [missed.reason] == failure_lines(run(), missed)
