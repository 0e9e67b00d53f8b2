"""Scenarios that the baseline had and that cannot be prepared now: with a budget they fail, else they are skipped."""

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.reruns import repository

from pytest_hwperf.gate.result import GateResult
from pytest_hwperf.plugin.fixture.targets import gone_scenarios
from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.evidence import Evidence, Gate, Measurement
from pytest_hwperf.records.messages import said
from pytest_hwperf.records.verdict import Budget, Skip
from pytest_hwperf.stats.pairs.hypotheses import PairedAnswers, Questions
from pytest_hwperf.stats.pairs.timetable import completeness

WORK = """
import numpy as np
from sklearn.linear_model import LogisticRegression

X = np.random.default_rng(0).random((64, 4), dtype=np.float32)


class Own(LogisticRegression):
    pass


def model():
    return {name}().fit(X, X[:, 0] > 0.5)
"""
TESTS = """
import pytest, work


@pytest.fixture(scope="module")
def hwperf_model():
    return work.model()


@pytest.fixture(scope="module")
def hwperf_data():
    return work.X


{mark}
@pytest.mark.hwscenarios("sklearn_fp32", "onnx_fp32")
def test_model(hwperf, scenario):
    hwperf(scenario)


{mark}
def test_by_hand(hwperf):
    for name, one in hwperf.scenarios(work.model(), work.X, names=["sklearn_fp32", "onnx_fp32"]).items():
        hwperf(one, label=name)
"""
BUDGET = "@pytest.mark.hwbudget(latency_p95_ms=10000)"
SAID = "onnx_fp32: it has a budget and ran in (.+), and cannot be prepared now: Own does not convert to ONNX with "


GONE = [
    Measurement(test="test_model.py::test_model[onnx_fp32]", label=""),  # of a test that is skipped now
    Measurement(test="test_model.py::test_by_hand", label="onnx_fp32"),
]


def gate_with(gone: Sequence[Measurement]) -> GateResult:
    """Return what a gate has found in which only the baseline makes these."""
    evidence = Evidence(alpha=0.01, hypotheses=(), pairs=())
    return GateResult(
        gate=Gate(against="HEAD", revision="", seed=0, evidence=evidence, shared={}, seconds={}),
        answers=PairedAnswers(comparisons={}, questions=Questions(), met=frozenset()),
        changed=frozenset(),
        completeness=completeness([], evidence, {}),
        gone=frozenset(gone),
    )


@pytest.mark.live
def test_a_scenario_that_ran_in_the_baseline_and_is_skipped_now_fails_if_it_has_a_budget(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a stored one or in that of the pairs; one without a budget, and one that never ran, is skipped."""
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(pytester.mkdir("cache")))
    ini = "[pytest]\npythonpath = .\n"
    project = repository(pytester, {"pytest.ini": ini, ".gitignore": "cache\n.hwperf\n"})
    project.write({"work.py": WORK.format(name="LogisticRegression"), "test_model.py": TESTS.format(mark=BUDGET)})
    project.write({"test_free.py": TESTS.format(mark="")})

    def run(*options: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess("--hwperf-energy=off", "--hwperf-sample-time=0.02", *options)

    run("--hwperf-save").assert_outcomes(passed=6)
    project.write({"work.py": WORK.format(name="Own"), "test_new.py": TESTS.format(mark=BUDGET)})
    found = [run("--hwperf-compare", "-ohwperf_rerun=never", "--hwperf-margin=latency_p50=9900%")]  # not of times
    for gone in (GONE, ()):
        monkeypatch.setattr("pytest_hwperf.plugin.judging.gate.run_gate", lambda _, gone=gone: gate_with(gone))
        found.append(run("--hwperf-against=HEAD"))

    for result, where in zip(found, ("baseline main", "HEAD", ""), strict=True):
        failing = 1 if where else 0
        result.assert_outcomes(passed=6 - failing, failed=failing, errors=failing, skipped=3 - failing)
        said = {match[1] for line in result.outlines if (match := re.search(SAID, line))}
        assert said == {where} - {""}


def test_a_baseline_that_cannot_be_read_fails_a_skipped_scenario_with_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it ran there is not known."""

    def newest(baseline: str) -> tuple[()]:
        raise StoreError(f"{baseline}.jsonl is not whole JSON")

    item: Any = SimpleNamespace(nodeid="t.py::test", config=None)
    budget = Budget(keyword="latency_p95_ms", metric="latency", statistic="p95", limit=0.01)
    test = SimpleNamespace(markers=SimpleNamespace(budgets=(budget,)))
    settings, store = SimpleNamespace(baseline="main", compare=True), SimpleNamespace(newest=newest)
    session = SimpleNamespace(judges=True, gate=None, settings=settings, store=store)
    monkeypatch.setattr("pytest_hwperf.plugin.fixture.targets.session_of", lambda _: session)
    monkeypatch.setattr("pytest_hwperf.plugin.fixture.targets.test_of", lambda _: test)
    skip = Skip(test=item.nodeid, scenario="onnx_fp32", cause=said("no converter"))
    assert ["main.jsonl is not whole JSON"] == gone_scenarios(item, [skip])


def test_only_a_session_that_judges_a_budget_of_the_test_itself_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A default budget from the ini file fails nothing that is not measured."""
    gone = Measurement(test="t.py::test", label="onnx_fp32")
    item: Any = SimpleNamespace(nodeid=gone.test, config=None, parent=None, get_closest_marker=lambda _: None)
    skip = Skip(test=gone.test, scenario=gone.label, cause=said("no converter"))
    for judges, default, lines in [(True, False, 1), (True, True, 0), (False, False, 0), (False, True, 0)]:
        session = SimpleNamespace(judges=judges, gate=gate_with([gone]))
        budget = Budget(keyword="latency_p95_ms", metric="latency", statistic="p95", limit=0.01, default=default)
        test = SimpleNamespace(markers=SimpleNamespace(budgets=(budget,)))
        monkeypatch.setattr("pytest_hwperf.plugin.fixture.targets.session_of", lambda _, session=session: session)
        monkeypatch.setattr("pytest_hwperf.plugin.fixture.targets.test_of", lambda _, test=test: test)
        assert lines == len(gone_scenarios(item, [skip])), (judges, default)
