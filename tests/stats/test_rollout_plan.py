"""Roll-outs: the figures of both versions, a value of each pair, and the plan with its limits."""

from array import array
from itertools import pairwise

import pytest
from fakes import gates
from fakes.rollouts import ACCURACY, limit, version
from scipy.stats import binom

from pytest_hwperf.records.evidence import Evidence, FixedSample, Observation
from pytest_hwperf.records.run import Classes, Figure, replace
from pytest_hwperf.records.verdict import Budget
from pytest_hwperf.stats.choice.rollout import ALWAYS, MEAN, P95, Requests, figures_of, taken_for
from pytest_hwperf.stats.choice.rollout_plan import SHARES, Plan, alarm_count, plan_of, seen_share
from pytest_hwperf.stats.figures.ranks import fewest_calls
from pytest_hwperf.stats.pairs.hypotheses import SIDES

WORST = ("accuracy_worst_class", "mean")
ASKED = gates.asked("accuracy", 0.0, statistic="mean", scale="absolute", better="higher")


def observed(metric: str, statistic: str, old: list[float], new: list[float]) -> Observation:
    return gates.observed(gates.asked(metric, statistic=statistic), old, new)


def evidence(*pairs: list[Observation]) -> Evidence:
    right = FixedSample(
        hypothesis=ASKED,
        per="example",
        baseline=array("d", [1.0] * 90 + [0.0] * 10),
        candidate=array("d", [1.0] * 100),
        classes=Classes(names=("a", "b"), of=array("d", [0.0] * 80 + [1.0] * 20)),
    )
    return Evidence(
        alpha=0.01, hypotheses=(), fixed_samples=(right,), pairs=tuple(gates.pair("screen", found) for found in pairs)
    )


def by_key(found: tuple[Figure, ...]) -> dict[tuple[str, str], Figure]:
    return {one.key: one for one in found}


def test_each_pair_gives_one_value_of_each_side() -> None:
    """Of five values the smallest and largest are bounds at 2^-5, more than 5 % would ask for."""
    pairs = [
        [observed("latency", "p50", [n, n, 9.0], [2 * n] * 3), observed(*MEAN, [4.0], [4.0])]
        for n in (1.0, 1.1, 1.2, 1.3, 1.4)
    ]
    old, new = (by_key(figures_of(evidence(*pairs), side, rows=8)) for side in SIDES)
    p50 = old["latency", "p50"].estimate
    assert pytest.approx((1.19, 1.0, 1.4), rel=0.01) == (p50.value, p50.low, p50.high)
    assert pytest.approx(2 * p50.value) == new["latency", "p50"].estimate.value
    calls, rows = (old[metric, "mean"].estimate for metric in ("throughput", "sample_throughput"))
    assert pytest.approx([0.25, 0.25, 2.0]) == [calls.value, calls.low, rows.value]
    assert (0.9, 1.0) == (old["accuracy", "mean"].estimate.value, new["accuracy", "mean"].estimate.value)
    assert (0.5, "class b, every example") == (old[WORST].estimate.value, old[WORST].source)


def test_few_pairs_have_values_without_intervals() -> None:
    found = by_key(figures_of(evidence([observed(*MEAN, [2.0], [4.0]), observed(*P95, [0.0], [1.0])]), "baseline", 1))
    assert (None, None) == (found[MEAN].estimate.low, found[MEAN].estimate.high)
    assert (None, None) == (found["throughput", "mean"].estimate.low, found["throughput", "mean"].estimate.high)
    assert P95 not in found  # a value of 0 is none


def test_pairs_take_what_requirements_are_about() -> None:
    table: list[tuple[Budget, list[tuple[str, str]]]] = [
        (Budget(keyword="latency_p99_ms", metric="latency", statistic="p99", limit=1.0), [("latency", "p99")]),
        (Budget(keyword="latency_p50_ms", metric="latency", statistic="p50", limit=1.0), []),
        (Budget(keyword="latency_max_ms", metric="latency", statistic="max", limit=1.0), []),
        (Budget(keyword="memory_max_mb", metric="memory", statistic="p50", limit=1.0), []),
        (Budget(keyword="cpu_time_max_ms", metric="cpu_time", statistic="mean", limit=1.0), [("cpu_time", "mean")]),
    ]
    assert [] == [(budget, more) for budget, more in table if (*ALWAYS, *more) != taken_for([budget])]


def test_cpu_time_names_its_clock() -> None:
    found = by_key(figures_of(evidence([observed("cpu_time", "mean", [1.0], [1.0])]), "baseline", 1))
    assert "process_time, in turns" == found["cpu_time", "mean"].source


OLD, NEW = version("old.onnx", 1.0), version("new.onnx", 1.0)


