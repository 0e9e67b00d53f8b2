"""The names of tests under pytest-xdist, whose workers append a group to node ids with `--dist=loadgroup`."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.plugin.session.state import node_of

OPTIONS = ("-pfakes.simulated_time", "--hwperf-energy=off", "--hwperf-sample-time=0.05", "--hwperf-save")
# As pytest-xdist does it with pytest 8: pytest 9 keeps node ids from being changed.
GROUPED = """
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport():
    report = yield
    report.nodeid += "@one@two"
    return report
"""
TESTS = """
import pytest
from fakes.simulated_time import spend

@pytest.mark.hwbudget(latency_p50_ms=10000)
@pytest.mark.parametrize("address", ["a@b"])
def test_good(address): spend(100)

@pytest.mark.hwbudget(latency_p50_ms=0.000001)
def test_bad(): spend(100)
"""


def item(name: str, suffix: str, *marks: str) -> Any:
    """Return as much of a test in a file as names it."""
    parent = SimpleNamespace(nodeid="at@home/test_a.py")
    node = f"{parent.nodeid}::{name}{suffix}"
    return SimpleNamespace(
        name=name, parent=parent, nodeid=node, get_closest_marker=lambda one: one if one in marks else None
    )


@pytest.mark.parametrize("name", ["test_a", "test_a[x]", "test_a[x@y]", "test_a[x@g]", "test_a[@g]"])
@pytest.mark.parametrize("suffix", ["", "@g", "@g_h", "@g]", "@x@g", "@a::b"])
def test_a_group_is_no_part_of_a_name(name: str, suffix: str) -> None:
    """Whatever it is called, and whatever a parameter holds."""
    assert f"at@home/test_a.py::{name}" == node_of(item(name, suffix, "xdist_group"))
    assert f"at@home/test_a.py::{name}{suffix}" == node_of(item(name, suffix))


def test_the_runs_of_tests_with_a_group_are_saved(pytester: pytest.Pytester) -> None:
    """Their reports keep it; a failed test stays out of the baseline."""
    pytester.makeconftest(GROUPED)
    pytester.makepyfile(test_a=TESTS)
    result = pytester.runpytest_inprocess(*OPTIONS)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["hwperf: 1 run saved *", "hwperf: 1 run not saved to the baseline: failed*test_bad*"])
