"""The fixture `benchmark` of this plugin: suites of pytest-benchmark as they stand, with it installed or not."""

import json
import statistics
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.plugin.fixture.benchmark import EXTRA_INFO, GROUP, Metadata
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile

QUICK = ("--hwperf-benchmark", "--hwperf-sample-time=0.05", "--hwperf-energy=off", "-pno:cacheprovider")

SUITE = """
import pytest


@pytest.mark.benchmark(group="sums", min_rounds=3, disable_gc=True)
@pytest.mark.parametrize("n", [10, 20])
def test_called(benchmark, n):
    benchmark.extra_info["n"] = {("rows",): n}
    assert benchmark(sum, range(n)) == sum(range(n))
    assert benchmark.enabled and not benchmark.disabled
    assert benchmark.stats.stats.min <= benchmark.stats["mean"] <= benchmark.stats["max"]
    assert (benchmark.name, benchmark.group, benchmark.params) == (f"test_called[{n}]", "sums", {"n": n})


def test_decorated(benchmark):
    @benchmark
    def result():
        return 3

    assert result == 3


def test_pedantic(benchmark):
    calls = []
    benchmark.pedantic(calls.append, setup=lambda: ([1], {}), teardown=calls.append, rounds=4, warmup_rounds=1)
    assert calls == [1] * 10
    assert benchmark.stats["rounds"] == 4


class TestClass:
    @pytest.fixture(autouse=True)
    def _keep(self, benchmark):
        self.benchmark = benchmark

    def test_method(self):
        self.benchmark(str)


def test_skipped(benchmark):
    assert benchmark.stats is None
    pytest.skip("not today")
"""


def run(pytester: pytest.Pytester, suite: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_suite=suite)
    return pytester.runpytest_inprocess(*QUICK, *options)


@pytest.mark.parametrize("installed", [False, True], ids=["alone", "beside pytest-benchmark"])
def test_a_suite_is_measured_as_it_stands(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *, installed: bool
) -> None:
    """pytest-benchmark itself fails every test whose fixture `benchmark` is not its own."""
    if installed:
        pytest.importorskip("pytest_benchmark")
        monkeypatch.setenv("PYTEST_PLUGINS", "pytest_hwperf.plugin,pytest_benchmark.plugin")
    given = (
        "-v",
        "--strict-markers",
        "--hwperf-report=report.json",
        *["--benchmark-autosave", "--benchmark-sort=name"] * installed,
    )
    result = run(pytester, SUITE, *given)

    result.assert_outcomes(passed=5, skipped=1)
    if installed:
        result.stdout.fnmatch_lines(["hwperf: no effect with --hwperf-benchmark: --benchmark-autosave, --bench*"])
    report = from_json(ReportFile, Path("report.json").read_text(encoding="utf-8")).report
    runs = {one.run.test.partition("::")[2]: one.run for one in report.judgements}
    assert {"test_called[10]", "test_called[20]", "test_decorated", "test_pedantic", "TestClass::test_method"} == {
        *runs
    }
    called = runs["test_called[20]"]
    assert ("sums", "off") == (called.context[GROUP], called.conditions["gc"])
    assert {"n": {"('rows',)": 20}} == json.loads(called.context[EXTRA_INFO])
    latency = runs["test_pedantic"].sample("latency")
    assert latency is not None
    assert 4 == len(latency.values)
    assert 1 == result.stdout.str().count("no effect here: min_rounds of the marker benchmark")


