"""A report judged again from its own values: it agrees, and a changed value is noticed."""

from array import array
from collections.abc import Callable

import pytest
from fakes import gates
from fakes import records as fake
from fakes.records import estimate

from pytest_hwperf.records.codec import from_json, to_json
from pytest_hwperf.records.evidence import Observation
from pytest_hwperf.records.messages import state
from pytest_hwperf.records.report import Answer, Report, Sweep, SweepPoint, SweepRow
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Budget, Judgement, Policy, Verdict
from pytest_hwperf.stats.choice.sweeps import row_of, sweep_of
from pytest_hwperf.stats.figures.estimates import figures
from pytest_hwperf.stats.replay import disagreements, recompute
from pytest_hwperf.stats.verdicts import judge, judge_budget

Change = Callable[[Observation], Observation]
LIMIT_KEPT = Answer(
    limit=Budget(keyword="latency_p50_ms", metric="latency", statistic="p50", limit=1.0), outcome="passed", value=0.5
)


def written(report: Report) -> Report:
    """As it comes back from a file."""
    return from_json(Report, to_json(report))


def with_observation(report: Report, change: Change) -> Report:
    """Change the first observation of the first pair."""
    (gate,) = report.gates
    first, *others = gate.evidence.pairs
    changed = replace(first, observations=(change(first.observations[0]), *first.observations[1:]))
    evidence = replace(gate.evidence, pairs=(changed, *others))
    return replace(report, gates=(replace(gate, evidence=evidence),))


def with_judgement(report: Report, change: Callable[[Judgement], Judgement]) -> Report:
    first, *others = report.judgements
    return replace(report, judgements=(change(first), *others))


@pytest.mark.simulation
def test_a_hundred_reports_agree() -> None:
    """Each with budgets, memory and accuracy beside the latencies; some of them fail."""
    reports = [gates.report(seed) for seed in range(100)]
    found = [recompute(written(report)) for report in reports]
    assert [()] * 100 == [one.disagreements for one in found]
    assert [sum(len(judgement.verdicts) for judgement in report.judgements) for report in reports] == [
        one.agreeing for one in found
    ]
    assert [0] * 100 == [one.beyond for one in found]
    assert any(judgement.fails for report in reports for judgement in report.judgements)


def test_a_changed_pair_is_noticed() -> None:
    table: list[tuple[Change, str]] = [
        (lambda one: replace(one, change=(one.change or 0) + 1e-6), "latency p50 of pair 1"),
        (lambda one: replace(one, change=None), "latency p50 of pair 1"),
        (
            lambda one: replace(one, candidate=array("d", (1.02 * value for value in one.candidate))),
            "latency p50: .change.value",
        ),
    ]
    for change, where in table:
        found = recompute(with_observation(gates.report(3), change))
        assert any(where in line for line in found.disagreements), found.disagreements


def test_a_verdict_that_was_turned_is_noticed() -> None:
    """In both ways in which one could: what it says, and whether it fails."""

    def turned(verdict: Verdict) -> Verdict:
        return replace(verdict, outcome="passed", fails=False)

    report = gates.report(3)
    fakes = with_judgement(report, lambda one: replace(one, verdicts=tuple(turned(v) for v in one.verdicts)))
    found = recompute(fakes)
    assert "tests/test_models.py::test_0: latency p50: .outcome: 'passed', 'equivalent'" in found.disagreements


def test_a_figure_that_is_not_of_its_sample_is_noticed() -> None:
    def prettier(judgement: Judgement) -> Judgement:
        first, *others = judgement.figures
        better = replace(first, estimate=replace(first.estimate, value=first.estimate.value / 2))
        return replace(judgement, figures=(better, *others))

    found = recompute(with_judgement(gates.report(3), prettier))
    assert any("figure .estimate.value: 0.003" in line for line in found.disagreements)


def test_a_figure_too_many_is_noticed() -> None:
    found = recompute(with_judgement(gates.report(3), lambda one: replace(one, figures=(*one.figures, one.figures[0]))))
    assert any(": figure : " in line for line in found.disagreements)


def test_a_verdict_that_was_taken_away_is_missed() -> None:
    """Without its test the answer of the pairs is only counted: a test that failed by itself has none either."""
    report = gates.report(3)
    bare = recompute(with_judgement(report, lambda one: replace(one, verdicts=one.verdicts[:1])))
    fewer = recompute(replace(report, judgements=report.judgements[1:]))
    assert "tests/test_models.py::test_0: latency p50: its verdict is missing" in bare.disagreements
    assert (0, 2) == (len(fewer.disagreements), fewer.unjudged)


