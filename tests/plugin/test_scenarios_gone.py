"""Scenarios that the baseline had and that cannot be prepared now: with a budget they fail, else they are skipped."""

import pytest
from fakes.reruns import INI, REHEARSED, Project, repository

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
FAILS = "onnx_fp32: it has a budget and ran in {}, and cannot be prepared now: Own does not convert to ONNX with *"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HWPERF_CACHE_DIR", str(pytester.mkdir("cache")))
    files = {"work.py": WORK.format(name="LogisticRegression"), "test_model.py": TESTS.format(mark=BUDGET)}
    return repository(pytester, {**files, "pytest.ini": INI, ".gitignore": "cache\n.hwperf\n"})


def run(project: Project, *options: str) -> pytest.RunResult:
    arguments = ("--hwperf-energy=off", "--hwperf-sample-time=0.05", *options)
    return project.pytester.runpytest_inprocess(*arguments)


@pytest.mark.live
def test_a_scenario_that_was_stored_and_is_skipped_now_fails_if_it_has_a_budget(project: Project) -> None:
    """One without, and one that never ran, is skipped."""
    project.write({"test_free.py": TESTS.format(mark="")})
    run(project, "--hwperf-save").assert_outcomes(passed=6)
    project.write({"work.py": WORK.format(name="Own"), "test_new.py": TESTS.format(mark=BUDGET)})
    result = run(project, "--hwperf-compare", "-ohwperf_rerun=never")
    result.assert_outcomes(passed=5, failed=1, errors=1, skipped=2)
    expected = FAILS.format("baseline main")
    result.stdout.fnmatch_lines([f"*{expected}"])


@pytest.mark.live
@pytest.mark.usefixtures("fakes_in_reach")
def test_a_scenario_that_ran_in_the_rerun_and_is_skipped_now_fails(project: Project) -> None:
    project.write({"work.py": WORK.format(name="Own")})
    result = run(project, "--hwperf-against=HEAD", REHEARSED)
    result.assert_outcomes(passed=1, failed=1, errors=1)
    expected = FAILS.format("HEAD")
    result.stdout.fnmatch_lines([f"*{expected}"])
