"""Pairs of real processes: side by side, and one that is lost whose sides were forked from one parent."""

import shutil
import signal
from pathlib import Path

import pytest
from fakes.reruns import INI, WORK, repository

from pytest_hwperf.host.machine import count_usable_cores

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("quick_pairs", "fakes_in_reach"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

SLOWER = WORK.replace("300", "600")


KILLED = """
import os, signal
import work

def test_a(hwperf):
    with os.popen("echo x >> {folder}/begun; wc -l < {folder}/begun") as counted:
        begun = int(counted.read())
    if begun > 6 and os.system("mkdir {folder}/killed 2> /dev/null") == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    hwperf(work.call)
"""


@pytest.mark.skipif(count_usable_cores() < 2, reason="pairs side by side need a processor each")
def test_pairs_side_by_side_find_what_got_slower_and_one_that_is_lost_is_repeated(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    """One side is killed, as where memory is short."""
    project = repository(
        pytester, {"work.py": WORK, "pytest.ini": INI, "test_a.py": KILLED.replace("{folder}", str(tmp_path))}
    )
    project.write({"work.py": SLOWER})
    result = project.run("--hwperf-parallel=2")

    result.assert_outcomes(failed=1)
    assert 2 == project.gate().at_once
    assert (tmp_path / "killed").is_dir()
    (lost,) = [pair for pair in project.gate().evidence.pairs if pair.lost]
    assert f"ended with code {-signal.SIGKILL}" in str(lost.lost)
    assert "regressed" == project.compared("test_a").outcome