def test_without_the_option_the_fixture_is_not_ours(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    unknown = "-Wignore::pytest.PytestUnknownMarkWarning"  # the marker is not ours either
    result = pytester.runpytest_inprocess("-pno:cacheprovider", "-k", "decorated", unknown)
    result.stdout.fnmatch_lines(["*fixture 'benchmark' not found"])


def test_the_ini_twin_and_a_budget(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nhwperf_benchmark = true\n")
    pytester.makepyfile(
        "import pytest\n\n\n@pytest.mark.hwbudget(latency_p50_ms=1e-9)\ndef test_it(benchmark):\n    benchmark(str)\n"
    )
    result = pytester.runpytest_inprocess(*QUICK[1:])
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["latency p50 *, limit 0.001 ns; *"])


def test_bad_markers_are_a_usage_error(pytester: pytest.Pytester) -> None:
    problems = {
        "min_round=3": "benchmark(min_round=…): unknown keyword. Did you mean 'min_rounds'?",
        "max_time=0": "benchmark(max_time=0): a number of seconds above 0 up to 3600, such as 2",
        "max_time=3601": "benchmark(max_time=3601): a number of seconds above 0 up to 3600, such as 2",
        "'sums'": "benchmark('sums'): only keywords are taken, such as benchmark(group='predict')",
    }
    tests = "".join(
        f"@pytest.mark.benchmark({marker})\ndef test_{number}(benchmark): benchmark(str)\n"
        for number, marker in enumerate(problems)
    )
    result = run(pytester, f"import pytest\n{tests}")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    told = [line for line in result.errlines if "test_suite.py::" in line]
    assert [] == [
        (line, problem)
        for number, (line, problem) in enumerate(zip(told, problems.values(), strict=True))
        if not line.removeprefix("ERROR: ").startswith(f"test_suite.py::test_{number}: {problem}")
    ]


MARKED = """
import pytest
from fakes.simulated_time import spend

@pytest.mark.benchmark(group="sums", max_rounds=5, max_time=0.2, min_time=0.1)
def test_marked():
    spend(300)

@pytest.mark.codspeed_benchmark
class TestClass:
    def test_method(self, tmp_path):
        spend(300)
    def test_fixture(self, codspeed_benchmark):
        codspeed_benchmark(spend, 300)

@pytest.mark.benchmark
def test_short():
    spend(20)

calls = []
@pytest.mark.benchmark
def test_once():
    assert not calls
    calls.append(1)

def test_unmarked():
    spend(300)
"""


@pytest.mark.usefixtures("fakes_in_reach")
def test_a_marked_test_without_the_fixture_is_measured_itself(pytester: pytest.Pytester) -> None:
    """As by pytest-codspeed; a body that cannot be called again passes, and the report says why it has no figure."""
    result = run(pytester, MARKED, "-pfakes.simulated_time", "--strict-markers", "--hwperf-report=report.json")
    result.assert_outcomes(passed=6)
    report = from_json(ReportFile, Path("report.json").read_text(encoding="utf-8")).report
    found = {one.run.test.rpartition("::")[2]: one.run for one in report.judgements}
    samples = {name: sample for name, run in found.items() if (sample := run.sample("latency"))}
    medians = {name: statistics.median(sample.values) for name, sample in samples.items() if name != "test_short"}
    assert {"test_marked", "test_method", "test_fixture", "test_short"} == samples.keys()
    assert dict.fromkeys(("test_marked", "test_method", "test_fixture"), pytest.approx(300e-6, rel=0.1)) == medians
    assert "sums" == found["test_marked"].context[GROUP]
    notes = [str(one) for one in samples["test_marked"].warnings]
    assert "no effect here: max_rounds, min_time of the marker benchmark" in notes
    (skip,) = report.skips
    assert "test_suite.py::test_once" == skip.test
    assert "a call after the first one raised AssertionError" in skip.reason


def test_marked_tests_are_measured_by_the_option_alone(pytester: pytest.Pytester) -> None:
    """Without it the marker is that of another plugin; with --hwperf-disable each body runs once."""
    pytester.makepyfile(test_suite="import pytest\n@pytest.mark.benchmark\ndef test_it(): pass\n")
    pytester.makeini("[pytest]\nmarkers = benchmark: of another plugin\n")
    for options, seen in (
        ([], False),
        (["--hwperf-benchmark"], True),
        (["--hwperf-benchmark", "--hwperf-disable"], False),
    ):
        result = pytester.runpytest_inprocess(*QUICK[1:], *options)
        result.assert_outcomes(passed=1)
        assert seen == any("1 measured only" in line for line in result.outlines)


MISUSED = {
    "benchmark(3)": "benchmark(3): give a function and its arguments, not what it returns",
    "benchmark.weave('time.sleep')": "benchmark.weave('time.sleep'): nothing is woven into other code here: ",
    "benchmark(str); benchmark(str)": "the fixture benchmark measures one call of a test: ",
    "benchmark.pedantic(str, rounds=0)": "pedantic(rounds=0): a whole number from 1 on",
    "benchmark.pedantic(str, iterations=2, setup=dict)": "pedantic(iterations=2, setup=…): a setup prepares ",
    "benchmark(sum, iter([1]))": "argument 1 is an iterator, which one call uses up: make it a list, or let ",
    "benchmark.pedantic(sum, args=[iter([1])])": "argument 1 is an iterator, which one call uses up: ",
    "benchmark.pedantic(str, args=[1], setup=lambda: ([1], {}))": (
        "setup=: it returns arguments, and others are given too; give them in one place"
    ),
}


def test_what_cannot_be_meant_is_refused(pytester: pytest.Pytester) -> None:
    tests = "".join(f"def test_{number}(benchmark):\n    {body}\n" for number, body in enumerate(MISUSED))
    marker = "import pytest\n@pytest.mark.hwload(kind='concurrency', in_flight=2, seconds=0.1)"
    result = run(pytester, f"{tests}{marker}\ndef test_load(benchmark): benchmark.pedantic(str)\n")
    logged = result.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined] # of runs in process
    failures = [one.longreprtext for one in logged if one.failed]
    told = [*MISUSED.values(), "hwload: calls with setup=, or in rounds, follow each other; "]
    assert [] == [pair for pair in zip(told, failures, strict=True) if pair[0] not in pair[1]]


def test_what_pytest_benchmark_is_asked_for_is_done(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pytest_benchmark")
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_hwperf.plugin,pytest_benchmark.plugin")
    suite = (
        "def test_it(benchmark):\n    assert benchmark(str) == ''\n    assert benchmark.disabled\n"
        "    assert benchmark.stats is None\n\n\ndef test_other():\n    pass\n"
    )
    expected = {
        "--benchmark-disable": {"passed": 2},
        "--benchmark-skip": {"passed": 1, "deselected": 1},
        "--benchmark-only": {"failed": 1, "deselected": 1},  # it is measured, and not disabled
        "--benchmark-disable --benchmark-enable": {"failed": 1, "passed": 1},
        "--benchmark-enable --hwperf-disable": {"passed": 2},
    }
    assert expected == {option: run(pytester, suite, *option.split()).parseoutcomes() for option in expected}


def test_statistics_are_items_too() -> None:
    described: Any = SimpleNamespace(
        name="test_it", fullname="t.py::test_it", group="g", param=None, params=None, extra_info={"k": 1}
    )
    found = Metadata(described, [1.0, 3.0])
    assert (2.0, "g", {"k": 1}) == (found["mean"], found["group"], found["extra_info"])
    assert (2.0, None) == (found.stats.mean, found.get("no such"))
    with pytest.raises(KeyError, match="no such"):
        found["no such"]
