"""Answers of the pairs to what they never came to."""

from fakes.gates import hypothesis

from pytest_hwperf.gate.processes import answers_of
from pytest_hwperf.records.evidence import Evidence
from pytest_hwperf.records.messages import said, state
from pytest_hwperf.records.metrics import metric_of
from pytest_hwperf.records.verdict import Policy
from pytest_hwperf.stats.hypotheses import Questions
from pytest_hwperf.stats.verdicts import judge_comparison

TWO = (hypothesis(0), hypothesis(1))
LATE = state("out of time", limit=60)


def answered(evidence: Evidence) -> list[str]:
    """Return what is said of both tests, of which the pairs have observed nothing."""
    answers = answers_of(evidence, Questions(hypotheses=list(TWO)), {}, [one.measurement for one in TWO])
    key = TWO[0].margin.key
    found = [answers.of(one.measurement, [one.margin], [key], [key])[key] for one in TWO]
    assert ["inconclusive"] * 2 == [one.outcome for one in found]
    metric = metric_of(TWO[0].margin.metric)
    assert all(judge_comparison(metric, one, Policy(strict=True)).fails for one in found)
    return [one.reason for one in found]


def test_a_test_that_was_not_reached_says_so_and_fails_where_the_gate_is_strict() -> None:
    evidence = Evidence(alpha=0.01, hypotheses=TWO, pairs=(), groups=(1,), stopped=LATE)
    assert ["the time of 60 s was up", "not compared: the time of 60 s was up before it"] == answered(evidence)


def test_without_a_limit_of_time_the_reason_is_that_of_all() -> None:
    evidence = Evidence(alpha=0.01, hypotheses=TWO, pairs=(), groups=(1,), stopped=said("three pairs were lost"))
    assert ["three pairs were lost"] * 2 == answered(evidence)
