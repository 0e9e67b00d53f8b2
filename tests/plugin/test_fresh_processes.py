"""Memory, cold starts and repeats in fresh pytest processes, each started for real."""

import os
from pathlib import Path

import psutil
import pytest
from fakes.processes import ends

from pytest_hwperf.plugin.command import drop
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import Report, ReportFile
from pytest_hwperf.records.verdict import Judgement
from pytest_hwperf.stats.hypotheses import PROCESSES

MIB = 2**20
QUICK = ("--hwperf-sample-time=0.1", "--hwperf-energy=off", "-p", "fakes.short_growth")

pytestmark = pytest.mark.usefixtures("fakes_in_reach")

needs_linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")


def report(pytester: pytest.Pytester, *options: str) -> tuple[pytest.RunResult, Report]:
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-report=report.json", *options)
    return result, read(pytester)


def read(pytester: pytest.Pytester) -> Report:
    return from_json(ReportFile, (pytester.path / "report.json").read_text(encoding="utf-8")).report


def values(found: Report, metric: str) -> list[float]:
    sample = found.judgements[0].run.sample(metric)
    assert sample is not None
    return list(sample.values)


def peak(judgement: Judgement) -> float:
    """Median peak in MiB."""
    return next(figure.estimate.value for figure in judgement.figures if figure.metric == "memory") / MIB


