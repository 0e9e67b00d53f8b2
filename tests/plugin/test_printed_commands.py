"""Commands that a session prints: typed again, they measure the same test in the same way."""

import shlex
import sys
from pathlib import Path

import pytest

from pytest_hwperf.plugin.command import drop

TESTS = """
from fakes.simulated_time import spend
def test_plain(pytestconfig):
    assert pytestconfig.getoption("size") == "big"
    spend(2000)
def test_benchmarked(benchmark):
    benchmark(spend, 2000)
"""
CONFTEST = "def pytest_addoption(parser): parser.addoption('--size')\n"
OPTIONS = ("-pfakes.simulated_time", "--hwperf-energy", "off", "--hwperf-sample-time=0.05", "-q", "-x", "--size", "big")


def printed(result: pytest.RunResult, start: str) -> list[str]:
    """Return the words after `start` of a printed command, in the one line that a user pastes."""
    (line,) = (line for line in result.outlines if line.startswith(start))
    return shlex.split(line.removeprefix(start))


@pytest.mark.parametrize(
    ("test", "options"),
    [
        ("test_plain", ["--hwperf-all"]),
        ("test_plain", ["--hwperf-all", "--hwperf-save", "--hwperf-baseline=v1"]),
        ("test_benchmarked", ["--hwperf-all", "--hwperf-benchmark", "-o", "hwperf_shortest=0.001"]),
    ],
)
def test_what_looks_further_measures_the_same(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, test: str, options: list[str]
) -> None:
    """Whatever made the test a measured one is in it, from the folder in which pytest was started."""
    # a module that is imported before pytest loads it as a plugin would be warned of
    clock = (sys.modules["fakes.simulated_time"].now_ns() for _ in iter(int, 1))
    monkeypatch.setattr("pytest_hwperf.plugin.whole_suites.perf_counter_ns", clock.__next__)
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nhwperf_budgets = latency_p50_ms=1\n")
    pytester.mkpydir("sub").joinpath("test_it.py").write_text(TESTS)
    monkeypatch.chdir("sub")
    first = pytester.runpytest_inprocess(
        f"test_it.py::{test}", *OPTIONS, *options, "--hwperf-report=said.md", "--hwperf-report=said.json"
    )
    further = printed(first, "details: pytest ")
    again = pytester.runpytest_inprocess(*further)
    repeat = Path("said.md").read_text(encoding="utf-8").partition("**Repeat it**\n\n```text\npython -m pytest ")[2]
    monkeypatch.chdir("..")
    third = pytester.runpytest_inprocess("-p", "fakes.simulated_time", "--size=big", *shlex.split(repeat)[:-1])

    first.assert_outcomes(failed=1)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines(["*latency p50*limit 1*"])
    third.assert_outcomes(failed=1)
    third.stdout.fnmatch_lines(["*latency p50*limit 1*"])


def test_a_command_repeats_the_gate_and_not_the_session() -> None:
    """What selects tests, stops, writes files or shards is of one session; what makes the pairs is of the command."""
    kept = ["--hwperf-against=v1", "--hwperf-share=*.onnx", "-c", "other.ini", "--size", "big", "--hwperf-compare"]
    gone = ["-k", "fast", "-x", "-vv", "--hwperf-report", "r.json", "--hwperf-shard=1/2", "--hwperf-affected", "-n4"]
    assert kept == drop([*kept, *gone, "tests"], tests=["tests"], of_gate=False)
    assert ["--size", "big"] == drop([*kept, *gone, "--hwperf-baseline=v1", "tests"], tests=["tests"])


def test_what_overrides_the_ini_file_is_one_word() -> None:
    for given in (["-o", "hwperf_gc=off"], ["-ohwperf_gc=off"], ["--override-ini", "hwperf_gc=off"]):
        assert ["--override-ini=hwperf_gc=off", "-s"] == drop([*given, "-s", "tests"], tests=["tests"])


def test_a_misspelt_test_file_names_its_neighbour(pytester: pytest.Pytester) -> None:
    """Below what pytest says; a test that its file has not is pytest's own matter."""
    pytester.makepyfile(test_text=TESTS)
    for given, named in (
        ("test_txt.py", ["ERROR: Did you mean 'test_text.py'?"]),
        ("test_text.py::test_plan", []),
        ("x" * 300, []),
    ):
        result = pytester.runpytest_inprocess("--hwperf-all", given)
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        assert named == [line for line in result.errlines if "Did you mean" in line]


UNMEASURED = {
    ("--hwperf-against=.", "-k", "plain"): "1 test selected, none of them measured: add --hwperf-all to compare*",
    ("--hwperf-against=.",): "*add --hwperf-benchmark, for the fixture benchmark of 1 selected *",
    ("--hwperf-base-with=ort==1", "-k", "nothing"): "no test was selected",
}


def test_a_gate_on_unmeasured_tests_says_how_they_become_measured(pytester: pytest.Pytester) -> None:
    """The option that fits the tests is named."""
    pytester.makeconftest(CONFTEST + "import pytest\n@pytest.fixture\ndef benchmark(): return lambda *given: None\n")
    pytester.makepyfile(test_it=TESTS)
    for options, named in UNMEASURED.items():
        result = pytester.runpytest_inprocess(*options)
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        result.stderr.fnmatch_lines([f"ERROR: {options[0]}: nothing to compare: {named}"])
