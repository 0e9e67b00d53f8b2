"""Budgets on tests: marker × outcome, reported natively."""

import json
import re
from typing import Any

import pytest

QUICK = ("-v", "--hwperf-sample-time=0.05", "--hwperf-energy=off")


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*QUICK, *options)


def report(pytester: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, Any]:
    """Run and return the JSON report too."""
    result = run(pytester, "--hwperf-report=report.json", *options)
    return result, json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]


def test_a_budget_that_cannot_be_kept_fails_its_test(pytester: pytest.Pytester) -> None:
    """One line per verdict, no traceback; metric, value, interval, n, source and limit stand in the first."""
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p95_ms=0.000001)
        def test_it(): sum(range(100))
        """
    )
    result = run(pytester)

    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines([r"latency p95 \S+ [nµ]s.*, limit 1 ns; [\d,]+ calls, perf_counter"])
    result.stdout.re_match_lines([r"FAILED test_.*::test_it - latency p95 .*, limit 1 ns.*"])
    assert "Traceback" not in result.stdout.str()
    assert "hwperf/plugin" not in result.stdout.str()


@pytest.mark.parametrize(("statistic", "per"), [("p50", "batches of"), ("p90", "calls"), ("max", "calls")])
def test_only_the_tail_of_short_calls_takes_single_calls(pytester: pytest.Pytester, statistic: str, per: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest
        @pytest.mark.hwbudget(latency_{statistic}_ms=10000)
        def test_it(hwperf): hwperf(sum, range(9))
        """
    )
    _, written = report(pytester)
    (verdict,) = written["judgements"][0]["verdicts"]
    assert re.search(rf"[\d,]+ {per}", verdict["reason"])


def test_a_percentile_that_has_the_time_of_its_own_marker_is_not_said_to_need_more(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_slow="""
        import pytest
        from fakes.simulated_time import spend
        @pytest.mark.benchmark(max_time=20)
        @pytest.mark.hwbudget(latency_p99_ms=100)
        def test_slow(benchmark): benchmark(lambda: spend(50_000))
        """
    )
    result = run(pytester, "--hwperf-sample-time=2", "--hwperf-benchmark", "-pfakes.simulated_time")

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*cannot pass*")


@pytest.mark.parametrize("capture", ["fd", "no"])
def test_a_percentile_that_cannot_pass_is_told_before_its_calls_are_sampled(
    pytester: pytest.Pytester, capture: str
) -> None:
    """299 calls of 50 ms take 15 s, where 2 s are given; p50 has its five calls."""
    pytester.makepyfile(
        test_slow="""
        import pytest
        from fakes.simulated_time import spend
        calls = []
        def call():
            calls.append(spend(50_000))
            if len(calls) == 20:
                print("twenty calls")
        @pytest.mark.hwbudget(latency_p99_ms=100, latency_p50_ms=100)
        def test_slow(hwperf): hwperf(call)
        """
    )
    result = run(pytester, "--hwperf-sample-time=2", "-pfakes.simulated_time", f"--capture={capture}")

    result.assert_outcomes(passed=1)
    (told,) = (line for line in result.outlines if "cannot pass" in line)
    begins = "hwperf: test_slow.py::test_slow: latency p99 cannot pass in 2.00 s of calls: 299 calls take "
    assert re.fullmatch(rf"{re.escape(begins)}1[3-6]\.\d s: --hwperf-sample-time=(2[6-9]|3[0-4])", told)  # by one call
    if capture == "no":
        assert result.outlines.index(told) < result.outlines.index("twenty calls")


@pytest.mark.parametrize(("grows", "told"), [("+ 5 * len(calls)", True), ("", False)])
def test_a_call_that_slows_down_within_its_sample_is_told(pytester: pytest.Pytester, grows: str, *, told: bool) -> None:
    pytester.makepyfile(
        f"""
        import pytest
        from fakes.simulated_time import spend
        calls = []
        def call():
            calls.append(spend(1700 {grows}))
        @pytest.mark.hwbudget(latency_p50_ms=100)
        def test_it(hwperf): hwperf(call)
        """
    )
    result = run(pytester, "--hwperf-sample-time=4", "-pfakes.simulated_time")
    result.assert_outcomes(passed=1)
    assert told == ("calls did not stay equally fast" in result.stdout.str())


