"""The user's repository after each command that works on it: as it was, and nobody was asked for what it lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
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
COMMANDS = {
    "gate": ["pytest", "--hwperf-against=HEAD~1", *QUICKLY],
    "bisect": ["pytest_hwperf.cli", "bisect", "HEAD~1", "HEAD", "--", "test_call.py", *QUICKLY],
    "fleet": ["pytest_hwperf.cli", "fleet", "--no-install", "--", "--hwperf-against=HEAD~1", *QUICKLY],
    "doctor": ["pytest_hwperf.cli", "doctor", "--seconds=0"],
}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that exists as soon as git has asked a host, by a stand-in for ssh."""
    program, found = tmp_path / "ssh", tmp_path / "asked"
    program.write_text(f"#!/bin/sh\necho \"$*\" >> '{found}'\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two commits with a submodule that is filled, and one on a private host that never was."""
    inner = repository_with(tmp_path / "inner", weights="1")
    found = repository_with(
        tmp_path / "project", work__py=WORK, pytest__ini=INI, test_call__py=TEST, __gitignore="__pycache__\n"
    )
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
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [sys.executable, "-m", *COMMANDS[command]], cwd=project, env=kept, check=False, capture_output=True, text=True
    )
    assert before == (project / ".git" / "config").read_bytes()
    assert not asked.exists()
    assert "Traceback" not in done.stderr
    if command == "gate":
        missing = "private: your tree has not filled it either: git submodule update --init private"
        assert f"hwperf: submodules of the baseline are missing: {missing}" in done.stdout
        assert "1 passed" in done.stdout
        assert "no baseline" not in done.stdout
