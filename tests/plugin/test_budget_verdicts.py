"""Budgets on tests: marker × outcome, reported natively."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

QUICK = ("-v", "-pfakes.simulated_time", "--hwperf-sample-time=0.05", "--hwperf-energy=off")
HEAD = """
import numpy as np
import pytest
from fakes.simulated_time import spend
budget = pytest.mark.hwbudget
MISSED, KEPT = budget(latency_p95_ms=0.000001), budget(latency_p95_ms=10000)
"""


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=HEAD + text)
    return pytester.runpytest_inprocess(*QUICK, *options)


def judgements(pytester: pytest.Pytester) -> dict[str, Any]:
    """Return what the JSON report holds of each measurement, by the name of its test."""
    found = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]["judgements"]
    return {one["run"]["test"].rpartition("::")[2]: one for one in found}


def warned(judgement: Any) -> dict[str, Any]:
    """Return the numbers of what its samples warn of, by kind."""
    warnings = [one for sample in judgement["run"]["samples"] for one in sample["warnings"]]
    return {one["kind"]: one["numbers"] for one in warnings if isinstance(one, dict)}


@dataclass(frozen=True)
class Suite:
    """A session of many tests, and what it has left."""

    folder: Path
    output: str
    ended: dict[str, tuple[str, str]]  # outcome of each test and the text of its failure
    judgements: dict[str, Any]
    junit: str


TESTS = """
@MISSED
def test_missed(): spend(100)
@KEPT
def test_kept(): spend(100)
@budget(latency_p50_ms=10000, latency_p95_ms=0, latency_p90_ms=0)
def test_several(): spend(100)
@budget(energy_budget_mj=5)
def test_unmeasured(hwperf): hwperf(spend, 100)
@KEPT
def test_forgets(hwperf): pass
@budget(latency_p95_ms=5000)
def test_undecided(): spend(400_000)
@MISSED
def test_breaks(): assert 1 == 2
@MISSED
def test_breaks_later(hwperf):
    hwperf(spend, 100)
    assert 3 == 4
@pytest.mark.xfail(strict=True)
@MISSED
def test_xfail(): spend(100)
@pytest.mark.xfail(strict=True)
@KEPT
def test_xpass(): spend(100)
@KEPT
def test_unrepeatable(tmp_path): (tmp_path / "a").mkdir()
def test_added(): spend(100)

@pytest.fixture
def subtests(): pass
@pytest.fixture
def checked(subtests): pass
@KEPT
def test_subtests(checked): pass

@pytest.fixture
def number(): return 7
numbers = []
@KEPT
@pytest.mark.parametrize("factor", [1, 2])
def test_body(number, factor):
    spend(100)
    numbers.append(number * factor)
def test_body_ran_often(): assert numbers.count(7) > 10 and numbers.count(14) > 10

@budget(latency_p50_ms=0, throughput_min_qps=1)
class TestOuter:
    @budget(latency_p50_ms=1000)
    class TestInner:
        def test_inherits(self): spend(100)
        @budget(latency_p50_ms=0)
        def test_own(self): spend(100)

@pytest.fixture
def scenario(): return "mine"
def test_scenario(scenario): assert scenario == "mine"
@pytest.mark.parametrize("scenario", ["a", "b"])
def test_scenarios(scenario): assert scenario in "ab"

@pytest.mark.parametrize("statistic", ["p50", "p90", "max"])
def test_tail(hwperf, statistic): hwperf(spend, 5)

@budget(accuracy_min=0.9)
@pytest.mark.parametrize("size", [100, 20])
@pytest.mark.parametrize("right", [lambda calls: calls > 1, lambda calls: calls < 2], ids=["later", "first"])
def test_answers(hwperf, right, size):
    calls, buffer = [], np.zeros(size, dtype=int)
    def predict(rows):
        calls.append(spend(1000))
        buffer[:] = right(len(calls))
        return buffer
    hwperf(predict, np.zeros((100, 1)), y_true=np.ones(100, dtype=int), batch_size=size)
