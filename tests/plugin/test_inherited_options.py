"""The command line of fresh processes: nothing in it stops them, whatever this session has switched off."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.plugin.command import command_for, drop, pytest_command


def test_strict_settings_take_it_without_a_plugin_of_pytest(pytester: pytest.Pytester) -> None:
    """An option of a plugin that is switched off is unknown, and `--strict-config` ends the process before a test."""
    switches = [*("-pno:cacheprovider", "-pno:logging", "-pno:junitxml"), "--strict-config"]
    file = pytester.makepyfile("def test_it(): pass")
    config = pytester.parseconfigure(*switches, "--hwperf-only")
    interpreter, module, pytest_, *line = pytest_command(config).for_file(file).line(pytester.path)
    result = pytester.runpytest_inprocess(*line, *switches)
    assert ("-m", "pytest") == (module, pytest_)
    assert interpreter
    assert pytest.ExitCode.OK == result.ret, result.stderr.str()
    result.assert_outcomes(passed=1)


def test_the_process_of_a_test_is_given_the_models_of_this_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sides of a gate are not: each has models of its own."""
    item: Any = SimpleNamespace(config=pytester.parseconfigure("--hwperf-only"), path=pytester.makepyfile(""))
    given = {"HWPERF_SESSION_MODELS": "/models"}
    monkeypatch.setattr("pytest_hwperf.scenarios.cache.session_variables", lambda: given)
    assert given.items() <= command_for(item).environment.items()
    assert not given.keys() & pytest_command(item.config).environment.keys()


def test_other_plugins_selections_are_made_once() -> None:
    """A process of a pair runs the tests that were selected, and selects none of them again."""
    testmon = ["--testmon", "--testmon-forceselect", "--testmon-env", "x"]
    split = ["--splits", "4", "--group=1", "--splitting-algorithm", "least_duration", "--durations-path=times"]
    given = ["-ra", *testmon, *split, "--store-durations", "--hwperf-affected", "-s"]
    assert ["-ra", "-s"] == drop(given, tests=())
