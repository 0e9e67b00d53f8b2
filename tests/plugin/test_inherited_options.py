"""The command line of fresh processes: nothing in it stops them, whatever this session has switched off."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_hwperf.plugin.session.command import command_for, drop, pytest_command


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


def test_every_process_is_given_the_seed_that_a_plugin_has_drawn(pytester: pytest.Pytester) -> None:
    """pytest-randomly draws one when it is configured: each process of a pair would draw other data.

    The seed of another session, or of an option that draws nothing, is not given; an interpreter that lacks the plugin
    does not know the option.
    """
    pytester.makepyfile(
        drawing="""
        import pytest
        def pytest_addoption(parser):
            parser.addoption("--drawing-seed", default="default")
            parser.addoption("--other-seed", default=5)
        def pytest_configure(config):
            drawn = config.option.drawing_seed == "default"
            config.option.drawing_seed = 1234 if drawn else int(config.option.drawing_seed)
        """
    )
    pytester.syspathinsert()
    file = pytester.makepyfile("def test_it(): pass")
    config = pytester.parseconfigure("-pdrawing", "--hwperf-only")
    command = pytest_command(config)
    assert {"drawing": "--drawing-seed=1234"} == {
        name: option for name, option in command.of_plugins.items() if "seed" in option
    }
    assert "--drawing-seed=1234" in command.for_file(file).arguments
    assert "--drawing-seed=1234" not in command.neutral_with({"xdist"})


@pytest.mark.parametrize("given", [(), ("--randomly-seed=last",), ("-prandomly", "--randomly-seed=7")])
def test_a_seed_that_was_given_is_not_replaced(given: tuple[str, ...], pytester: pytest.Pytester) -> None:
    """The resolved one stands last in the command, so that `last` means the same seed everywhere."""
    pytester.makepyfile(
        randomly="""
        def pytest_addoption(parser):
            parser.addoption("--randomly-seed", default="default")
        def pytest_configure(config):
            config.option.randomly_seed = {"default": 11, "last": 22}.get(config.option.randomly_seed, 7)
        """
    )
    pytester.syspathinsert()
    config = pytester.parseconfigure("-prandomly", "--hwperf-only", *given)
    arguments = pytest_command(config).for_file(pytester.makepyfile("")).arguments
    seeds = [word for word in arguments if word.startswith("--randomly-seed=")]
    assert f"--randomly-seed={({0: 11, 1: 22, 2: 7})[len(given)]}" == seeds[-1]


def test_the_process_of_a_test_is_given_the_models_of_this_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sides of a gate are not: each has models of its own."""
    item: Any = SimpleNamespace(config=pytester.parseconfigure("--hwperf-only"), path=pytester.makepyfile(""))
    given = {"HWPERF_SESSION_MODELS": "/models"}
    monkeypatch.setattr("pytest_hwperf.runtimes.cache.session_variables", lambda: given)
    assert given.items() <= command_for(item).environment.items()
    assert not given.keys() & pytest_command(item.config).environment.keys()


def test_other_plugins_selections_are_made_once() -> None:
    """A process of a pair runs the tests that were selected, and selects none of them again."""
    testmon = ["--testmon", "--testmon-forceselect", "--testmon-env", "x"]
    split = ["--splits", "4", "--group=1", "--splitting-algorithm", "least_duration", "--durations-path=times"]
    given = ["-ra", *testmon, *split, "--store-durations", "--hwperf-affected", "-s"]
    assert ["-ra", "-s"] == drop(given, tests=())
