"""`--hwperf-all`: every test of a suite that nobody wrote to be measured, and a name for each that cannot be."""

from pathlib import Path

import pytest
from fakes.reruns import REPEATED, repository

from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import Report, ReportFile

QUICK = (
    "-p",
    "fakes.simulated_time",
    "--hwperf-energy=off",
    "--hwperf-sample-time=0.05",
    "--hwperf-report=report.json",
)
BEFORE = "import unittest\nimport pytest\nfrom fakes.simulated_time import spend\n"
LONG = "a call takes *, and --hwperf-all measures calls of 100 µs or more: add -o hwperf_shortest=*"


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let simulated time decide what is too short, as it does in a real process."""
    from fakes.simulated_time import now_ns

    monkeypatch.setattr("pytest_hwperf.plugin.fixture.repeatable.perf_counter_ns", now_ns)


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=BEFORE + text)
    return pytester.runpytest_inprocess("--hwperf-all", *QUICK, *options)


def report() -> Report:
    return from_json(ReportFile, Path("report.json").read_text(encoding="utf-8")).report


def measured() -> set[str]:
    return {one.run.test.partition("::")[2] for one in report().judgements if one.run.samples}


def skips() -> dict[str, str]:
    return {skip.test.partition("::")[2]: skip.reason for skip in report().skips}


SUITE = """
@pytest.mark.parametrize("n", [1, 2])
def test_function(n):
    spend(1000)
class TestMethods(unittest.TestCase):
    def setUp(self):
        self.rows = []
    def test_method(self):
        self.rows.append(1)
        self.assertEqual([1], self.rows)
        spend(1000)
class TestPlain:
    def test_plain(self):
        spend(1000)
def test_own(hwperf):
    hwperf(spend, 1000, label="own")
@pytest.mark.hwbudget(latency_p95_ms=1.5)
def test_budget():
    spend(1000)
def test_short():
    spend(10)
"""


@pytest.mark.usefixtures("timed")
def test_every_test_is_measured_and_the_too_short_one_is_named(pytester: pytest.Pytester) -> None:
    result = run(pytester, SUITE)

    result.assert_outcomes(passed=7)
    names = {"test_function[1]", "test_function[2]", "TestMethods::test_method", "TestPlain::test_plain"}
    assert {*names, "test_own", "test_budget"} == measured()
    assert ["test_short"] == [*skips()]
    result.stdout.fnmatch_lines([f"*skipped: {LONG}"])
    assert {"own"} == {one.run.label for one in report().judgements if one.run.test.endswith("test_own")}


@pytest.mark.usefixtures("timed")
def test_the_shortest_call_can_be_set(pytester: pytest.Pytester) -> None:
    run(pytester, SUITE, "-ohwperf_shortest=0.000005").assert_outcomes(passed=7)
    assert "test_short" in measured()
    assert {} == skips()


ONCE = """
@pytest.fixture(scope="session")
def rows():
    return [3, 1, 2]
@pytest.fixture
def lines():
    return iter([1, 2])
calls = []
class TestMethods(unittest.TestCase):
    def tearDown(self):
        calls.append(1)
        assert len(calls) < 2 or {again}
    def test_torn_down(self): pass
class TestCleaned(unittest.TestCase):
    made = []
    def test_cleaned(self):
        self.made.append(1)
        self.addCleanup(lambda: 1 / (len(self.made) < 2 or {again}))
def test_mutates(rows):
    rows.sort()
def test_uses_up(lines):
    assert sum(lines) == 3
def test_collides(tmp_path):
    (tmp_path / "a").mkdir()
def test_skips():
    calls.append(1)
    if len(calls) > 4:
        pytest.skip("enough")
def test_later(once=[]):
    once.append(1)
    assert len(once) < 7 or {again}
def test_after(rows):
    assert rows == [1, 2, 3]
