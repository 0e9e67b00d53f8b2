"""What the pairs have decided, with the operator that moved."""

from random import Random

import pytest
from fakes import gates
from fakes import records as fake
from fakes.profiles import profiled, repeats

from pytest_hwperf.records.evidence import Gate, PairedProfiles
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Judgement, Policy
from pytest_hwperf.reports.table import rows
from pytest_hwperf.stats.estimates import figures
from pytest_hwperf.stats.explanations import explain_functions, explained
from pytest_hwperf.stats.replay import recompute
from pytest_hwperf.stats.sequence import decide
from pytest_hwperf.stats.verdicts import explain, judge

SLOWER = gates.hypothesis(0)


PROFILES = PairedProfiles(
    measurement=SLOWER.measurement, baseline=profiled(Gemm=900), candidate=profiled(Gemm=900, Erf=270)
)


@pytest.fixture(scope="module")
def report() -> Report:
    """A build whose first test got 30 % slower by a planted operator; the second is equal."""
    evidence = gates.build([0.3, 0.0], Random(1))
    run = fake.run(test=SLOWER.measurement.test)
    comparisons = explained(decide(evidence), [PROFILES])
    verdicts = judge(run, figures(run), [comparisons[SLOWER.key]], (), Policy())
    gate = Gate(against="HEAD", revision="", seed=1, evidence=evidence, shared={}, seconds={}, profiles=(PROFILES,))
    judgement = Judgement(run=run, figures=figures(run), verdicts=verdicts)
    return replace(fake.empty_report(), judgements=(judgement,), gates=(gate,))


def test_the_comparison_names_the_planted_operator(report: Report) -> None:
    """All of the change: 30 % of 1 ms. In the line of the failure, and below the table."""
    (verdict,) = report.judgements[0].verdicts
    assert "regressed" == verdict.outcome
    assert "Erf (Erf_0): 300 µs of a call, 0 s in the baseline: 100 % of the change" in explain(verdict)
    assert any("Erf (Erf_0): " in note for note in rows(report).footnotes)


def test_the_verdict_is_the_same_when_computed_again(report: Report) -> None:
    again = recompute(report)
    assert ((), 1) == (again.disagreements, again.agreeing)


def test_an_operator_that_was_written_over_is_noticed(report: Report) -> None:
    (gate,) = report.gates
    other = replace(gate, profiles=(replace(PROFILES, candidate=profiled(Gemm=900, Tanh=270)),))
    assert any(".moved" in line for line in recompute(replace(report, gates=(other,))).disagreements)


def test_the_function_that_moved_is_computed_again_and_one_that_was_written_over_is_noticed(report: Report) -> None:
    """In place of the operator: its explanation holds more of the change."""
    (gate,), (judgement,) = report.gates, report.judgements
    then, now = repeats({"predict>embed": 7}), repeats({"predict>embed": 10})
    decided = decide(gate.evidence)
    found = explain_functions(SLOWER, decided[SLOWER], then, now)
    run, known = judgement.run, explained(decided, (), [found])[SLOWER.key]
    verdicts = judge(run, figures(run), [known], (), Policy())
    told = replace(report, judgements=(Judgement(run=run, figures=figures(run), verdicts=verdicts),))
    other = replace(found, movers=(replace(found.movers[0], name="innocent"),))

    honest, edited = (replace(told, gates=(replace(gate, profiles=(), explanations=(one,)),)) for one in (found, other))
    assert () == recompute(honest).disagreements
    assert any("innocent" in line for line in recompute(edited).disagreements)


def test_where_nothing_changed_nothing_moved() -> None:
    """A share of a change that may be none says nothing."""
    equal = gates.hypothesis(1)
    profiles = replace(PROFILES, measurement=equal.measurement)
    assert explained(decide(gates.build([0.3, 0.0], Random(1))), [profiles])[equal.key].moved is None


def test_what_was_not_profiled_has_no_operator() -> None:
    """Nor has a measurement that the pairs have not decided."""
    decided = decide(gates.build([0.3, 0.0], Random(1)))
    elsewhere = replace(PROFILES, measurement=gates.hypothesis(7).measurement)
    assert all(one.moved is None for one in explained(decided, [elsewhere]).values())
    assert {hypothesis.key for hypothesis in decided} == explained(decided, [elsewhere]).keys()