"""
CONFTEST = """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        name, _, statistic = item.name.rstrip("]").partition("[")
        if name == "test_added": item.add_marker(pytest.mark.hwbudget(latency_p50_ms=0))
        if name == "test_tail": item.add_marker(pytest.mark.hwbudget(**{f"latency_{statistic}_ms": 10000}))
"""
FAILURES = {
    "test_missed": r"latency p95 \S+ µs.*, limit 1 ns; [\d,]+ calls, perf_counter\n",
    "test_several": r"latency p95 .*\nlatency p90 .*\ndetails: pytest .*::test_several -vv",
    "test_unmeasured": r"energy unmeasured, limit 5 mJ: energy is off ",
    "test_forgets": r"latency p95 unmeasured, .*: the test never called hwperf\(...\)",
    "test_breaks": r"(?s)^(?!.*limit).*assert 1 == 2",
    "test_breaks_later": r"(?s)^(?!.*limit).*assert 3 == 4",
    "test_xpass": r"XPASS\(strict\)",
    "test_unrepeatable": r"hwperf makes this call many times, and the first one worked",
    "test_added": r"latency p50 .*, limit 0",  # a marker that came after the collection of its file
    "test_subtests": r"test_it.py:\d+: hwbudget: a fixture of this test makes subtests, which would",
    "test_own": r"latency p50 .*, limit 0",
    "test_answers[later-100]": r"accuracy 0 \(.*limit >= 0.9; 100 examples",
    "test_answers[later-20]": r"accuracy 0.800 \(.*limit >= 0.9; 100 examples",
    "test_answers[first-100]": r"accuracy 0 \(.*limit >= 0.9; 100 examples",
    "test_answers[first-20]": r"accuracy 0 \(.*limit >= 0.9; 100 examples",
}


@pytest.fixture(scope="module")
def _held() -> list[Suite]:
    return []


@pytest.fixture
def suite(pytester: pytest.Pytester, _held: list[Suite]) -> Suite:
    """Run `TESTS` once for all that look at it."""
    if not _held:
        pytester.makeconftest(CONFTEST)
        reports = ("--hwperf-report=report.json", "--hwperf-report=deep", "--junitxml=junit.xml")
        result = run(pytester, TESTS, *reports, "-ojunit_family=xunit1")
        logged = result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined] # of runs in process
        ended = {
            one.nodeid.rpartition("::")[2]: (one.outcome, one.longreprtext) for one in logged if one.when == "call"
        }
        junit = (pytester.path / "junit.xml").read_text(encoding="utf-8")
        _held.append(Suite(pytester.path, result.stdout.str(), ended, judgements(pytester), junit))
    return _held[0]


def test_each_budget_has_its_outcome_and_failing_verdicts_stand_first(suite: Suite) -> None:
    """One line per verdict, no traceback; metric, value, n, source and limit stand in the first."""
    assert {"passed": 12, "skipped": 1, "failed": len(FAILURES)} == Counter(
        outcome for outcome, _ in suite.ended.values()
    )
    failed = {name: text for name, (outcome, text) in suite.ended.items() if outcome == "failed"}
    assert FAILURES.keys() == failed.keys()
    assert {} == {name: failed[name] for name, text in FAILURES.items() if not re.search(text, failed[name])}
    assert "Traceback" not in suite.output
    assert "hwperf/plugin" not in suite.output


def test_failures_verdicts_and_the_count_are_printed_natively(suite: Suite) -> None:
    for pattern in (
        r"^FAILED test_it.py::test_missed - latency p95 .*, limit 1 ns",
        r"^.*::test_kept PASSED",
        r"^ +latency p95 .*passed",
        r"^ +latency p95 .*inconclusive",
        r"below n=59, have n=1",
        r"^budgets: .*\b\d+ passed",
    ):
        assert re.search(pattern, suite.output, re.MULTILINE), pattern
    assert "p99.9" not in suite.output
    assert "\x1b[" not in suite.output


def test_the_closest_budget_wins_per_keyword(suite: Suite) -> None:
    """The inner class loosens what the outer one says of latency; the outer one's throughput still holds."""
    for name in ("test_inherits", "test_own"):
        found = [verdict["subject"]["keyword"] for verdict in suite.judgements[name]["verdicts"]]
        assert ["latency_p50_ms", "throughput_min_qps"] == found