"""


@pytest.mark.usefixtures("timed")
def test_what_cannot_be_called_again_passes_and_is_named(pytester: pytest.Pytester) -> None:
    """A wrong figure would be worse than none, and the test itself is right. What it changes is changed once."""
    result = run(pytester, ONCE.format(again="False"), "-o", "hwperf_shortest=1e-9")

    found = {test: why.removeprefix("its body cannot be measured: ") for test, why in skips().items()}
    after = "a call after the first one raised "
    assert found["test_mutates"] == (
        "its first call has changed its fixture 'rows', which setup= makes anew for each call: "
        "hwperf(call, setup=lambda: ([new_rows()], {}))"
    )
    assert found["test_uses_up"] == "its fixture 'lines' is an iterator, which one call uses up"
    assert found["test_collides"].startswith(f"{after}FileExistsError: [Errno 17] File exists")
    assert found["test_skips"] == f"{after}Skipped: enough"
    assert found["test_later"].startswith(f"{after}AssertionError")
    assert found["TestCleaned::test_cleaned"] == f"{after}ZeroDivisionError: division by zero"
    assert found["TestMethods::test_torn_down"].startswith(f"{after}AssertionError")
    result.assert_outcomes(passed=8)
    assert set() == measured() - {"test_after"}


LEFT = """
class TestLoop(unittest.IsolatedAsyncioTestCase):
    async def test_loop(self): pass
class TestExpected(unittest.TestCase):
    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(1, 2)
def test_drawn(): pass
test_drawn.is_hypothesis_test = True
@pytest.mark.xfail
def test_xfail(): assert False
@pytest.mark.xfail
def test_xpass(): spend(1000)
@pytest.mark.skip
def test_skip(): pass
def test_fails():
    spend(1000)
    assert False
def test_skips():
    pytest.skip("not here")
"""


def test_outcomes_of_pytest_stay_and_what_is_known_to_differ_is_named(pytester: pytest.Pytester) -> None:
    result = run(pytester, LEFT)
    result.assert_outcomes(passed=2, xfailed=2, xpassed=1, skipped=2, failed=1)
    assert {
        "test_drawn": "its body cannot be measured: hypothesis draws other examples at every call",
        "TestLoop::test_loop": "its body cannot be measured: an IsolatedAsyncioTestCase is set up on a loop that only "
        "unittest runs; make it a function that uses the fixture",
    } == skips()
    assert set() == measured()


def test_nothing_is_measured_where_that_is_disabled(pytester: pytest.Pytester) -> None:
    result = run(
        pytester, "calls = []\ndef test_it():\n    calls.append(1)\n    assert calls == [1]", "--hwperf-disable"
    )
    result.assert_outcomes(passed=1)


MODEL = """
from fakes.simulated_time import spend


def call():
    sum(range(30_000))
    spend({units})
"""
GATED = """
import unittest

from fakes.simulated_time import spend
from model import call


class TestMethods(unittest.TestCase):
    def setUp(self):
        self.rows = []

    def test_method(self):
        call()
        self.rows.append(1)
        with self.subTest(part=1):
            self.assertEqual([1], self.rows)


def test_function():
    call()


def test_collides(tmp_path):
    (tmp_path / "a").mkdir()


def test_short():
    pass


def test_benchmarked(benchmark):
    assert benchmark(call) is None
    assert benchmark.stats["mean"] < 10


def test_rounds(benchmark):
    calls = []

    def counted():
        calls.append(1)
        call()

    benchmark.pedantic(counted, setup=lambda: None, rounds=5)
    assert len(calls) == 5


def test_setup(hwperf):
    hwperf(call, setup=lambda: spend(5000))
"""


@pytest.mark.live
@pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")
def test_a_suite_is_gated_as_it_stands(pytester: pytest.Pytester) -> None:
    """Without markers of this plugin, with the fixture of pytest-benchmark too.

    What follows a measurement, such as a count of calls, is no failure of the processes that make many more.
    """
    files = {"model.py": MODEL.format(units=300), "test_suite.py": GATED}
    project = repository(pytester, {**files, "pytest.ini": "[pytest]\npythonpath = .\n"})
    project.write({"model.py": MODEL.format(units=600)})
    result = project.run("--hwperf-all", "--hwperf-benchmark", REPEATED)

    result.assert_outcomes(passed=2, failed=5)
    names = ("method", "function", "benchmarked", "rounds", "setup", "collides", "short")
    found = {name: project.compared(f"test_{name}") for name in names}
    assert ["regressed"] * 5 + ["not comparable"] * 2 == [one.outcome for one in found.values()]
    assert "FileExistsError" in str(found["collides"].cause)
    assert "measures calls of 100 µs or more" in str(found["short"].cause)
    alone = found["setup"].change  # without the setup, which takes sixteen times as long
    assert alone is not None
    assert 0.8 < alone.value < 1.2
