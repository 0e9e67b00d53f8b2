"""A subtest that fails, in the fixture `subtests` or in `TestCase.subTest`, fails what was measured around it."""

from pathlib import Path

import pytest
from fakes.reruns import SIMULATED

from pytest_hwperf.plugin.session.state import SUBTEST, Ends
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile

pytest.importorskip("_pytest.subtests", reason="pytest has them from 9.0 on")
pytestmark = pytest.mark.usefixtures("fakes_in_reach")

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "--hwperf-benchmark", *SIMULATED, "-pno:cacheprovider")
SUITE = """
import unittest
import pytest
from fakes.simulated_time import spend

pytestmark = pytest.mark.hwbudget(latency_p50_ms=500)

def work():
    spend(300)

def test_after(hwperf, subtests):
    hwperf(work)
    with subtests.test("value"):
        assert 1 == 2

def test_before(hwperf, subtests):
    with subtests.test("value"):
        assert 1 == 2
    hwperf(work)

def test_by_benchmark(benchmark, subtests):
    benchmark(work)
    with subtests.test("value"):
        assert 1 == 2

@pytest.fixture
def checked(subtests):
    with subtests.test("early"):
        assert 1 == 2

def test_in_a_fixture(hwperf, checked):
    hwperf(work)

class TestMethods(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _keep(self, hwperf):
        self.hwperf = hwperf

    def test_method(self):
        self.hwperf(work)
        with self.subTest("value"):
            self.assertEqual(1, 2)

def test_that_others_skip(hwperf, subtests):
    with subtests.test("elsewhere"):
        pytest.skip("not here")
    with subtests.test("known"):
        pytest.xfail("known")
    hwperf(work)
    with subtests.test("well"):
        assert True
"""


def test_a_failed_subtest_is_a_failed_test(pytester: pytest.Pytester) -> None:
    """Nothing of it is saved, exported or counted among the budgets, as after a plain assertion that failed.

    A subtest that is skipped, or expected to fail, changes nothing.
    """
    pytester.makepyfile(test_it=SUITE)
    result = pytester.runpytest_inprocess(*QUICK, "--hwperf-save", "--hwperf-report=report.json")
    report = from_json(ReportFile, Path("report.json").read_text(encoding="utf-8")).report
    assert {"test_it.py::test_that_others_skip"} == {one.run.test for one in report.judgements}
    assert not any("::test_that_others_skip" in one for one in report.failed)
    result.stdout.fnmatch_lines(["budgets: 1 passed*", "hwperf: 1 run saved to baseline main*"])
    (stored,) = Path(".hwperf").rglob("*.jsonl")
    assert stored.name.startswith("test_it-py-test_that_others_skip")
    assert pytest.ExitCode.TESTS_FAILED == result.ret


def test_a_mere_subtest_is_no_end_of_its_test() -> None:
    """One that fails is: pytest fails the test for it."""
    for outcome, failed, xfailed in (("passed", 0, 0), ("skipped", 0, 0), ("failed", 1, 0)):
        ends = Ends()
        report = pytest.TestReport("a::b", ("a", 1, "b"), {}, outcome, "text", "call")  # type: ignore[arg-type]
        report.wasxfail = "known"
        setattr(report, SUBTEST, True)
        ends.note(report)
        assert (failed, xfailed) == (len(ends.failed), len(ends.xfailed))