def test_only_the_tail_of_short_calls_takes_single_calls(suite: Suite) -> None:
    for statistic, per in (("p50", "batches of"), ("p90", "calls"), ("max", "calls")):
        (verdict,) = suite.judgements[f"test_tail[{statistic}]"]["verdicts"]
        assert re.search(rf"[\d,]+ {per}", verdict["reason"]), statistic


def test_the_worse_of_the_first_and_the_last_answers_counts(suite: Suite) -> None:
    """The array that the calls return is one and the same, as an output buffer is."""
    told = {name: warned(one)["answers change"] for name, one in suite.judgements.items() if "test_answers" in name}
    assert told == {
        f"test_answers[{when}-{size}]": {"changed": size, "rows": size}
        for when in ("later", "first")
        for size in (100, 20)
    }


def test_junit_holds_the_failures_and_the_figures(suite: Suite) -> None:
    assert f'failures="{len(FAILURES)}"' in suite.junit
    assert re.search(r'<property name="hwperf\.latency_p95_ms" value="0\.1[0-9]+"', suite.junit)
    assert '<property name="hwperf.budget.latency_p95" value="failed"' in suite.junit


def test_artifacts_are_written(suite: Suite) -> None:
    assert re.search("hwperf: wrote 7 files to .*/deep", suite.output)
    names = {path.name for path in (suite.folder / "deep").iterdir()}
    tables = {"stat_benchmark_runs.csv", "stat_benchmark_summary.csv", "statistical_comparisons.csv"}
    tables |= {"hardware_tradeoffs.csv", "hardware_tradeoffs_summary.json"}
    assert names == tables | {"benchmark_dashboard.csv", "benchmark_summary.json"}  # of one candidate no picture


SLOW = """
calls, slower = [], []
def call():
    calls.append(spend(50_000))
    if len(calls) == 20:
        print("twenty calls")
@budget(latency_p99_ms=100, latency_p50_ms=100)
def test_told(hwperf): hwperf(call)
@pytest.mark.benchmark(max_time=20)
@budget(latency_p99_ms=100)
def test_own_time(benchmark): benchmark(lambda: spend(50_000))
@budget(latency_p50_ms=100)
def test_drifts(hwperf): hwperf(lambda: slower.append(spend(1700 + 10 * len(slower))))
@budget(latency_p50_ms=100)
def test_steady(hwperf): hwperf(lambda: spend(1700))
"""


@pytest.mark.parametrize("capture", ["fd", "no"])
def test_what_the_time_of_a_sample_does_not_suffice_for_is_told(pytester: pytest.Pytester, capture: str) -> None:
    """299 calls of 50 ms take 15 s, where 2 s are given; p50 has its five calls. It is told before they are made."""
    options = ("--hwperf-sample-time=2", "--hwperf-benchmark", "--hwperf-report=report.json", f"--capture={capture}")
    result = run(pytester, SLOW, *options)

    result.assert_outcomes(passed=4)
    (told,) = (line for line in result.outlines if "cannot pass" in line)
    begins = "hwperf: test_it.py::test_told: latency p99 cannot pass in 2.00 s of calls: 299 calls take "
    assert re.fullmatch(
        rf".*{re.escape(begins)}1[3-6]\.\d s: --hwperf-sample-time=(2[6-9]|3[0-4])", told
    )  # by one call
    if capture == "no":
        assert result.outlines.index(told) < result.outlines.index("twenty calls")
    assert {"test_drifts"} == {name for name, one in judgements(pytester).items() if "drifts" in warned(one)}


