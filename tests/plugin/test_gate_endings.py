"""Reruns that are cut off: nothing of them stays behind, whoever ends them and how."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.processes import left_in, processes_in
from fakes.repositories import git, repository_with

pytestmark = pytest.mark.live

# The baseline says where it is, and would then go on for ever.
TESTS = """
import os, pathlib, time
import work


def test_slow(hwperf):
    if "hwperf-base-" in os.getcwd():
        pathlib.Path(os.environ["REACHED"]).touch()
        time.sleep(600)
    hwperf(work.call)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    work = "def call():\n    return sum(range(1000))\n"
    return repository_with(tmp_path / "project", work__py=work, test_work__py=TESTS)


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """A temporary folder of its own, so that what is left can be counted."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def session(project: Path, places: Path, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A run of pytest whose baseline hangs in its rehearsal."""
    environment = {**os.environ, "TMPDIR": str(places), "REACHED": str(tmp_path / "reached")}
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "--hwperf-against=HEAD", "--hwperf-energy=off"],
        cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        for _ in range(600):
            if (tmp_path / "reached").exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        yield process
        process.kill()


def worktrees(project: Path) -> list[str]:
    return [line for line in git(project, "worktree", "list").splitlines() if "hwperf-base-" in line]


def test_an_interrupted_rerun_leaves_nothing_behind(
    session: "subprocess.Popen[str]", project: Path, places: Path
) -> None:
    session.send_signal(signal.SIGTERM)
    output, _ = session.communicate(timeout=30)
    assert session.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in output
    assert [] == processes_in(project, places)  # at once: later they would have ended by themselves
    assert worktrees(project) == []
    assert [] == list(places.glob("hwperf-*"))


@pytest.mark.skipif(sys.platform == "win32", reason="nothing locks a folder there, so that what is left stays")
def test_a_killed_rerun_is_tidied_up_by_the_next(session: "subprocess.Popen[str]", project: Path, places: Path) -> None:
    """Its processes end by themselves; its tree is removed when a tree is made again."""
    session.kill()
    session.wait(30)
    assert [] == left_in(project, places)
    assert len(worktrees(project)) == 1
    (project / "test_work.py").write_text(TESTS.replace("time.sleep(600)", "pass"), encoding="utf-8")
    environment = {**os.environ, "TMPDIR": str(places), "REACHED": os.devnull}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--hwperf-against=HEAD", "--hwperf-energy=off", "--hwperf-time-limit=0.001"],
        cwd=project, env=environment, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "the time of 0.001 s was up" in done.stderr
    assert worktrees(project) == []
    assert [] == list(places.glob("hwperf-*"))
