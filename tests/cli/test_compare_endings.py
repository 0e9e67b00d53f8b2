"""Comparisons of two models that are cut off: no process and no folder of them stays behind, whoever ends them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fakes.processes import left_in, processes_in

from pytest_hwperf.cli import INTERRUPTED

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")]

# Both sides say that they are at it, start a process of their own, and never give an answer.
MODELS = """
import os, pathlib, subprocess, sys, time


def endless(X):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    pathlib.Path(f"pid-{os.getpid()}").touch()
    time.sleep(3600)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The folder in which all processes work."""
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "models.py").write_text(MODELS, encoding="utf-8")
    np.savez(folder / "data.npz", X=np.ones((4, 2), dtype=np.float32))
    return folder


@pytest.fixture
def comparison(place: Path, temporary: Path) -> Iterator["subprocess.Popen[str]"]:
    """A comparison both of whose sides hang."""
    command = ["compare", "models:endless", "models:endless", "--data", "data.npz"]
    with subprocess.Popen(
        [sys.executable, "-m", "pytest_hwperf.cli", *command],
        cwd=place, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        for _ in range(600):
            if list(place.glob("pid-*")) or process.poll() is not None:
                break
            time.sleep(0.1)
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_comparison_leaves_nothing_behind(
    comparison: "subprocess.Popen[str]", place: Path, temporary: Path, number: signal.Signals
) -> None:
    comparison.send_signal(number)
    output, _ = comparison.communicate(timeout=30)
    assert (INTERRUPTED, ["hwperf: interrupted"]) == (comparison.returncode, output.splitlines()[-1:])
    assert [] == left_in(place)
    assert [] == list(temporary.iterdir())


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_the_sides_of_a_killed_comparison_end(comparison: "subprocess.Popen[str]", place: Path, state: str) -> None:
    """With what they have started; its folder is removed by whoever makes one next."""
    if state == "stopped":
        for side in place.glob("pid-*"):
            os.kill(int(side.name.removeprefix("pid-")), signal.SIGSTOP)
    assert [] != processes_in(place)
    comparison.kill()
    comparison.wait(30)
    assert [] == left_in(place)
