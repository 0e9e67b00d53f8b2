"""Kills at random moments: no process and no folder of a run stays behind, and nothing of the user's is touched.

`HWPERF_TEST_KILLS=50 python -m pytest -m live tests/attack/test_kills.py` kills 50 of each kind instead of one. The
moments and the signals differ each time; a failure names its own.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from fakes.processes import left_in
from fakes.repositories import commit, git, repository_with

from pytest_hwperf.checkout.worktree import worktree

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")]

KILLS = range(int(os.environ.get("HWPERF_TEST_KILLS", "1")))
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
LONGEST_S = 90.0  # that a run may go on after one of its processes was killed

# Each side starts processes that would outlive it by an hour; one leaves its group, which ends it on Linux only.
WORK = """
import subprocess, sys


def children():
    for leaves in {False, sys.platform == "linux"}:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=leaves)
    return True


def call():
    return sum(range(1000))


def model(X, started=[]):
    started or started.append(children())
    call()
    return X[:, 0]
"""
TESTS = """
import os
import work


def test_work(hwperf):
    if "PYTHONHASHSEED" in os.environ:  # a side, and not the run itself, whose children are its own matter
        work.children()
    hwperf(work.call)
"""
COMMANDS = {
    "gate": (["pytest", "--hwperf-against=HEAD", "--hwperf-energy=off", "--hwperf-time-limit=3"], 5.0),
    "models": (["pytest_hwperf.cli", "compare", "work:model", "work:model", "--data=data.npz", "--time=3"], 4.0),
}  # arguments, and about how many seconds they take


class User:
    """A user with a repository, uncommitted work, and folders whose names look like those of a run."""

    def __init__(self, place: Path, temporary: Path) -> None:
        self.project = repository_with(place / "project", work__py=WORK, test_work__py=TESTS)
        np.savez(self.project / "data.npz", X=np.ones((4, 2), dtype=np.float32))
        commit(self.project, data__py="")
        (self.project / "test_work.py").write_text(f"{TESTS}\n# changed\n", encoding="utf-8")
        (self.project / "notes.txt").write_text("not committed", encoding="utf-8")
        self.temporary = temporary
        own = temporary / "hwperf-base-mine"
        git(self.project, "worktree", "add", str(own / "work"))
        (own / "work" / "thesis.txt").write_text("years of work", encoding="utf-8")
        self._before = self._state()

    def assert_untouched(self) -> None:
        """Compare with what there was: files, references, work trees, and what git keeps of them."""
        assert self._before == self._state()

    def leftovers(self) -> list[str]:
        """Return what a run has left in the temporary folder; logs of lost pairs are there for the user."""
        return [str(path) for path in self.temporary.glob("hwperf-[!b]*/*") if path.name != "logs"]

    def _state(self) -> Mapping[str, object]:
        folders = [self.project, self.temporary / "hwperf-base-mine"]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {
            "references": git(self.project, "for-each-ref"),
            "status": git(self.project, "status", "--porcelain"),
            "worktrees": git(self.project, "worktree", "list", "--porcelain"),
            **{str(path): path.read_bytes() for path in files if not {".pytest_cache", "index"} & set(path.parts)},
        }


@pytest.fixture
def user(tmp_path: Path, temporary: Path) -> User:
    return User(tmp_path, temporary)


@contextmanager
def running(user: User, kind: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a run in a session of its own; the tests must not be ended with it."""
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONHASHSEED", None)
    with (
        (user.temporary.parent / "output").open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", *COMMANDS[kind][0]],
            cwd=user.project, env=environment, stdout=output, stderr=output, start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("_number", KILLS)
def test_a_run_that_is_killed_leaves_nothing(user: User, kind: str, _number: int) -> None:
    """After SIGKILL the next run removes its folders; after all other signals it does so itself."""
    drawn = random.Random()
    chosen, moment_s = drawn.choice(SIGNALS), drawn.uniform(0, COMMANDS[kind][1])
    with running(user, kind) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment_s)
        process.send_signal(chosen)
        process.wait(LONGEST_S)
    said = f"{chosen.name} after {moment_s:.4f} s: {(user.temporary.parent / 'output').read_text(encoding='utf-8')}"
    assert [] == left_in(user.project, user.temporary), said
    if chosen != signal.SIGKILL:
        assert [] == user.leftovers(), said
    with worktree(user.project, "HEAD"):
        pass
    assert [] == user.leftovers(), said
    user.assert_untouched()


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("_number", KILLS)
def test_a_run_one_of_whose_processes_is_killed_ends_by_itself(user: User, kind: str, _number: int) -> None:
    """Whichever it is: a side, what a side has started, a guard, git."""
    drawn = random.Random()
    moment_s = drawn.uniform(0.5, COMMANDS[kind][1])
    chosen = "none"
    with running(user, kind) as process:
        time.sleep(moment_s)
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children(recursive=True)
            if children:
                victim = drawn.choice(children)
                chosen = " ".join(victim.cmdline())
                victim.kill()
        process.wait(LONGEST_S)
    said = f"{chosen} after {moment_s:.4f} s: {(user.temporary.parent / 'output').read_text(encoding='utf-8')}"
    assert process.returncode in range(5), said
    assert [] == left_in(user.project, user.temporary), said
    assert [] == user.leftovers(), said
    user.assert_untouched()