def plan(old_ms: float = 1.0, new_ms: float = 1.0, p95_limit: float | None = None) -> Plan:
    budgets = [] if p95_limit is None else [limit("latency_p95_ms", "latency", "p95", p95_limit)]
    return plan_of(version("old.onnx", old_ms), version("new.onnx", new_ms), budgets, 0.10, 0.01)


def test_too_many_are_the_fewest_that_chance_hardly_gives() -> None:
    for n, share, level, count in [(130, 0.05, 0.01, 14), (100, 0.0, 0.01, 1), (5, 0.5, 0.01, 6), (1, 0.001, 0.01, 1)]:
        assert count == alarm_count(n, share, level)
        assert binom.sf(count - 1, n, share) <= level
        assert count == 1 or binom.sf(count - 2, n, share) > level


def test_the_share_that_is_seen_is_found_in_nine_of_ten() -> None:
    assert pytest.approx(0.9) == binom.sf(13, 130, seen_share(130, 14))


def test_stages_take_the_same_time_and_share_one_false_alarm_rate() -> None:
    found = plan()
    level = 0.01 / 8  # four stages, two limits
    first = fewest_calls(0.95, 1 - level)
    assert SHARES == tuple(stage.share for stage in found.stages)
    assert [first, 4 * first, 10 * first, 20 * first] == [stage.requests for stage in found.stages]
    for stage in found.stages:
        for one in stage.alarms:
            assert binom.sf(one.beyond - 1, stage.requests, one.limit.allowed) <= level
    for before, after in pairwise(found.stages):
        assert all(old.seen > new.seen for old, new in zip(before.alarms, after.alarms, strict=True))


def test_the_limit_of_p95_cites_the_interval_it_comes_from() -> None:
    table: list[tuple[Plan, float, str, float]] = [
        (plan(), 0.0011, "old and margin", 0.001),
        (plan(new_ms=1.09), 0.00109 * 1.02, "new", 0.00109),
        (plan(p95_limit=0.00105), 0.00105, "requirement", 0.001),
        (plan(p95_limit=0.5), 0.0011, "old and margin", 0.001),
    ]
    for found, value, origin, of in table:
        first = found.limits[0]
        assert origin == first.origin
        assert [value, of] == pytest.approx([first.value, first.interval.value])


def test_accuracy_is_held_against_the_lower_end_of_the_new_version() -> None:
    asked = plan_of(OLD, NEW, [limit("accuracy_min", *ACCURACY, 0.97)], 0.10, 0.01)
    assert [("new", 0.968, ""), ("requirement", 0.97, "accuracy_min")] == [
        (one.origin, one.value, one.keyword) for one in (plan().limits[1], asked.limits[1])
    ]


def test_of_requests_with_several_rows_each_label_counts() -> None:
    """Of 176 requests with 8 rows each, 1,408 labels may be wrong as often as was measured."""
    one, eight = (plan_of(OLD, NEW, [], 0.10, 0.01, rows) for rows in (1, 8))
    times, labels = eight.stages[0].alarms
    assert (176, 1408) == (times.of, labels.of)
    assert binom.sf(labels.beyond - 1, 1408, labels.limit.allowed) <= 0.01 / 8
    assert one.stages[0].alarms[0] == times


def test_requests_that_failed_are_held_against_their_upper_end() -> None:
    old, new = (version("http://a/p", 1.0, requests=Requests(made=1000, failed=n)) for n in (0, 2))
    found = plan_of(old, new, [], 0.10, 0.01)
    assert pytest.approx(0.0084, rel=0.01) == found.limits[2].value
    assert (0.002, 1000, ()) == (found.limits[2].interval.value, found.limits[2].interval.n, found.unwatched)


def test_what_was_not_measured_is_said_and_has_no_limit() -> None:
    bare = replace(NEW, figures=NEW.figures[:1])
    found = plan_of(bare, bare, [], 0.10, 0.01)
    assert ("latency p95", "accuracy", "failed requests") == found.unwatched
    assert [()] * 4 == [stage.alarms for stage in found.stages]


def test_a_value_without_an_interval_gives_no_limit() -> None:
    low, high = (
        replace(NEW.figures[n], estimate=replace(NEW.figures[n].estimate, low=None, high=None)) for n in (1, 2)
    )
    found = plan_of(OLD, replace(NEW, figures=(low, high), requests=Requests(made=0, failed=0)), [], 0.10, 0.01)
    assert ("latency p95", "accuracy", "failed requests") == found.unwatched


def test_a_share_that_is_always_allowed_raises_no_alarm() -> None:
    """Two requests of which one failed: the share that fails may be nearly all."""
    new = version("http://a/p", 1.0, requests=Requests(made=1, failed=1))
    found = plan_of(new, new, [], 0.10, 0.01)
    assert 2 == len(found.limits)