def test_a_wide_budget_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p95_ms=10000)
        def test_it(): sum(range(100))
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*latency p95*passed*", "budgets: 1 passed"])


@pytest.mark.parametrize("answers", ["calls > 1", "calls < 2"], ids=["wrong at first", "wrong later"])
@pytest.mark.parametrize("size", [100, 20])
def test_the_worse_of_the_first_and_the_last_answers_counts(pytester: pytest.Pytester, answers: str, size: int) -> None:
    """The array that the calls return is one and the same, as an output buffer is."""
    pytester.makepyfile(
        f"""
        import numpy as np
        import pytest
        calls, buffer = 0, np.zeros({size}, dtype=int)
        def predict(rows):
            global calls
            calls += 1
            buffer[:] = {answers}
            return buffer
        @pytest.mark.hwbudget(accuracy_min=0.9)
        def test_it(hwperf):
            hwperf(predict, np.zeros((100, 1)), y_true=np.ones(100, dtype=int), batch_size={size})
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{size} of the first call's {size} answers were others after the last call*"])


def test_all_verdicts_of_a_test_are_reported_together(pytester: pytest.Pytester) -> None:
    """The failing ones come first."""
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p50_ms=10000, latency_p95_ms=0, latency_p90_ms=0)
        def test_it(): sum(range(100))
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [r"latency p95 .*", r"latency p90 .*", r"details: pytest .*::test_it -vv"], consecutive=True
    )


def test_the_closest_budget_wins_per_keyword(pytester: pytest.Pytester) -> None:
    """The class loosens what the module says of latency; the module's throughput still holds."""
    pytester.makepyfile(
        """
        import pytest
        pytestmark = pytest.mark.hwbudget(latency_p50_ms=0, throughput_min_qps=1)
        @pytest.mark.hwbudget(latency_p50_ms=1000)
        class TestIt:
            def test_inherits(self): pass
            @pytest.mark.hwbudget(latency_p50_ms=0)
            def test_own(self): sum(range(100))
        """
    )
    result, found = report(pytester)
    result.assert_outcomes(passed=1, failed=1)
    subjects = [[v["subject"]["keyword"] for v in judgement["verdicts"]] for judgement in found["judgements"]]
    assert subjects == [["latency_p50_ms", "throughput_min_qps"]] * 2


def test_a_budget_that_a_conftest_adds_holds(pytester: pytest.Pytester) -> None:
    """A marker that came after the collection of its file must not pass unread."""
    pytester.makeconftest(
        """
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.hwbudget(latency_p50_ms=0))
        """
    )
    pytester.makepyfile("def test_it(): sum(range(100))")
    run(pytester).assert_outcomes(failed=1)


def test_ini_budgets_hold_for_every_measured_test(pytester: pytest.Pytester) -> None:
    """A default whose metric a test does not measure is shown as unmeasured and fails nothing."""
    pytester.makeini("[pytest]\nhwperf_budgets =\n    latency_p50_ms=0\n    accuracy_min=0.9")
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, range(100))\ndef test_other(): pass")
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*give y_true=*"])


def test_an_unmeasured_budget_of_a_marker_fails(pytester: pytest.Pytester) -> None:
    """Nothing that was not measured is passed."""
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(energy_budget_mj=5)
        def test_it(hwperf): hwperf(sum, [1])
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["energy unmeasured, limit 5 mJ: energy is off *"])
    run(pytester, "--hwperf-undecided=pass").assert_outcomes(passed=1)


def test_a_budget_without_a_measurement_fails(pytester: pytest.Pytester) -> None:
    """A test that forgets to call the fixture must not look as if its budget was kept."""
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p95_ms=5)
        def test_it(hwperf): pass
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["latency p95 unmeasured, *: the test never called hwperf(...)"])


@pytest.mark.parametrize(("undecided", "outcome"), [("point", "passed"), ("pass", "passed"), ("fail", "failed")])
def test_an_undecided_budget_does_as_asked_and_says_so(pytester: pytest.Pytester, undecided: str, outcome: str) -> None:
    """One call of 0.4 s gives a p95 no upper bound: the point is below the limit, the interval is not."""
    pytester.makepyfile(
        """
        import time, pytest
        @pytest.mark.hwbudget(latency_p95_ms=5000)
        def test_it(): time.sleep(0.4)
        """
    )
    result = run(pytester, f"--hwperf-undecided={undecided}")
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*p95*inconclusive*"])
    result.stdout.re_match_lines([r".*below n=59, have n=1.*"])


