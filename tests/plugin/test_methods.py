"""Tests that people already have: methods of unittest, subtests, class-scoped and parametrised ones."""

import re
from pathlib import Path

import pytest

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile

QUICK = (
    "-p",
    "fakes.simulated_time",
    "--hwperf-energy=off",
    "--hwperf-sample-time=0.05",
    "--hwperf-report=report.json",
)
BEFORE = """
import os, pathlib, unittest
import pytest
from fakes.simulated_time import spend
journal = pathlib.Path("journal")
def note(what):
    with journal.open("a") as file:
        file.write(what)
"""


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=BEFORE + text)
    return pytester.runpytest_inprocess(*QUICK, *options)


def journal() -> str:
    return Path("journal").read_text(encoding="utf-8")


def latencies() -> dict[str, list[float]]:
    report = from_json(ReportFile, Path("report.json").read_text(encoding="utf-8")).report
    samples = {one.run.test.rpartition("::")[2]: one.run.sample("latency") for one in report.judgements}
    return {test: list(sample.values) for test, sample in samples.items() if sample is not None}


METHOD = """
class TestRows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        note("S")
    def setUp(self):
        note("s")
        spend(5000)
        self.rows = [3, 1]
        self.addCleanup(note, "x")
    def tearDown(self):
        note("t")
        spend(5000)
    @pytest.mark.hwbudget(latency_p95_ms=1.5)
    def test_sort(self):
        note("c")
        spend(1000)
        self.assertEqual(self.rows, [3, 1])
        self.rows.sort()
    @classmethod
    def tearDownClass(cls):
        note("T")
"""


def test_each_call_of_a_method_has_its_own_set_up_which_is_not_timed(pytester: pytest.Pytester) -> None:
    """Also with --pdb, where pytest puts off the last tearDown."""
    for options in ((), ("--pdb",)):
        Path("journal").unlink(missing_ok=True)
        run(pytester, METHOD, *options).assert_outcomes(passed=1)
        done = journal()
        calls = done.count("c")
        assert ("S", "T") == (done[0], done[-1])
        assert calls > 10
        assert options or "sctx" * calls == done[1:-1]
        (found,) = latencies().values()
        assert 0.0008 < min(found) <= max(found) < 0.0015


ENDINGS = """
@pytest.mark.hwbudget(latency_p95_ms=1e-3)
class TestEndings(unittest.TestCase):
    def setUp(self):
        self.step = "set up"
    def test_missed(self):
        spend(1000)
    def test_wrong(self):
        self.assertEqual(1, 2)
    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(1, 2)
    @unittest.skip("not now")
    def test_skipped(self):
        spend(1000)
    def test_skips_itself(self):
        self.skipTest("not now")
    @pytest.mark.xfail
    def test_misses_as_expected(self):
        spend(1000)
    def test_first_call_differs(self):
        spend(1000)
        self.assertEqual(journal.exists(), False)
        note("1")
    def test_cleanup_differs(self):
        spend(1000)
        self.addCleanup(lambda: 1 / journal.exists() - 1)
"""


def test_outcomes_of_a_method_are_those_of_unittest(pytester: pytest.Pytester) -> None:
    """A body or cleanup that fails, or cannot be repeated, is not judged."""
    result = run(pytester, ENDINGS, "-v")
    ended = dict(re.findall(r"::test_(\w+) ([A-Z]+)", result.stdout.str()))
    assert {
        "missed": "FAILED",
        "wrong": "FAILED",
        "expected": "XFAIL",
        "skipped": "SKIPPED",
        "skips_itself": "SKIPPED",
        "misses_as_expected": "XFAIL",
        "first_call_differs": "FAILED",
        "cleanup_differs": "FAILED",
    } == ended
    for line in (
        "E * AssertionError: 1 != 2",
        "*hwperf makes this call many times, and the first *",
        "*ZeroDivisionError*",
    ):
        result.stdout.fnmatch_lines([line])
    assert 1 == sum(line.startswith("latency p95 ") and "limit 1 µs" in line for line in result.outlines)


PLAIN = """
def helper(case):
    case.addCleanup(note, "h")
class TestPlain(unittest.TestCase):
    @pytest.mark.hwbudget(latency_p95_ms=1.5)
    def test_alone(self):
        spend(1000)
    @pytest.mark.hwbudget(latency_p95_ms=1.5)
    def test_helped(self):
        spend(1000)
        note("c")
        helper(self)
class TestCleaned(unittest.TestCase):
    @pytest.mark.hwbudget(latency_p95_ms=1.5)
    def test_cleaned(self):
        spend(1000)
        note("C")
        self.addCleanup(spend, 5000)
        self.addCleanup(note, "X")
"""


def test_a_class_without_a_set_up_is_measured_as_functions_are(pytester: pytest.Pytester) -> None:
    """Cleanups follow every call all the same; those that nobody could foresee are part of it."""
    run(pytester, PLAIN).assert_outcomes(passed=3)

    done = journal()
    assert "ch" * done.count("c") == done.replace("C", "").replace("X", "")
    assert "CX" * done.count("C") == done.replace("c", "").replace("h", "")
    assert {"test_alone", "test_helped", "test_cleaned"} == {*latencies()}
    assert max(latencies()["test_cleaned"]) < 0.0015


SUBTESTS = """
hits = []
@pytest.fixture(autouse=True)
def _unhit():
    hits.clear()
class TestParts(unittest.TestCase):
    @pytest.mark.hwbudget(latency_p95_ms=1.5)
    def test_method(self):
        for part in range(3):
            with self.subTest(part=part):
                spend(300)
                {body}
@pytest.mark.hwbudget(latency_p95_ms=1.5)
def test_function(subtests):
    for part in range(3):
        with subtests.test(part=part):
            spend(300)
            {body}
"""


def test_subtests_are_reported_of_the_first_call_alone(pytester: pytest.Pytester) -> None:
    pytest.importorskip("_pytest.subtests", reason="pytest has them from 9.0 on")
    for body, ended in (
        ("note('c')", {"passed": 2}),
        ("assert part != 1", {"failed": 3, "passed": 1}),  # pytest calls a method passed whose subtests failed
        ("part == 1 and pytest.skip('odd')", {}),
        ("hits.append(part); assert hits.count(part) < 2", {"failed": 2}),
    ):
        result = run(pytester, SUBTESTS.format(body=body), "-v")
        counted = {name: count for name, count in result.parseoutcomes().items() if name in ("passed", "failed")}
        assert ended in ({}, counted)
        assert len(result.outlines) < 150
        result.stdout.no_fnmatch_line("*limit*" if "assert" in body else "*SubtestsFailed*")


CLASSES = """
@pytest.fixture(scope="class")
def rows(request):
    note("S")
    yield [3, 1]
    note("T")
@pytest.mark.hwbudget(latency_p95_ms=1.5)
@pytest.mark.usefixtures("rows")
class TestClass:
    @pytest.mark.parametrize("n", [1, 2])
    def test_parametrised(self, rows, n):
        assert rows == [3, 1] and n in (1, 2)
        spend(1000)
@pytest.mark.hwbudget(latency_p95_ms=1.5)
@pytest.mark.usefixtures("rows")
class TestCase(unittest.TestCase):
    def test_method(self):
        spend(1000)
"""


def test_class_scoped_fixtures_and_parameters_are_those_of_the_test(pytester: pytest.Pytester) -> None:
    run(pytester, CLASSES).assert_outcomes(passed=3)
    assert "STST" == journal()
    assert {"test_parametrised[1]", "test_parametrised[2]", "test_method"} == {*latencies()}
