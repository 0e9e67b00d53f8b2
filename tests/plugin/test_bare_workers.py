"""What a fresh process holds beside the user's code: the standard library, nothing else is measured."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_hwperf.gate.conductor import Conductor
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import WorkerTask

pytestmark = pytest.mark.live

NODE = "test_names.py::test_names"
TEST = """
import json, os, sys


def call():
    names = {name.partition(".")[0] for name in list(sys.modules)} - set(sys.stdlib_module_names)
    with open(os.environ["NOTES"], "a") as notes:
        print(json.dumps(sorted(names)), file=notes)


def test_names(hwperf):
    hwperf(call)


def test_bare():
    call()
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Start pytest with this plugin and no other."""
    (tmp_path / "test_names.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    environment = {**os.environ, "NOTES": str(tmp_path / "notes"), "PYTEST_PLUGINS": ""}
    return Command(
        arguments=["-p", "pytest_hwperf.plugin", "test_names.py"], directory=tmp_path, environment=environment
    )


def held(notes: Path) -> list[set[str]]:
    """Return the third-party modules that were loaded at each call so far, and forget them."""
    found = [set(json.loads(line)) for line in notes.read_text(encoding="ascii").splitlines()]
    notes.unlink()
    return found


def bare(environment: Mapping[str, str], folder: Path) -> set[str]:
    """Return what pytest has loaded without the plugin."""
    command = [sys.executable, "-m", "pytest", "-q", "test_names.py", "-k", "bare"]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    (found,) = held(folder / "notes")
    return found


def test_a_fresh_process_holds_the_plugin_and_what_reads_its_messages(command: Command, tmp_path: Path) -> None:
    """Both of a pair, and those that measure memory, find what grows, and start cold: at every call."""
    without = bare(command.environment, tmp_path)
    conductor = Conductor(commands={"baseline": command, "candidate": command}, seed=7, logs=tmp_path / "logs")
    met = conductor.rehearse([NODE])
    pairs = held(tmp_path / "notes")
    tasks = (WorkerTask(role="memory", node=NODE, growth=False), WorkerTask(role="cold", node=NODE))
    alone = [(ask(task, [command]), held(tmp_path / "notes")) for task in tasks]
    assert met.lost is None
    own = {"pytest_hwperf", "msgspec"}
    without |= {"typing_extensions"}  # msgspec looks for it
    assert [own] * len(pairs) == [found - without for found in pairs]
    for _, calls in alone:
        assert [own] * len(calls) == [found - without for found in calls]
    assert min(len(pairs), *(len(calls) for _, calls in alone)) > 2
