"""`hwperf.compare(...)`: two models of the user's from within a test."""

import pytest

from pytest_hwperf.cli import main
from pytest_hwperf.core.report import ReportFile
from pytest_hwperf.core.serialisation import from_json
from pytest_hwperf.pairs.cpu_pin import processors

MODELS = """
def quick(X):
    return X[:, 0]


def slow(X):
    sum(range(4000))
    return X[:, 0]
"""
TESTS = """
import numpy as np

X = np.ones((8, 3))


def test_models(hwperf):
    found = hwperf.compare({{"v1": "models:{old}", "v2": "models:{new}"}}, X)
    assert [one.metric for one in found] == ["latency"]
"""


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs")
def test_a_slower_model_fails_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(models=MODELS, test_models=TESTS.format(old="quick", new="slow"))
    result = pytester.runpytest_inprocess("--hwperf-json=report.json")

    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"\[v2 against v1\] REGRESSED  latency p50 ×.*\d+ fresh pairs, exact signed-rank.*"])
    result.stdout.no_fnmatch_line("*unmeasured*")
    found = from_json(ReportFile, (pytester.path / "report.json").read_text(encoding="utf-8")).report
    assert [gate.against for gate in found.gates] == ["models:quick"]
    shared = {coin.processor for pair in found.gates[0].evidence.pairs for coin in pair.assignments}
    assert shared <= set[int | None](processors() or [None])
    assert main(["recompute", str(pytester.path / "report.json")]) == 0


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs")
def test_a_faster_model_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(models=MODELS, test_models=TESTS.format(old="slow", new="quick"))

    result = pytester.runpytest_inprocess()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["hwperf: screen pair 1 of 6*", "hwperf: screen pair 6 of 6*"])


def test_a_disabled_run_compares_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf):\n    assert hwperf.compare({'a': 'x:y', 'b': 'x:z'}, [[1]]) == ()\n")

    pytester.runpytest_inprocess("--hwperf-disable").assert_outcomes(passed=1)


@pytest.mark.parametrize("models", ["{'a': 'x:y'}", "['x:y', 'x:z']", "{'a': print, 'b': print}"])
def test_anything_but_two_models_is_refused(pytester: pytest.Pytester, models: str) -> None:
    pytester.makepyfile(f"def test_it(hwperf):\n    hwperf.compare({models}, [[1.0]])\n")
    result = pytester.runpytest_inprocess()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*UsageProblem: hwperf.compare takes two names with their models, the base*"])


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs")
def test_a_model_that_cannot_be_loaded_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf):\n    hwperf.compare({'a': 'none:f', 'b': 'none:f'}, [[1.0]])\n")
    result = pytester.runpytest_inprocess()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*UsageProblem: none:f cannot be measured: none:f cannot be imported*"])
