"""The decision about a new version: what is shown to be worse is no-go, what is not decided is never go."""

from fakes.records import estimate
from fakes.rollouts import ACCURACY, accuracy, figure, latency, limit, version

from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Budget, Comparison, Margin, uncompared
from pytest_hwperf.reports.rollout import reason
from pytest_hwperf.stats.choice.rollout import Contender, FailedRequests, Requests, decide, requirements_of
from pytest_hwperf.stats.choice.tradeoffs import Requirement

OLD, NEW = version("old.onnx", 1.0), version("new.onnx", 1.0)
EQUAL = latency("equivalent")
P95 = limit("latency_p95_ms", "latency", "p95", 0.0015)


def test_equal_and_better_versions_are_a_go() -> None:
    found = decide([EQUAL, latency("improved", -0.2, -0.21, -0.19), accuracy(540, 0)], requirements_of(NEW, [P95]))
    assert ("go", ()) == (found.outcome, found.reasons)


def test_what_is_not_worse_blocks_nothing_although_it_may_be_better() -> None:
    table: list[tuple[Comparison, str]] = [
        (latency("inconclusive", -0.03, -0.05, 0.01), "go"),
        (latency("inconclusive", 0.0, -0.05, 0.03), "inconclusive"),
        (replace(latency("inconclusive", -0.03, -0.05, 0.01), cause=state("not met")), "inconclusive"),
        (accuracy(1500, 80, 105, margin=0.01), "go"),  # +1.7 points (-0.4 .. +3.8): a loss of a point is excluded
        (accuracy(1500, 100, 105, margin=0.01), "inconclusive"),
    ]
    assert [] == [
        (comparison, outcome)
        for comparison, outcome in table
        if ("inconclusive", outcome) != (comparison.outcome, decide([comparison], old=OLD, new=NEW).outcome)
    ]


def test_nothing_that_was_compared_is_no_go_at_all() -> None:
    assert "inconclusive" == decide([]).outcome


def test_what_regressed_comes_before_what_is_inconclusive() -> None:
    found = decide([latency("inconclusive", 0.01, -0.02, 0.05), latency("regressed", 0.103, 0.089, 0.118)])
    assert "no-go" == found.outcome
    assert ["no-go", "inconclusive"] == [one.effect for one in found.reasons]
    assert "latency p50 +10.3 % (+8.9 .. +11.8), margin 2 %" == reason(found.reasons[0])


def test_requirements_are_held_against_the_whole_interval() -> None:
    table: list[tuple[Budget, str, str]] = [
        (P95, "go", ""),
        (
            limit("latency_p95_ms", "latency", "p95", 0.0008),
            "no-go",
            "latency_p95_ms 1.00 ms (0.980 .. 1.02), limit <= 800 µs, missed by 25 %",
        ),
        (
            limit("latency_p95_ms", "latency", "p95", 0.00101),
            "inconclusive",
            "latency_p95_ms 1.00 ms (0.980 .. 1.02), limit <= 1.01 ms; 14 pairs cannot decide this: about 56 would",
        ),
        (
            limit("latency_p95_ms", "latency", "p95", 0.0010001),
            "inconclusive",
            "14 pairs cannot decide this: about 560000 would, and at most 60 are run",
        ),
        (
            limit("accuracy_min", "accuracy", "mean", 0.97),
            "inconclusive",
            "accuracy_min 0.980 (0.968 .. 0.988), limit >= 0.97; 540 examples cannot decide this: about 778 would",
        ),
        (
            limit("accuracy_min", "accuracy", "mean", 0.985),
            "inconclusive",
            "540 examples cannot decide this: about 1383 would",
        ),
        (limit("memory_max_mb", "memory", "p50", 1e7), "inconclusive", "memory_max_mb unmeasured, limit <= 10 MB"),
        (limit("flip_rate_max", "flip_rate", "mean", 0.0), "inconclusive", "flip_rate_max unmeasured, limit <= 0"),
    ]
    for budget, outcome, told in table:
        found = decide([EQUAL], requirements_of(NEW, [budget]))
        assert outcome == found.outcome
        assert [told in reason(one) for one in found.reasons] == [True] * bool(told)


