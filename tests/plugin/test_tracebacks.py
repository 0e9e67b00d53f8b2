"""What a measured call raises is shown as the user's: their line, their frames, none of this package."""

import re

import pytest

QUICK = ("--hwperf-sample-time=0.05", "--hwperf-energy=off")


RAISING = {
    "hwperf(broken, 1)": "ValueError: out of range",
    "hwperf(broken, (1, 2), batch_size=1)": "ValueError: out of range",
    "hwperf(int, 'x')": "ValueError: invalid literal",
    "hwperf(lambda: pytest.fail('too bad'))": "Failed: too bad",
    "hwperf(later)": "ValueError: the tenth",
}
FUNCTIONS = """
import pytest

calls = []

def broken(rows):
    raise ValueError("out of range")

def later():
    calls.append(1)
    if len(calls) == 10:
        raise ValueError("the tenth")
"""


def test_a_raising_callable_shows_no_frame_of_this_package(pytester: pytest.Pytester) -> None:
    tests = "".join(f"\ndef test_{n}(hwperf):\n    {call}\n" for n, call in enumerate(RAISING))
    pytester.makepyfile(FUNCTIONS + tests)
    result = pytester.runpytest_inprocess(*QUICK)
    text, lines = result.stdout.str(), result.outlines
    result.assert_outcomes(failed=len(RAISING))
    assert [] == [call for call in RAISING if not any(one.startswith(">") and one.endswith(call) for one in lines)]
    said = [one.removeprefix("E").strip() for one in lines if re.match("E +(ValueError|Failed): ", one)]
    assert [] == [why for why, one in zip(RAISING.values(), said, strict=True) if not one.startswith(why)]
    assert "pytest_hwperf/" not in text
    assert "hwperf.py" not in text


def test_a_mistake_of_this_package_keeps_its_frames(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what a report of the mistake needs."""
    monkeypatch.setattr("pytest_hwperf.plugin.measuring.run.samples_of", None)
    pytester.makepyfile("def test_it(hwperf): hwperf(int)")
    result = pytester.runpytest_inprocess(*QUICK)
    result.stdout.fnmatch_lines(["*plugin/measuring/run.py:*"])
