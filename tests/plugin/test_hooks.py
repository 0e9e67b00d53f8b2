"""The hooks that measure are loaded when they are needed, however late that turns out."""

import re
import sys
from collections import Counter
from types import FrameType

import pytest


@pytest.mark.parametrize("name", ["memory_meter", "energy_meter"])
def test_a_fixture_can_be_asked_for_by_name(pytester: pytest.Pytester, name: str) -> None:
    """Collection saw no use of the plugin."""
    pytester.makepyfile(f"def test_it(request):\n    with request.getfixturevalue({name!r}).window(): pass\n")
    pytester.runpytest_inprocess("--hwperf-energy=off").assert_outcomes(passed=1)


def test_a_session_in_which_no_test_has_called_its_fixture_says_so(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(hwperf):\n    pass\n")
    pytester.runpytest_inprocess().stdout.fnmatch_lines(["*= hwperf =*", "nothing was measured: tests measure by*"])


def test_a_report_names_a_test_that_failed_without_a_verdict(pytester: pytest.Pytester) -> None:
    """Else it would say that all is well, and so would the comment on a pull request."""
    pytester.makepyfile(
        "from fakes.simulated_time import spend\nimport pytest\n"
        "@pytest.mark.hwbudget(latency_p50_ms=9)\ndef test_kept(hwperf): hwperf(spend, 1000)\n"
        "@pytest.mark.hwbudget(latency_p50_ms=9)\ndef test_wrong(hwperf):\n    hwperf(spend, 1000)\n    assert 1 == 2\n"
    )
    options = ("-pfakes.simulated_time", "--hwperf-energy=off", "--hwperf-sample-time=0.05")
    result = pytester.runpytest_inprocess(*options, "--hwperf-report=report.md")
    result.assert_outcomes(passed=1, failed=1)
    text = (pytester.path / "report.md").read_text(encoding="utf-8")
    assert "<!-- state: bad -->" in text
    assert re.search("❌ 1 test failed without a verdict .*::test&#95;wrong", text)


def test_a_session_that_measures_nothing_says_that_it_wrote_no_report(pytester: pytest.Pytester) -> None:
    """An old one stays, and would be taken for that of this session; listing the tests is no run."""
    pytester.makepyfile("def test_it(): pass\n")
    report = pytester.path / "report.json"
    report.write_text("old", encoding="utf-8")
    for options, said in (
        (["--hwperf-save"], "nothing was saved or compared, and no report was written"),
        ([], "no report was written"),
        (["--collect-only"], ""),
    ):
        result = pytester.runpytest_inprocess("--hwperf-report=report.json", *options)
        assert pytest.ExitCode.OK == result.ret
        told = [line for line in result.outlines if line.startswith("hwperf: nothing was measured")]
        assert ([f"hwperf: nothing was measured: {said}"] if said else []) == told
        assert report.read_text(encoding="utf-8") == "old"


def functions_called(pytester: pytest.Pytester, tests: int, *options: str) -> Counter[str]:
    """Run tests that nothing measures; count the Python functions that were called, ours by their place.

    Other packages than the plugin work once a session, the longer the more modules are loaded.
    """
    pytester.makepyfile(test_it="".join(f"def test_{number}(): pass\n" for number in range(tests)))
    called, before = Counter[str](), sys.getprofile()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            name = str(frame.f_globals.get("__name__"))
            called["ours" if name.startswith("pytest_hwperf.plugin") else frame.f_code.co_name] += 1

    sys.setprofile(note)
    try:
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)
    finally:
        sys.setprofile(before)
    result.assert_outcomes(passed=tests)
    return called


def test_an_unmeasured_test_costs_one_look_at_its_fixtures_and_markers(pytester: pytest.Pytester) -> None:
    """No hook of ours is called while tests run: a test costs two calls, and its parents are looked at once."""
    few, many = functions_called(pytester, 10), functions_called(pytester, 60)
    without = functions_called(pytester, 60, "-p", "no:pytest_hwperf.plugin")
    assert 2 * 50 == many["ours"] - few["ours"]
    assert many["iter_markers"] == without["iter_markers"]
    assert 0 == without["ours"]
