"""The asking side with real processes that answer, hang, or are interrupted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from fakes.processes import processes_in

from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import WorkerResult, WorkerTask, encode
from pytest_hwperf.records.errors import WorkerError

pytestmark = pytest.mark.live

TASK = WorkerTask(role="memory", node="test_asked.py::test_it")


def command(folder: Path, source: str, *, deadline_s: float = 60.0) -> Command:
    (folder / "test_asked.py").write_text(source, encoding="utf-8")
    arguments = ["test_asked.py", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_PLUGINS": ""}  # without this one
    return Command(arguments=arguments, directory=folder, environment=environment, deadline_s=deadline_s)


def answering(answer: WorkerResult) -> str:
    """A test that answers as a worker does, without the plugin."""
    return (
        "import json, os, pathlib\n"
        "def test_it():\n"
        "    task = json.loads(os.environ['HWPERF_WORKER'])\n"
        f"    pathlib.Path(task['reply_to']).write_text({encode(answer)!r})\n"
    )


def test_each_process_is_fresh_and_answers(tmp_path: Path) -> None:
    answer = WorkerResult(values={"memory": 5.0}, reasons={}, notes=[], runs=[])
    groups: list[int] = []
    given = [command(tmp_path, answering(answer))] * 3
    found = ask(TASK, given, at_once=2, answered=lambda answers, _seconds: groups.append(answers))
    assert found == [answer] * 3
    assert groups == [2, 3]


def test_a_process_that_hangs_is_ended_at_its_deadline(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"gave no answer within 0\.5 s"):
        ask(TASK, [command(tmp_path, "import time\ntime.sleep(600)", deadline_s=0.5)])
    assert _children_of_this_process() == []


def test_a_process_is_ended_when_the_time_of_all_is_up(tmp_path: Path) -> None:
    """Its own deadline is a minute away; the second process of the group has no time of its own."""
    given = [command(tmp_path, "import time\ntime.sleep(600)")] * 2
    with pytest.raises(WorkerError, match=r"gave no answer within [01](\.\d+)? s"):
        ask(TASK, given, at_once=2, until=time.monotonic() + 1)
    assert _children_of_this_process() == []


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    """The interrupted session ends at once, and takes its fresh processes along."""
    (tmp_path / "test_slow.py").write_text(
        "import os, pathlib, time, pytest\n"
        "if 'MALLOC_MMAP_THRESHOLD_' in os.environ:\n"
        "    pathlib.Path('started').touch()\n"
        "    time.sleep(600)\n"
        "@pytest.mark.hwbudget(memory_max_mb=100)\n"
        "def test_it(): pass\n",
        encoding="utf-8",
    )
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "--hwperf-sample-time=0.3"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as session:  # fmt: skip
        _wait_for(tmp_path / "started", session)
        session.send_signal(signal.SIGINT)
        output, _ = session.communicate(timeout=30)
    assert session.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in output
    assert [] == processes_in(tmp_path)  # at once: later it would have ended by itself


def _wait_for(path: Path, session: "subprocess.Popen[str]") -> None:
    """Wait until the fresh process has begun; bounded, and over at once when the session has ended."""
    for _ in range(600):
        if path.exists() or session.poll() is not None:
            return
        time.sleep(0.1)


def _children_of_this_process() -> list[int]:
    return [child.pid for child in psutil.Process().children(recursive=True) if "test_asked.py" in child.cmdline()]


def test_an_answer_without_end_is_not_read(tmp_path: Path) -> None:
    """The file has a hole, and takes no space."""
    source = (
        "import json, os\n"
        "def test_it():\n"
        "    with open(json.loads(os.environ['HWPERF_WORKER'])['reply_to'], 'wb') as reply:\n"
        "        reply.truncate(1 << 40)\n"
    )
    with pytest.raises(WorkerError, match=r"larger than 268\.435 MB"):
        ask(TASK, [command(tmp_path, source)])