def test_ini_budgets_hold_for_every_measured_test(pytester: pytest.Pytester) -> None:
    """A default whose metric a test does not measure is shown as unmeasured and fails nothing."""
    pytester.makeini("[pytest]\nhwperf_budgets =\n    latency_p50_ms=0\n    accuracy_min=0.9")
    result = run(pytester, "def test_it(hwperf): hwperf(spend, 100)\ndef test_other(): pass")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*give y_true=*"])


def test_an_undecided_budget_fails_if_asked_to_and_exitfirst_and_last_failed_work(pytester: pytest.Pytester) -> None:
    """One call of 0.4 s gives a p95 no upper bound: the point is below the limit, the interval is not."""
    text = "def test_good(): pass\n@budget(latency_p95_ms=5000)\ndef test_it(): spend(400_000)\ndef test_late(): pass"
    run(pytester, text, "-x", "--hwperf-undecided=fail").assert_outcomes(passed=1, failed=1)
    run(pytester, text, "--lf").assert_outcomes(passed=1)


def test_a_file_that_cannot_be_written_fails_the_session(pytester: pytest.Pytester) -> None:
    """A build whose report is lost must not be green."""
    blocked = 'open("blocked.txt", "w").close()  # a file where a folder would be needed'
    result = run(
        pytester, f"def test_it(hwperf): {blocked}; hwperf(spend, 1)", "--hwperf-report=blocked.txt/report.json"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["hwperf: *report.json not written: *; give another path or free some space"])


def test_the_table_is_coloured_as_pytest_is_and_more_verbose_shows_every_figure(pytester: pytest.Pytester) -> None:
    """A missed budget is red."""
    output = run(pytester, "@MISSED\ndef test_it(): spend(100)", "--color=yes", "-v").stdout.str()
    (row,) = [line for line in output.splitlines() if "latency p95" in line and "limit" not in line]
    assert row.startswith("\x1b[31m    latency p95  ")
    assert "p99.9" in output


def test_a_session_without_a_measured_test_shows_nothing(pytester: pytest.Pytester) -> None:
    output = run(pytester, "def test_it(): pass").stdout.str()
    assert "hwperf:" not in output
    assert "= hwperf" not in output


def test_collecting_only_measures_nothing(pytester: pytest.Pytester) -> None:
    assert 0 == run(pytester, "@MISSED\ndef test_it(): raise SystemExit('ran')", "--collect-only").ret


def test_disabled_it_runs_each_test_once(pytester: pytest.Pytester) -> None:
    text = """
calls = []
@MISSED
def test_it(): calls.append(1)
@MISSED
def test_fixture(hwperf): assert hwperf(sum, [1, 2]).result == 3
def test_once(): assert calls == [1]
"""
    result = run(pytester, text, "--hwperf-disable")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["hwperf: disabled, so that nothing is measured, judged or saved"])


def test_only_and_skip_select_measured_tests(pytester: pytest.Pytester) -> None:
    text = "def test_plain(): pass\ndef test_measured(hwperf): hwperf(spend, 100)"
    run(pytester, text, "--hwperf-only").assert_outcomes(passed=1, deselected=1)
    run(pytester, text, "--hwperf-skip").assert_outcomes(passed=1, deselected=1)


def test_a_rerun_of_a_test_begins_empty(pytester: pytest.Pytester) -> None:
    """Plugins that rerun failed tests keep the item: nothing of the first try may be left on it."""
    pytester.makeconftest(
        """
        from _pytest.runner import runtestprotocol
        def pytest_runtest_protocol(item, nextitem):
            runtestprotocol(item, nextitem=nextitem, log=False)
            for report in runtestprotocol(item, nextitem=nextitem, log=False):
                item.ihook.pytest_runtest_logreport(report=report)
            return True
        """
    )
    text = '@KEPT\ndef test_it(hwperf): hwperf(spend, 100); hwperf.record("own", 1, better="lower")'
    result = run(pytester, text, "--hwperf-report=report.json")

    result.assert_outcomes(passed=1)
    found = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]["judgements"]
    assert 1 == len(found)
    result.stdout.fnmatch_lines(["*own*1.00*"])