@pytest.fixture
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure memory in one process: which one it is, is what such tests ask."""
    monkeypatch.setitem(PROCESSES, "memory", 1)


@needs_linux
@pytest.mark.live
def test_memory_is_what_imports_fixtures_body_and_calls_take(pytester: pytest.Pytester) -> None:
    """In each of three fresh processes within half a MiB, and numpy, which is no part of the project, is left out."""
    pytester.makepyfile(own="import numpy\nkept = bytearray(3 << 20)\n")
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef model():\n    return bytearray(50 << 20)\n")
    pytester.makepyfile(
        """
        import own, pytest
        @pytest.mark.hwbudget(memory_max_mb=20)
        def test_it(hwperf, model):
            rows = bytearray(10 << 20)
            hwperf(lambda: bytearray(5 << 20).count(1))
        """
    )
    result, found = report(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"memory 7[01]\.\d MB \(.*\), limit .*; 3 fresh processes, VmHWM .*"])
    parts = {"memory": 68, "memory_import": 3, "memory_fixtures": 60, "memory_call": 5, "memory_steady": 5}
    for metric, mebibytes in parts.items():
        assert values(found, metric) == pytest.approx([mebibytes * MIB] * 3, abs=MIB / 2), metric
    assert values(found, "memory_retained") == pytest.approx([0] * 3, abs=MIB / 2)


@pytest.mark.live
@pytest.mark.usefixtures("traced")
def test_a_cold_start_begins_before_the_first_own_import(pytester: pytest.Pytester) -> None:
    """In five fresh processes; the fixture that trains is named, before the first of them too."""
    pytester.makepyfile(own="import time\ntime.sleep(0.3)\n")
    pytester.makepyfile(
        """
        import own, time, pytest
        calls = []
        def work():
            if not calls: time.sleep(0.2)
            calls.append(1)
        class Model:
            def fit(self): time.sleep(1)
        def train(model): model.fit()
        @pytest.fixture
        def model(): train(Model())
        @pytest.mark.hwbudget(cold_start_ms=1200)
        def test_it(hwperf, model): hwperf(work)
        """
    )
    result, found = report(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["hwperf: *: the fixture model trained for 1.* s, and trains again in each of 5 *"])
    least = {"cold_start": 1.5, "cold_own_import": 0.3, "cold_fixtures": 1.0, "cold_first_call": 0.2}
    assert [5] * len(least) == [len(values(found, metric)) for metric in least]
    assert all(min(values(found, metric)) >= seconds for metric, seconds in least.items())
    assert max(values(found, "cold_warm_call")) < 0.2
    sample = found.judgements[0].run.sample("cold_start")
    assert sample is not None
    assert 1 == sum("the fixture model trains a model" in str(warning) for warning in sample.warnings)


@needs_linux
@pytest.mark.live
@pytest.mark.usefixtures("_one_process")
def test_each_label_is_measured_apart_and_odd_ids_reach_the_fresh_process(pytester: pytest.Pytester) -> None:
    """The other measurement of the test is called once on the way; node ids never stand on a command line."""
    pytester.makepyfile(
        """
        import pytest
        ODD = ["a b/c", "[é✓]", "-k x::y", "$(exit 1)"]
        @pytest.mark.hwbudget(memory_max_mb=1000)
        def test_labels(hwperf):
            hwperf(lambda: bytearray(16 << 20).count(1), label="small")
            hwperf(lambda: bytearray(48 << 20).count(1), label="large")
        @pytest.mark.hwbudget(memory_max_mb=100)
        @pytest.mark.parametrize("odd", ODD, ids=str)
        def test_odd(odd): bytearray((2 + 2 * ODD.index(odd)) << 20).count(1)
        """
    )
    _, found = report(pytester)
    small, large, *odd = found.judgements
    assert ("small", "large") == (small.run.label, large.run.label)
    assert [peak(small), peak(large)] == pytest.approx([16, 48], abs=1)
    assert [peak(judgement) for judgement in odd] == pytest.approx([2, 4, 6, 8], abs=0.5)


@needs_linux
@pytest.mark.live
@pytest.mark.usefixtures("_one_process", "traced")
def test_who_has_answered_measures_nothing_more(pytester: pytest.Pytester) -> None:
    """Even where the body catches whatever it can: a second answer would be one of a warm process."""
    pytester.makepyfile(
        """
        import os, pathlib, pytest
        fresh = "MALLOC_MMAP_THRESHOLD_" in os.environ
        @pytest.mark.hwbudget(memory_max_mb=100)
        def test_it(hwperf):
            def note(name):
                if fresh: print(os.getpid(), file=pathlib.Path(name).open("a"))
            try: hwperf(lambda: bytearray(8 << 20).count(1), label="first")
            except BaseException: note("caught")
            hwperf(lambda: note("second"), label="second")
        """
    )
    result, found = report(pytester)

    result.assert_outcomes(passed=1)
    assert peak(found.judgements[0]) == pytest.approx(8, abs=0.5)
    (measured_first,) = (pytester.path / "caught").read_text(encoding="ascii").split()
    (measured_second,) = {*(pytester.path / "second").read_text(encoding="ascii").split()}
    assert measured_first != measured_second


@needs_linux
@pytest.mark.live
@pytest.mark.usefixtures("_one_process", "traced")
def test_what_six_calls_do_not_show_or_no_fresh_process_answers_is_no_silent_pass(pytester: pytest.Pytester) -> None:
    """A test whose process dies fails, and the end of the log is quoted."""
    pytester.makepyfile(
        test_shown="""
        import itertools, os, subprocess, sys, pytest
        pytestmark = pytest.mark.hwbudget(memory_max_mb=20)
        kept, calls = [], itertools.count(1 if "MALLOC_MMAP_THRESHOLD_" in os.environ else 100)
        def test_15th_call_keeps(hwperf):
            hwperf(lambda: kept.append(bytearray(50 << 20)) if next(calls) == 15 else None)
        def test_child(hwperf): hwperf(lambda: subprocess.run([sys.executable, "-c", "kept = bytearray(50 << 20)"]))
        """,
        test_lost="""
        import os, pytest
        pytestmark = pytest.mark.hwbudget(memory_max_mb=100)
        FRESH = "MALLOC_MMAP_THRESHOLD_" in os.environ
        def test_exits(hwperf):
            if FRESH: os._exit(3)
            hwperf(sum, [1])
        def test_killed(hwperf):
            if FRESH: os.kill(os.getpid(), 9)
            hwperf(sum, [1])
        def test_raises(hwperf):
            if FRESH:
                print("noise", flush=True)
                raise ValueError("only there")
            hwperf(sum, [1])
        """,
    )
    result, _ = report(pytester)
    result.assert_outcomes(failed=5)
    for shown in (
        "memory 5[12].[0-9] MB, limit 20 MB*",
        "memory unmeasured, limit 20 MB: the test starts processes, whose memory is not counted*",
        "*a fresh process ended with code 3 and gave no answer*",
        "*a fresh process ended with code -9 and gave no answer*",
        "*ValueError: only there*",
    ):
        result.stdout.fnmatch_lines([shown])


@pytest.mark.live
def test_a_child_that_outlives_its_fresh_process_is_ended(pytester: pytest.Pytester) -> None:
    """The process group goes with the worker."""
    pytester.makepyfile(
        """
        import os, subprocess, sys, pytest
        if os.environ.get("MALLOC_MMAP_THRESHOLD_"):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "hwperf-orphan"])
        @pytest.mark.hwbudget(memory_max_mb=100)
        def test_it(): pass
        """
    )
    pytester.runpytest_inprocess(*QUICK)
    orphans = [p for p in psutil.process_iter(["cmdline"]) if "hwperf-orphan" in (p.info["cmdline"] or [])]
    assert [] == [orphan for orphan in orphans if not ends(orphan.pid)]


@pytest.mark.live
def test_options_that_would_stop_or_write_are_not_inherited(pytester: pytest.Pytester) -> None:
    """`-x`, `-k`, `--junitxml` and `addopts` of the asking session leave the worker whole and its files alone."""
    pytester.makeini("[pytest]\naddopts = -x --strict-markers -k test_it")
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(memory_max_mb=100)
        def test_it(): pass
        def test_other(): pass
        """
    )
    result = pytester.runpytest_inprocess(*QUICK, "-k", "test_it", "--junitxml=junit.xml", "--basetemp=base")
    result.assert_outcomes(passed=1, deselected=1)
    assert 'tests="1"' in (pytester.path / "junit.xml").read_text(encoding="utf-8")