def test_the_body_is_measured_with_its_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        calls = []
        @pytest.fixture
        def number(): return 7
        @pytest.mark.hwbudget(latency_p95_ms=10000)
        @pytest.mark.parametrize("factor", [1, 2])
        def test_it(number, factor): calls.append(number * factor)
        def test_that_it_ran_often(): assert calls.count(7) > 10 and calls.count(14) > 10
        """
    )
    run(pytester).assert_outcomes(passed=3)


def test_a_body_that_fails_is_not_judged(pytester: pytest.Pytester) -> None:
    """Its own assertion is shown, and no verdict beside it."""
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p95_ms=0)
        def test_it(): assert 1 == 2
        @pytest.mark.hwbudget(latency_p95_ms=0)
        def test_fixture(hwperf):
            hwperf(sum, [1])
            assert 3 == 4
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["E*assert 1 == 2", "E*assert 3 == 4"])
    assert "limit" not in result.stdout.str()


def test_xfail_takes_a_missed_budget(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.xfail(strict=True)
        @pytest.mark.hwbudget(latency_p95_ms=0)
        def test_slow(): sum(range(100))
        @pytest.mark.xfail(strict=True)
        @pytest.mark.hwbudget(latency_p95_ms=10000)
        def test_fast(): pass
        """
    )
    run(pytester, "--xfail-tb").assert_outcomes(xfailed=1, failed=1)


def test_exitfirst_and_last_failed_work(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        def test_good(): pass
        @pytest.mark.hwbudget(latency_p95_ms=0)
        def test_bad(): sum(range(100))
        def test_late(): pass
        """
    )
    first = run(pytester, "-x")
    second = run(pytester, "--lf")
    first.assert_outcomes(passed=1, failed=1)
    second.assert_outcomes(failed=1)


def test_junit_holds_the_failure_and_the_figures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p95_ms=0)
        def test_it(): sum(range(100))
        """
    )
    run(pytester, "--junitxml=junit.xml", "-o", "junit_family=xunit1")
    xml = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert 'failures="1"' in xml
    assert re.search(r'<property name="hwperf\.latency_p95_ms" value="[0-9.]+"', xml)
    assert '<property name="hwperf.budget.latency_p95" value="failed"' in xml


