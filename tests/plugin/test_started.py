"""What fresh processes are started with: not what this session's tests and conftest files have changed."""

import pytest

CONFTEST = """
import os, sys, time
os.environ["OWN_OF_CODE"] = "1"
sys.path.insert(0, "/own/of/code")
LOADED = time.time()
"""
TEST = """
from conftest import LOADED
from pytest_hwperf.plugin.session.command import pytest_command

def test_it(hwperf, request):
    command = pytest_command(request.config)
    assert "OWN_OF_CODE" not in command.environment
    assert command.environment["OWN_OF_USER"] == "2"
    assert "/own/of/code" not in command.path
    assert command.since <= LOADED
"""


def test_what_code_sets_while_it_is_loaded_is_no_part_of_the_command(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its variables, its paths and the instant from which files count as made."""
    monkeypatch.setenv("OWN_OF_USER", "2")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TEST)
    result = pytester.runpytest_subprocess("-q", "--hwperf-disable")
    result.assert_outcomes(passed=1)
