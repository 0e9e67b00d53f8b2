"""`hwperf.stage(...)` in tests: rows of the table, and no part of a latency."""

import pytest

SIMULATED = ("-p", "fakes.simulated_time", "--hwperf-energy=off", "-vv")
CALL = """
from fakes.simulated_time import spend

def test_it(hwperf):
    def predict(x):
        with hwperf.stage("preprocess"):
            spend(2000)
        with hwperf.stage("inference"):
            spend(5000)
        spend({rest})
        return x
    run = hwperf(predict, 3)
    assert run.result == 3
    assert 0.006 < run.sample("latency").values[0] < 0.011
    assert [0.002] == [round(value, 3) for value in run.sample("stage_preprocess").values[:1]]
    hwperf(spend, 1000, label="other")
"""


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=text)
    return pytester.runpytest_inprocess(*SIMULATED, *options)


def test_stages_are_rows_in_their_order_with_n_and_source(pytester: pytest.Pytester) -> None:
    """A measurement has the stages of its own calls only."""
    result = run(pytester, CALL.format(rest=100))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*separate calls by perf_counter (stage_preprocess,*",
            "*stage_preprocess * ms (* .. *) * calls*",
            "*stage_inference * ms (* .. *) * calls*",
        ]
    )
    assert 1 == result.stdout.str().count("    stage_preprocess")
    result.stdout.no_fnmatch_line("*stages take*")


def test_where_nothing_is_measured_nothing_is_timed(pytester: pytest.Pytester) -> None:
    text = CALL.partition("    run = ")[0].format(rest=0) + "    assert hwperf(predict, 3).result == 3\n"
    run(pytester, text, "--hwperf-disable").assert_outcomes(passed=1)


def test_stages_that_miss_the_call_and_bad_names_say_so(pytester: pytest.Pytester) -> None:
    """A recorded metric cannot pass for a stage."""
    recorded = "def test_recorded(hwperf): hwperf.record('stage_a', 1.0, better='lower')\n"
    named = CALL.format(rest=0).replace("inference", "model call").replace("test_it", "test_named")
    result = run(pytester, CALL.format(rest=2000) + named + recorded)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*hwperf.stage('model call'): a stage is named by letters, digits*"])
    result.stdout.fnmatch_lines(["*hwperf.record('stage_a'): the name is a built-in metric*"])
    result.stdout.fnmatch_lines(["*stages take * ms together, the whole call * ms*"])
