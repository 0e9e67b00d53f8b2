"""The user's repository after each command that works on it: as it was, and nobody was asked for what it lacks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import instant_pairs, simulated_time
from fakes.repositories import commit, git, repository_with
from fakes.reruns import INI, REHEARSED, SIMULATED, WORK

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("fakes_in_reach", "temporary")]

PRIVATE = "ssh://git@private.example/models.git"
TEST = """
import pathlib
import work


def test_call(hwperf):
    assert pathlib.Path("vendored/weights").read_text() == "1"
    hwperf(work.call)
"""
QUICKLY = (*SIMULATED, REHEARSED, "--hwperf-energy=off", "--hwperf-sample-time=0.2", "--hwperf-explain=never")
ALONE = "import work\n\n\ndef test_alone(hwperf):\n    hwperf(work.call)\n"  # on hosts all submodules stay empty
MISSING = "hwperf: submodules of the baseline are missing: private: your tree has not filled it either: git submodule "
# What is typed behind `python -m`, the exit code, and what is shown. A bisection that searches nothing ends with 1.
COMMANDS: dict[str, tuple[list[str], int, *tuple[str, ...]]] = {
    "gate": (
        ["pytest", "test_call.py", "--hwperf-against=HEAD~1", *QUICKLY],
        0,
        MISSING,
        "1 of 1 tests compared",
        "1 passed",
    ),
    "bisect": (["pytest_hwperf.cli", "bisect", "HEAD~1", "HEAD", "--", "test_call.py", *QUICKLY], 1, "no regression"),
    "fleet": (
        ["pytest_hwperf.cli", "fleet", "--no-install", "--", "test_alone.py", "--hwperf-against=HEAD~1", *QUICKLY],
        0,
        "1 equivalent",
    ),
    "doctor": (["pytest_hwperf.cli", "doctor", "--seconds=0"], 0, "What makes timings noisy"),
}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that exists as soon as git has asked a host, by a stand-in for ssh."""
    program, found = tmp_path / "ssh", tmp_path / "asked"
    program.write_text(f"#!/bin/sh\necho \"$*\" >> '{found}'\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two commits with a submodule that is filled, and one on a private host that never was.

    The plugins lie in it too: a host of the fleet looks for them nowhere else.
    """
    place = tmp_path_factory.mktemp("user")
    inner = repository_with(place / "inner", weights="1")
    found = repository_with(
        place / "project",
        work__py=WORK,
        pytest__ini=INI,
        test_call__py=TEST,
        test_alone__py=ALONE,
        __gitignore="__pycache__\n",
    )
    (found / "fakes").mkdir()
    for module in (simulated_time, instant_pairs):
        shutil.copy(str(module.__file__), found / "fakes")
    for path in ("vendored", "private"):
        git(found, "submodule", "add", str(inner), path)
    git(found, "config", "--file", ".gitmodules", "submodule.private.url", PRIVATE)
    commit(found)
    git(found, "submodule", "deinit", "--force", "private")
    commit(found, notes="nothing")
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_changes_the_settings_of_the_repository_or_asks_a_host(
    project: Path, asked: Path, command: str
) -> None:
    """A test reads the submodule that is filled, on both sides; the other one stays empty."""
    before = (project / ".git" / "config").read_bytes()
    dropped = ("PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    typed, ended, *shown = COMMANDS[command]
    done = subprocess.run(
        [sys.executable, "-m", *typed], cwd=project, env=kept, check=False, capture_output=True, text=True
    )
    assert before == (project / ".git" / "config").read_bytes()
    assert not asked.exists()
    assert [] == [text for text in shown if text not in done.stdout], f"{done.stdout}{done.stderr}"
    assert ended == done.returncode
    assert "Traceback" not in done.stderr