@pytest.mark.live
def test_under_xdist_a_worker_of_a_worker_measures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.hwbudget(memory_max_mb=100)
        def test_it(): bytearray(16 << 20).count(1)
        """
    )
    result = pytester.runpytest_subprocess("-p", "xdist", "-n", "1", *QUICK, "--hwperf-report=report.json")
    result.assert_outcomes(passed=1)
    assert values(read(pytester), "memory") == pytest.approx([16 * MIB] * 3, abs=MIB)


def test_a_foreign_order_is_a_usage_error(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWPERF_WORKER", "1")
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "HWPERF_WORKER" in os.environ


def test_what_a_worker_inherits() -> None:
    """The user's own options reach it; what selects, stops or writes does not."""
    table = [
        (["-x", "tests", "-s"], ["tests"], ["-s"]),
        (["-n", "4", "-p", "xdist"], [], ["-p", "xdist"]),
        (["-n4", "-kname", "-mslow", "-m", "slow"], [], []),
        (["--maxfail=1", "--junitxml", "a.xml", "--junit-xml=b"], [], []),
        (["--model=a", "--size", "big", "t.py::test"], ["t.py::test"], ["--model=a", "--size", "big"]),
        (["--hwperf-save", "--hwperf-sample-time=1", "--hwperf-report=a"], [], ["--hwperf-sample-time=1"]),
        (["t.py", "--ignore", "t.py"], ["t.py"], ["--ignore", "t.py"]),
        (["--cov", "t.py", "--no-cov"], ["t.py"], []),
        (["--cov", "package", "--cov-report", "xml", "--cov=more", "--cov", "--cov"], [], []),
        (["--timeout", "9", "--timeout-method=thread", "--session-timeout=99"], [], []),
    ]
    assert [] == [(given, kept) for given, tests, kept in table if kept != drop(given, tests)]