def test_where_no_number_of_pairs_decides_none_is_said() -> None:
    """Memory is of three fresh processes, however long pairs last; a value on its limit; an interval without end."""
    new = replace(NEW, figures=(*NEW.figures, figure("memory", "p50", 1.05e7, 1.0e7, 1.1e7, 3)))
    (memory,) = requirements_of(new, [limit("memory_max_mb", "memory", "p50", 1.06e7)])
    (at, one) = requirements_of(NEW, [limit("latency_p95_ms", "latency", "p95", at) for at in (0.001, 0.00101)])
    assert one.estimate is not None
    open_end = replace(one, estimate=replace(one.estimate, high=None))
    assert [("inconclusive", None)] * 3 == [
        ((found := decide([EQUAL], [asked])).outcome, found.reasons[0].needed) for asked in (memory, at, open_end)
    ]


def test_a_limit_of_nothing_is_missed_by_no_share() -> None:
    new = replace(NEW, figures=(*NEW.figures, replace(NEW.figures[2], metric="flip_rate")))
    (one,) = requirements_of(new, [limit("flip_rate_max", "flip_rate", "mean", 0.0)])
    assert ("failed", None) == (one.outcome, one.excess)
    assert "missed by" not in reason(decide([EQUAL], [one]).reasons[0])


def test_inconclusive_comparisons_say_what_is_still_needed() -> None:
    table: list[tuple[Comparison, str]] = [
        (latency("inconclusive", 0.012, 0.004, 0.032), "8 pairs cannot decide this: about 50 would"),
        (latency("inconclusive", 0.03, 0.015, 0.045), "8 pairs cannot decide this: about 19 would"),
        (
            latency("inconclusive", 0.019, -0.03, 0.06),
            "and at most 60 are run: use a quieter machine, or give",
        ),
        (replace(latency("inconclusive", -0.03, -0.045, -0.01), metric="throughput"), "about 30 would"),
        (latency("inconclusive", 0.02, 0.01, 0.03), ""),
        (latency("inconclusive", 0.01, None, 0.03), ""),
        (
            uncompared(
                Margin(metric="latency", statistic="p50", size=0.02), "inconclusive", state("out of time", limit=6)
            ),
            "0 pairs cannot decide this: about 6 would",
        ),
        (uncompared(Margin(metric="latency", statistic="p50", size=0.02), "not comparable", state("not met")), ""),
        (uncompared(Margin(metric="accuracy", statistic="mean", size=0.0), "inconclusive", state("no examples")), ""),
        # 2 of 60 lost is 3.3 points; eight lost ones are what McNemar's test needs at 0.5 %, of 240
        (accuracy(60, 2), "60 examples cannot decide this: about 240 would"),
        # as 3 lost to 1 won: 24 to 8 are called at 0.5 %, and 21 to 7 are not
        (accuracy(60, 3, 1), "about 480 would"),
        (accuracy(2000, 3, 3), "give a margin, such as --margin=accuracy=0.5pp"),
        # a loss of 1.23 points is possible: 1.5 is the next half point
        (replace(accuracy(500, 3, 3), change=estimate(0.0, -0.0123, 0.0123, 500)), "such as --margin=accuracy=1.5pp"),
        (accuracy(300, 3, 3, margin=0.01), "300 examples cannot decide this: about "),
        (accuracy(200, 10, 4, margin=0.01), "200 examples cannot decide this: about "),
        (accuracy(100, 2, margin=0.02), ""),  # on the margin
        (replace(accuracy(60, 2), change=estimate(-0.03, None, 0.0, 60)), ""),
    ]
    for comparison, told in table:
        found = decide([comparison])
        assert "inconclusive" == found.outcome, (comparison, told)
        assert (told in str(found.reasons[0].needed)) if told else found.reasons[0].needed is None


