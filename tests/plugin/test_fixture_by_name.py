"""Ways to the fixture `hwperf` that no argument of the test shows: judged as any other test, or refused aloud.

Tests are judged, selected and rerun by the fixtures that they are collected with.
"""

import pytest

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off", "-p", "no:cacheprovider", "-pfakes.simulated_time")
HEAD = """
import pytest
from fakes.simulated_time import spend
def call(): spend(300)
tight = pytest.mark.hwbudget(latency_p50_ms=1e-9)
"""
BY_NAME = 'request.getfixturevalue("hwperf")'
METHODS = """
    @pytest.fixture(autouse=True)
    def own(self, hwperf): self.measure = hwperf
    @tight
    def test_it(self): self.measure(call)
"""
SAID = "the fixture hwperf was asked for by name (request.getfixturevalue), when this test had been collected as one "


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=HEAD + text)
    return pytester.runpytest_inprocess(*QUICK, *options)


@pytest.mark.parametrize("budget", ["", "@tight\n"])
@pytest.mark.parametrize(
    "text",
    [
        f"def test_it(request): {BY_NAME}(call)",
        f"@pytest.fixture\ndef own(request): return {BY_NAME}\n{{}}def test_it(own): own(call)",
        f"@pytest.fixture(autouse=True)\ndef own(request): {BY_NAME}(call)\n{{}}def test_it(): spend(300)",
        f"class TestIt:\n    def test_it(self, request): {BY_NAME}(call)",
    ],
    ids=["body", "own fixture", "autouse", "class"],
)
def test_what_nothing_would_judge_fails_at_once(pytester: pytest.Pytester, text: str, budget: str) -> None:
    """With a budget, whose test is measured as a whole, and without one, whose test no one knows as measured."""
    text = text.format(budget) if "{}" in text else budget + text
    result = run(pytester, text)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    assert 1 == sum(result.parseoutcomes().get(name, 0) for name in ("failed", "errors"))
    result.stdout.fnmatch_lines([f'test_it.py:*: {SAID.replace("[", "[[]")}*usefixtures("hwperf")'])
    assert "pytest_hwperf/" not in result.stdout.str()


@pytest.mark.parametrize(
    "text",
    [
        f'@tight\n@pytest.mark.usefixtures("hwperf")\ndef test_it(request): {BY_NAME}(call)',
        "@pytest.fixture\ndef own(hwperf): return hwperf\n@tight\ndef test_it(own): own(call)",
        "@pytest.fixture\ndef own(hwperf): hwperf(call)\n@tight\ndef test_it(own): pass",
        '@pytest.fixture\ndef own(hwperf): hwperf(call)\n@tight\n@pytest.mark.usefixtures("own")\ndef test_it(): pass',
        "@pytest.fixture(autouse=True)\ndef own(hwperf): hwperf(call)\n@tight\ndef test_it(): pass",
        f"@tight\ndef test_it(hwperf, request): {BY_NAME}(call)",
        f"class TestIt:\n{METHODS}",
        f"import unittest\nclass TestIt(unittest.TestCase):\n{METHODS}",
    ],
    ids=["usefixtures", "own", "own measures", "own by usefixtures", "autouse", "both", "class", "unittest"],
)
def test_what_collection_sees_is_judged(pytester: pytest.Pytester, text: str) -> None:
    result = run(pytester, text)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["latency p50 *, limit 0.001 ns; *"])


@pytest.mark.parametrize("use", [f"def wide(request): return {BY_NAME}", "def wide(hwperf): return hwperf"])
@pytest.mark.parametrize("scope", ["class", "module", "package", "session"])
def test_a_fixture_of_several_tests_cannot_have_it(pytester: pytest.Pytester, scope: str, use: str) -> None:
    """Pytest itself refuses it: a measurement belongs to one test."""
    result = run(pytester, f"@pytest.fixture(scope={scope!r})\n{use}\ndef test_it(wide): wide(call)")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ScopeMismatch: *hwperf*"])


@pytest.mark.parametrize(
    "use", ["(call)", '.record("rouge", 1.0, better="higher")', '.compare({"a": "a.onnx", "b": "b.onnx"}, [])']
)
def test_what_is_measured_when_a_test_is_over_is_refused(pytester: pytest.Pytester, use: str) -> None:
    """In the end of a fixture, and in another test."""
    result = run(
        pytester,
        f"kept = []\n@pytest.fixture\ndef late(hwperf):\n    yield\n    hwperf{use}\n"
        "def test_late(late): pass\n"
        "def test_keeping(hwperf): kept.append(hwperf)\n"
        f"def test_taking(): kept[0]{use}\n",
    )
    result.assert_outcomes(passed=2, failed=1, errors=1)
    for test in ("late", "keeping"):
        result.stdout.fnmatch_lines([f"E *: the fixture hwperf of test_it.py::test_{test} was used when that test*"])


def test_where_nothing_is_measured_nothing_is_refused(pytester: pytest.Pytester) -> None:
    text = (
        f"@pytest.fixture\ndef late(hwperf):\n    yield\n    hwperf(call)\n"
        f"def test_late(late): pass\ndef test_it(request): {BY_NAME}(call)"
    )
    run(pytester, text, "--hwperf-disable").assert_outcomes(passed=2)


def test_a_scenario_asked_for_by_name_says_what_to_write(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "@pytest.fixture\ndef hwperf_model(): return 1\n@pytest.fixture\ndef hwperf_data(): return [[1]], [1]\n"
        'def test_it(request): request.getfixturevalue("scenario")',
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the fixture scenario was asked for by name, where pytest has none to give: *"])
