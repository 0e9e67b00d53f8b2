"""An interpreter of the baseline's own has plugins of its own."""

import sys
from pathlib import Path

import pytest
from fakes.processes import left_in

from pytest_hwperf.checkout.both import commands
from pytest_hwperf.checkout.layer import Interpreter, with_plugins
from pytest_hwperf.checkout.trees import Trees
from pytest_hwperf.host.launch import PytestCommand

OPTIONS = {"xdist": "-n0", "timeout": "--timeout=0", "pytest_cov": "--no-cov"}


@pytest.mark.parametrize(
    ("interpreter", "theirs"),
    [
        (None, set(OPTIONS.values())),
        (Interpreter(path="/venv/bin/python", plugins=frozenset({"hwperf"})), set()),
        (Interpreter(path="/venv/bin/python", plugins=frozenset({"hwperf", "timeout"})), {"--timeout=0"}),
        (Interpreter(path="/venv/bin/python"), set(OPTIONS.values())),
    ],
    ids=["this one", "bare", "with one of them", "silent"],
)
def test_each_interpreter_gets_options_of_the_plugins_that_it_has(
    tmp_path: Path, interpreter: Interpreter | None, theirs: set[str]
) -> None:
    """An option of a plugin that is not installed is an error of pytest."""
    candidate, baseline = tmp_path / "candidate", tmp_path / "baseline"
    candidate.mkdir()
    baseline.mkdir()
    given = PytestCommand(
        inherited=[],
        neutral=["--maxfail=0"],
        of_plugins=OPTIONS,
        root=candidate,
        inipath=None,
        directory=candidate,
        environment={},
    )
    trees = Trees(candidate=candidate, baseline=baseline)
    sides = commands(given, trees, [], interpreter)
    options = {side: {*OPTIONS.values()} & {*command.arguments} for side, command in sides.items()}
    assert {"candidate": set(OPTIONS.values()), "baseline": theirs} == options
    assert all("--maxfail=0" in command.arguments for command in sides.values())
    assert [sys.executable, "/venv/bin/python" if interpreter else sys.executable] == [
        sides["candidate"].interpreter,
        sides["baseline"].interpreter,
    ]


@pytest.mark.live
def test_an_interpreter_is_asked_for_its_plugins(tmp_path: Path) -> None:
    """One that cannot be started says so when the pairs start it."""
    nothing = tmp_path / "python"
    nothing.write_text("no program")
    found = with_plugins(Interpreter(path=sys.executable), 60).plugins
    assert found is not None
    assert "hwperf" in found
    places = [str(nothing), str(tmp_path / "none")]
    assert [None, None] == [with_plugins(Interpreter(path=place), 60).plugins for place in places]


@pytest.mark.live
@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_an_interpreter_that_hangs_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    """A wrapper, in the time that the build has left."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f"#!/bin/sh\ncd {tmp_path}\nsleep 600\n")
    wrapper.chmod(0o755)
    assert with_plugins(Interpreter(path=str(wrapper)), 0.5).plugins is None
    assert [] == left_in(tmp_path)