def test_the_same_loss_on_more_examples_is_no_go() -> None:
    table = [(60, 2, "inconclusive"), (240, 8, "no-go"), (540, 16, "no-go")]
    assert [] == [
        (examples, lost, outcome)
        for examples, lost, outcome in table
        if (outcome, ["inconclusive", "regressed"])
        != (
            decide([EQUAL, accuracy(examples, lost)], old=OLD, new=NEW).outcome,
            [accuracy(20 * n, n, n // 3).outcome for n in (21, 24)],
        )
    ]


def test_few_equal_examples_exclude_no_loss() -> None:
    """Of n equal examples the lower end is -z²/(n + z²), z = 2.576: 215 exclude 3 points, 60 do not."""
    found = decide([EQUAL, accuracy(60, 0)], old=OLD, new=NEW)
    assert "inconclusive" == found.outcome
    assert "60 examples, equal on all of them, do not exclude a loss of +3.00 pp: 215 would" in reason(found.reasons[0])
    assert "go" == decide([EQUAL, accuracy(215, 0)], old=OLD, new=NEW).outcome
    assert "inconclusive" == decide([EQUAL, accuracy(215, 0, margin=0.01)], old=OLD, new=NEW).outcome


def test_the_same_file_is_as_accurate_on_any_number_of_examples() -> None:
    assert "go" == decide([EQUAL, accuracy(60, 0)], old=OLD, new=OLD).outcome


def test_what_is_no_file_may_differ_although_it_looks_the_same() -> None:
    for kind in ["function", "address"]:
        one = replace(OLD, kind=kind, sha256=OLD.sha256 if kind == "function" else "")
        assert "inconclusive" == decide([EQUAL, accuracy(60, 0)], old=one, new=one).outcome, kind


def test_requests_that_fail_more_often_count() -> None:
    table: list[tuple[Requests | None, Requests, str]] = [
        (Requests(made=1000, failed=0), Requests(made=1000, failed=0), "go"),
        (Requests(made=1000, failed=0), Requests(made=1000, failed=30, why="503"), "no-go"),
        (Requests(made=1000, failed=1), Requests(made=1000, failed=2), "inconclusive"),
        (Requests(made=1000, failed=30), Requests(made=1000, failed=29), "go"),
        (None, Requests(made=1000, failed=1), "no-go"),
        (None, Requests(made=0, failed=0), "go"),
    ]
    for old, new, outcome in table:
        sides = [version("http://a/predict", 1.0, requests=one) for one in (old, new)]
        assert outcome == decide([EQUAL], old=sides[0], new=sides[1]).outcome


def test_requests_say_how_many_failed_and_why() -> None:
    new = version("http://a/predict", 1.0, requests=Requests(made=1000, failed=30, why="503 busy"))
    old = version("http://a/predict", 1.0, requests=Requests(made=1000, failed=0))
    (one,) = decide([EQUAL], old=old, new=new).reasons
    alone = decide([EQUAL], old=OLD, new=replace(new, requests=Requests(made=10, failed=9))).reasons[0]
    assert isinstance(one.subject, FailedRequests)
    assert (
        "30 of 1,000 requests failed (1.9 .. 4.5 %), of OLD 0 of 1,000 requests failed (0 .. 0.46 %): 503 busy"
        == reason(one)
    )
    assert "9 of 10 requests failed (50 .. 1e+02 %)" == reason(alone)


def test_no_request_tells_nothing() -> None:
    assert (0.0, (0.0, 1.0)) == (Requests(made=0, failed=0).share, Requests(made=0, failed=0).interval)


def test_a_requirement_answers_by_the_new_version_alone() -> None:
    slow = version("new.onnx", 2.0)
    (one,) = requirements_of(slow, [P95])
    assert isinstance(one, Requirement)
    assert "failed" == one.outcome
    assert None is Contender(target="f", kind="function", sha256="", size=None, figures=()).estimate(ACCURACY)
