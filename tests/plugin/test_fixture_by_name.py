"""Ways to the fixture `hwperf` that no argument of the test shows: judged as any other test, or refused aloud.

Tests are judged, selected and rerun by the fixtures that they are collected with.
"""

import re
from collections.abc import Mapping

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
SAID = (
    r"the fixture hwperf was asked for by name \(request.getfixturevalue\), when this test had been collected as one "
)


def told(pytester: pytest.Pytester, texts: Mapping[str, str], *options: str) -> dict[str, list[str]]:
    """Run a file of each text in one session; return what fails of each, in its words."""
    pytester.makepyfile(**{f"test_{name}": HEAD + text for name, text in texts.items()})
    result = pytester.runpytest_inprocess(*QUICK, *options)
    found = {name: list[str]() for name in texts}
    for one in result.reprec.getreports("pytest_runtest_logreport"):  # type: ignore[attr-defined] # of runs in process
        if one.failed:
            found[one.nodeid.partition(".py")[0].removeprefix("test_")].append(one.longreprtext)
    return found


UNJUDGED = {
    "body": f"{{}}def test_it(request): {BY_NAME}(call)",
    "own": f"@pytest.fixture\ndef own(request): return {BY_NAME}\n{{}}def test_it(own): own(call)",
    "autouse": f"@pytest.fixture(autouse=True)\ndef own(request): {BY_NAME}(call)\n{{}}def test_it(): spend(300)",
    "method": f"{{}}class TestIt:\n    def test_it(self, request): {BY_NAME}(call)",
}


def test_what_nothing_would_judge_fails_at_once(pytester: pytest.Pytester) -> None:
    """With a budget, whose test is measured as a whole, and without one, whose test no one knows as measured."""
    budgets = {"": "", "_budget": "@tight\n"}
    texts = {name + more: text.format(mark) for name, text in UNJUDGED.items() for more, mark in budgets.items()}
    for name, failures in told(pytester, texts).items():
        assert 1 == len(failures), name
        assert re.search(rf'^test_{name}\.py:\d+: {SAID}.*usefixtures\("hwperf"\)$', failures[0], re.MULTILINE), name
        assert "pytest_hwperf/" not in failures[0]


def test_what_collection_sees_is_judged(pytester: pytest.Pytester) -> None:
    own = "@pytest.fixture\ndef own(hwperf): hwperf(call)\n@tight\n"
    texts = {
        "by_mark": f'@tight\n@pytest.mark.usefixtures("hwperf")\ndef test_it(request): {BY_NAME}(call)',
        "own": "@pytest.fixture\ndef own(hwperf): return hwperf\n@tight\ndef test_it(own): own(call)",
        "own_measures": f"{own}def test_it(own): pass",
        "own_by_mark": f'{own}@pytest.mark.usefixtures("own")\ndef test_it(): pass',
        "autouse": "@pytest.fixture(autouse=True)\ndef own(hwperf): hwperf(call)\n@tight\ndef test_it(): pass",
        "both": f"@tight\ndef test_it(hwperf, request): {BY_NAME}(call)",
        "method": f"class TestIt:\n{METHODS}",
        "unittest": f"import unittest\nclass TestIt(unittest.TestCase):\n{METHODS}",
    }
    for name, failures in told(pytester, texts).items():
        assert 1 == len(failures), name
        assert re.match(r"latency p50 .*, limit 0.001 ns; ", failures[0]), name


def test_a_fixture_of_several_tests_cannot_have_it(pytester: pytest.Pytester) -> None:
    """Pytest itself refuses it: a measurement belongs to one test."""
    uses = {"by_name": f"def wide(request): return {BY_NAME}", "argument": "def wide(hwperf): return hwperf"}
    texts = {
        f"{scope}_{name}": f"@pytest.fixture(scope={scope!r})\n{use}\ndef test_it(wide): wide(call)"
        for scope in ("class", "module", "package", "session")
        for name, use in uses.items()
    }
    for name, failures in told(pytester, texts).items():
        assert 1 == len(failures), name
        assert re.search("ScopeMismatch: .*hwperf", failures[0]), name


def test_what_is_measured_when_a_test_is_over_is_refused(pytester: pytest.Pytester) -> None:
    """In the end of a fixture, and in another test."""
    uses = {
        "measured": "(call)",
        "recorded": '.record("rouge", 1.0, better="higher")',
        "compared": '.compare({"a": "a.onnx", "b": "b.onnx"}, [])',
    }
    text = """
kept = []
@pytest.fixture
def late(hwperf):
    yield
    hwperf{0}
def test_late(late): pass
def test_keeping(hwperf): kept.append(hwperf)
def test_taking(): kept[0]{0}
"""
    for name, failures in told(pytester, {name: text.format(use) for name, use in uses.items()}).items():
        late, taking = failures
        for test, failure in (("late", late), ("keeping", taking)):
            assert f"the fixture hwperf of test_{name}.py::test_{test} was used when that test" in failure


def test_where_nothing_is_measured_nothing_is_refused(pytester: pytest.Pytester) -> None:
    text = (
        "@pytest.fixture\ndef late(hwperf):\n    yield\n    hwperf(call)\n"
        f"def test_late(late): pass\ndef test_it(request): {BY_NAME}(call)"
    )
    assert {"it": []} == told(pytester, {"it": text}, "--hwperf-disable")


def test_a_scenario_asked_for_by_name_says_what_to_write(pytester: pytest.Pytester) -> None:
    text = (
        "@pytest.fixture\ndef hwperf_model(): return 1\n@pytest.fixture\ndef hwperf_data(): return [[1]], [1]\n"
        'def test_it(request): request.getfixturevalue("scenario")'
    )
    ((failure,),) = told(pytester, {"it": text}).values()
    assert failure.startswith("the fixture scenario was asked for by name, where pytest has none to give: ")