def test_comparisons_with_stored_sessions_are_counted_apart() -> None:
    """The sessions lie in the store; what was never compared rests on nothing but its reason."""
    judgement = fake.onnx_judgement()
    compared = [verdict for verdict in judgement.verdicts if getattr(verdict.subject, "change", None) is not None]
    found = recompute(replace(fake.empty_report(), judgements=(judgement,)))
    assert len(compared) == found.beyond


def by_stored_runs(judgement: Judgement) -> Judgement:
    """Let stored runs have answered each comparison, and not the pairs: another change, found in another way."""
    ways = {"latency": state("historical limit", limit=0.9, sessions=1)}
    spread, promise = state("stored, spread", baseline=3, candidate=3), state("error rate split", alpha=1, family=1)
    stored = (
        replace(
            one,
            change=estimate(0.5, 0.4, 0.6, 3),
            promise=promise if one.metric == "accuracy" else None,
            method=one.method if one.metric == "accuracy" else ways.get(one.metric, spread),
        )
        for one in judgement.comparisons
    )
    return replace(judgement, verdicts=judge(judgement.run, (), [*stored], (), Policy()))


def test_what_stored_runs_have_answered_is_no_disagreement_with_the_pairs() -> None:
    """The better one of two answers counts, and the report holds the values of the pairs alone."""
    report = gates.report(3)
    report = replace(report, judgements=tuple(map(by_stored_runs, report.judgements)))
    kinds = {one.metric for judgement in report.judgements for one in judgement.comparisons}
    found = recompute(written(report))
    assert {"latency", "memory", "accuracy"} == kinds
    assert (0, 6, ()) == (found.agreeing, found.beyond, found.disagreements)


def test_a_verdict_by_stored_runs_that_was_turned_is_noticed() -> None:
    report = with_judgement(gates.report(3), by_stored_runs)
    turned = with_judgement(
        report, lambda one: replace(one, verdicts=tuple(replace(v, outcome="improved") for v in one.verdicts))
    )
    found = recompute(turned)
    assert "tests/test_models.py::test_0: latency p50: .outcome: 'improved', 'equivalent'" in found.disagreements


def test_a_budget_that_further_processes_decided_is_counted_apart() -> None:
    """Their values are in no report."""
    run = fake.run()
    shown = figures(run)
    median = next(one for one in shown if (one.metric, one.statistic) == ("latency", "p50"))
    budget = Budget(keyword="latency_p50_ms", metric="latency", statistic="p50", limit=median.estimate.value)
    verdict = judge_budget(run, shown, budget, Policy(undecided="retry"), [budget.limit / 2] * 5)
    judgement = Judgement(run=run, figures=shown, verdicts=(verdict,))
    found = recompute(replace(fake.empty_report(), judgements=(judgement,)))
    assert ("passed", (), 1) == (verdict.outcome, found.disagreements, found.beyond)


def test_last_digits_may_differ() -> None:
    assert [] == list(disagreements(0.1 + 0.2, 0.3))
    assert [": 0.3, 0.31"] == list(disagreements(0.3, 0.31))
    assert [": 'a', 'b'"] == list(disagreements("a", "b"))


def swept_report() -> Report:
    """A sweep of two batch sizes, of which the larger one has the higher throughput."""
    judgements, rows = list[Judgement](), list[SweepRow]()
    for batch in (1, 8):
        run = fake.run(test=f"t[{batch}]", samples=(fake.sample("throughput", [100.0 * batch] * 5, per="window"),))
        judgements.append(Judgement(run=run, figures=figures(run), verdicts=()))
        rows.append(row_of(SweepPoint(sweep="t", values={"batch_size": batch}), judgements[-1].figures))
    return replace(gates.report(0), judgements=tuple(judgements), gates=(), sweeps=(sweep_of("t", rows),))


def test_a_sweep_agrees_with_its_measurements() -> None:
    assert () == recompute(written(swept_report())).disagreements


def test_an_edited_sweep_is_noticed() -> None:
    table: list[tuple[Callable[[Sweep], Sweep], str]] = [
        (lambda sweep: replace(sweep, best=()), "sweep of t: best point: None, "),
        (
            lambda sweep: replace(sweep, best=(replace(sweep.best[0], rows=(0,)),)),
            "sweep of t: best point.rows: (0,), (1,)",
        ),
        (
            lambda sweep: replace(sweep, rows=(sweep.rows[1], replace(sweep.rows[1], figures=(fake.figure(),)))),
            "batch_size 8: no measurement has its latency p50",
        ),
        (
            lambda sweep: replace(sweep, rows=tuple(replace(row, answers=(LIMIT_KEPT,)) for row in sweep.rows)),
            "batch_size 1: .answers",
        ),
    ]
    report = swept_report()
    for edit, where in table:
        found = recompute(replace(report, sweeps=(edit(report.sweeps[0]),))).disagreements
        assert any(where in line for line in found)