def test_artifacts_are_written(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    result = run(pytester, "--hwperf-report=deep")

    result.stdout.fnmatch_lines(["hwperf: wrote 7 files to */deep"])
    names = {path.name for path in (pytester.path / "deep").iterdir()}
    tables = {"stat_benchmark_runs.csv", "stat_benchmark_summary.csv", "statistical_comparisons.csv"}
    tables |= {"hardware_tradeoffs.csv", "hardware_tradeoffs_summary.json"}
    assert names == tables | {"benchmark_dashboard.csv", "benchmark_summary.json"}  # of one candidate no picture


def test_a_file_that_cannot_be_written_fails_the_session(pytester: pytest.Pytester) -> None:
    """A build whose report is lost must not be green."""
    pytester.makepyfile(
        """
        def test_it(hwperf):
            hwperf(sum, [1])
            open("blocked.txt", "w").close()  # a file where a folder would be needed
        """
    )
    result = run(pytester, "--hwperf-report=blocked.txt/report.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["hwperf: *report.json not written: *; give another path or free some space"])


def test_quiet_shows_only_what_needs_a_look(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p50_ms=10000)
        def test_good(): sum(range(100))
        @pytest.mark.hwbudget(latency_p50_ms=0)
        def test_bad(): sum(range(100))
        """
    )
    table = run(pytester, "-qq").stdout.str().partition("= hwperf =")[2]
    assert "test_bad" in table
    assert "test_good" not in table


@pytest.mark.parametrize(("color", "red"), [("yes", "\x1b[31m"), ("no", "")])
def test_the_table_is_coloured_as_pytest_is(pytester: pytest.Pytester, color: str, red: str) -> None:
    """A missed budget is red; without colour no code is left anywhere."""
    pytester.makepyfile("import pytest\n@pytest.mark.hwbudget(latency_p95_ms=0)\ndef test_it(): sum(range(100))")
    table = run(pytester, f"--color={color}").stdout.str().rpartition("hwperf =")[2]
    (row,) = [line for line in table.splitlines() if "latency p95" in line and "limit" not in line]
    assert row.startswith(f"{red}    latency p95  ")
    assert ("\x1b[" in table) == bool(red)


def test_verbose_shows_every_figure(pytester: pytest.Pytester) -> None:
    """One -v shows every verdict and the usual statistics."""
    pytester.makepyfile("def test_it(hwperf): hwperf(sum, [1])")
    usual, verbose = (run(pytester, *options).stdout for options in ([], ["-v"]))
    usual.fnmatch_lines(["*::test_it PASSED*", "*latency p50 *"])
    assert [False, True] == ["p99.9" in output.str() for output in (usual, verbose)]


def test_a_session_without_a_measured_test_shows_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    assert "hwperf:" not in run(pytester).stdout.str()
    assert "= hwperf" not in run(pytester).stdout.str()


def test_collecting_only_measures_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.hwbudget(latency_p95_ms=0)\ndef test_it(): raise SystemExit('ran')"
    )
    result = run(pytester, "--collect-only")
    assert result.ret == 0


def test_disabled_it_runs_each_test_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        calls = []
        @pytest.mark.hwbudget(latency_p95_ms=0)
        def test_it(): calls.append(1)
        @pytest.mark.hwbudget(latency_p95_ms=0)
        def test_fixture(hwperf): assert hwperf(sum, [1, 2]).result == 3
        def test_once(): assert calls == [1]
        """
    )
    result = run(pytester, "--hwperf-disable")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["hwperf: disabled, so that nothing is measured, judged or saved"])


def test_only_and_skip_select_measured_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass\ndef test_measured(hwperf): hwperf(sum, [1])")
    run(pytester, "--hwperf-only").assert_outcomes(passed=1, deselected=1)
    run(pytester, "--hwperf-skip").assert_outcomes(passed=1, deselected=1)


@pytest.mark.usefixtures("other_plugins")
def test_without_the_plugin_markers_are_unknown(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    run_without = pytester.runpytest_inprocess("-p", "no:hwperf", "--markers")
    assert "hwbudget" not in run_without.stdout.str()


@pytest.mark.live
def test_under_xdist_results_are_whole_and_neighbours_are_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p95_ms=10000)
        @pytest.mark.parametrize("number", range(4))
        def test_good(number): sum(range(100))
        @pytest.mark.hwbudget(latency_p95_ms=0.000001)
        def test_bad(): sum(range(100))
        """
    )
    result = pytester.runpytest_subprocess("-p", "xdist", "-n", "2", *QUICK, "--hwperf-report=report.json")
    found = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))["report"]

    result.assert_outcomes(passed=4, failed=1)
    assert len(found["judgements"]) == 5
    result.stdout.fnmatch_lines(["warning: 2 test workers shared the processors, which disturbs timings: measure *"])


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
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p95_ms=10000)
        def test_it(hwperf): hwperf(sum, [1]); hwperf.record("own", 1, better="lower")
        """
    )
    result, found = report(pytester)

    result.assert_outcomes(passed=1)
    assert len(found["judgements"]) == 1
    result.stdout.fnmatch_lines(["*own*1.00*"])


def test_a_fixture_of_the_users_own_named_scenario_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.fixture
        def scenario(): return "mine"
        def test_it(scenario): assert scenario == "mine"
        @pytest.mark.parametrize("scenario", ["a", "b"])
        def test_two(scenario): assert scenario in "ab"
        """
    )
    run(pytester).assert_outcomes(passed=3)


def test_subtests_of_a_fixture_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.fixture
        def subtests(): pass
        @pytest.fixture
        def checked(subtests): pass
        @pytest.mark.hwbudget(latency_p95_ms=1)
        def test_it(checked): pass
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["test_subtests_*.py:6: hwbudget: a fixture of this test makes subtests, which would*"])


def test_a_body_that_cannot_be_repeated_is_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(latency_p95_ms=1000)
        def test_it(tmp_path): (tmp_path / "a").mkdir()
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*hwperf makes this call many times, and the first one worked*"])
