"""The words of a decision: the same on the terminal and in Markdown."""

from fakes.rollouts import accuracy, figure, file, latency, limit, version

from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Margin, uncompared
from pytest_hwperf.stats.rollout import Decision, Requests, requirements_of
from pytest_hwperf.stats.rollout_plan import (
    RolloutFile,
    VersionRecord,
    change,
    command,
    comparison,
    headline,
    not_compared,
    promise,
)
from pytest_hwperf.stats.rollout_plan import figure as shown_figure

OLD, NEW = version("old.onnx", 1.0), version("new.onnx", 1.0)
EQUAL = latency("equivalent")
P95 = limit("latency_p95_ms", "latency", "p95", 0.0015)


def test_the_headline_says_the_decision_and_its_first_reason() -> None:
    slow = latency("regressed", 0.103, 0.089, 0.118)
    record = file(OLD, NEW, (EQUAL, accuracy(540, 0)), (P95,)).record
    assert "go: nothing is worse by more than its margin, and 1 requirement met" == headline(
        record.decision, record.requirements
    )
    assert "no-go: latency p50 +10.3 % (+8.9 .. +11.8), margin 2 %; 1 further reason" == headline(
        file(OLD, NEW, (slow, latency("inconclusive", 0.01, -0.01, 0.03))).record.decision, ()
    )
    assert "inconclusive: nothing was compared" == headline(Decision(outcome="inconclusive", reasons=()), ())
    assert "go: nothing is worse by more than its margin" == headline(Decision(outcome="go", reasons=()), ())


def test_a_comparison_without_a_change_has_its_reason() -> None:
    margin = Margin(metric="latency", statistic="p50", size=0.02)
    assert "latency p50: the time of 6 s was up" in comparison(
        uncompared(margin, "inconclusive", state("out of time", limit=6))
    )
    assert "latency p50: not comparable" == comparison(uncompared(margin, "not comparable", None))
    assert "–" == change(uncompared(margin, "not comparable", None))
    late = replace(latency("inconclusive", 0.01, None, 0.02), cause=state("said", text="too noisy"))
    assert "latency p50 +1.0 % (? .. +2.0), margin 2 %, too noisy" == comparison(late)


def test_figures_have_their_interval_where_they_have_one() -> None:
    exact = figure("model_size", "p50", 1.5e6, 1.5e6, 1.5e6)
    new = replace(NEW, figures=(*NEW.figures, exact))
    assert ["1.00 ms (0.980 .. 1.02)", "1.50 MB", "unmeasured"] == [
        shown_figure(new, key) for key in (("latency", "p95"), ("model_size", "p50"), ("memory", "p50"))
    ]


def test_a_plan_says_how_often_it_is_wrong() -> None:
    plan = file(OLD, NEW, (EQUAL, accuracy(540, 0))).plan
    assert plan is not None
    assert "rolled back with a probability of at most 1 % (exact binomial, over all stages and limits)" in promise(plan)
    assert "if requests are independent of each other" in promise(plan)


def test_what_was_not_compared_is_said() -> None:
    size = replace(latency("equivalent"), metric="model_size")
    requests = Requests(made=10, failed=0)
    mixed = file(OLD, version("http://a/p", 1.0, requests=requests), (EQUAL,))
    unlabelled = replace(mixed, record=replace(mixed.record, rows=replace(mixed.record.rows, labelled=False)))
    assert 1 == len(not_compared(file(OLD, NEW, (EQUAL, size, accuracy(540, 0)))))
    assert ["model size", "the models alone", "the hardware behind an address"] == [
        line.partition(":")[0] for line in not_compared(mixed)[:-1]
    ]
    assert "accuracy: there are no labels" == not_compared(unlabelled)[0]


def test_every_part_of_a_decision_comes_back_through_json() -> None:
    """A go with its plan, a no-go by each kind of reason, and the record alone."""
    requests = Requests(made=100, failed=90, why="503")
    go = file(OLD, NEW, (EQUAL, accuracy(540, 0)), (P95,))
    no = file(
        version("http://a/p", 1.0, requests=Requests(made=100, failed=0)),
        version("http://a/p", 3.0, requests=requests),
        (latency("regressed", 0.5, 0.4, 0.6), accuracy(60, 2)),
        (P95, limit("memory_max_mb", "memory", "p50", 1.0)),
    )

    for one in (go, no):
        assert one == from_json(RolloutFile, to_json(one))
        assert one.record == from_json(VersionRecord, to_json(one.record))
    assert go.plan is not None
    assert no.plan is None
    assert "hwperf compare old.onnx new.onnx --data=rows.npz" == command(go.record)
    assert requirements_of(NEW, [P95]) == go.record.requirements
