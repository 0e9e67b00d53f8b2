"""Calls that fail in the candidate alone, in a whole build: the test fails by it, and others are compared."""

import pytest
from fakes.reruns import INI, REHEARSED, repository

from pytest_hwperf.stats.replay import recompute

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")]

WORK = """
from fakes.simulated_time import spend

CALLS = []

def call():
    CALLS.append(1)
    spend(300)
"""
TESTS = """
import work

def test_bad(): work.call()

def test_ok(): work.spend(300)
"""
FEW = "--hwperf-alpha=0.2"  # four processes a side: what is shown is the road, and not the rate


def test_a_body_that_only_the_candidate_cannot_call_again_fails_its_test(pytester: pytest.Pytester) -> None:
    """The session calls it once, since a later call could end it too, and says why the latency is not compared."""
    project = repository(pytester, {"work.py": WORK, "test_it.py": TESTS, "pytest.ini": INI})
    project.write({"work.py": WORK + "    if len(CALLS) > 4: raise KeyError('later')\n"})
    result = project.run("--hwperf-all", "-ohwperf_shortest=1e-09", REHEARSED, FEW)
    result.assert_outcomes(failed=1, passed=1)
    failures, latency = (project.compared("test_bad", metric) for metric in ("call_failures", "latency"))
    assert ("regressed", "not comparable") == (failures.outcome, latency.outcome)
    assert "in 4 of 4 fresh processes of the candidate, and in 0 of 4 of the baseline" in failures.reason
    assert "KeyError: 'later'" in failures.reason
    assert "equivalent" == project.compared("test_ok").outcome
    (run,) = (one.run for one in project.report().judgements if one.run.test.endswith("test_bad"))
    assert {"calls fail in fresh processes of this code"} == {*map(str, run.unmeasured.values())}
    assert () == recompute(project.report()).disagreements
