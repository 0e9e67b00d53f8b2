"""Fresh processes whose launcher dies: none is left, nor what they have started, stopped or not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fakes.processes import ends, left_in

from pytest_hwperf.host import guard, launch
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.worker_protocol import WorkerTask
from pytest_hwperf.records.errors import WorkerError

pytestmark = [pytest.mark.live, pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")]

# It starts one process in its own group, one that leaves it, and one that leaves it as a daemon does, whose parent has
# ended; all would go on for an hour. On other systems than Linux those that leave are not found.
ENDLESS = """
import os, pathlib, subprocess, sys, time

def start(code, **given):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **given)

sleep = "import time; time.sleep(3600)"
daemon = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {sleep!r}]).pid)"
started = [start(sleep).pid]
if sys.platform == "linux":
    started.append(start(sleep, start_new_session=True).pid)
    started.append(int(start(daemon, start_new_session=True).stdout.readline()))
pathlib.Path("children.part").write_text(" ".join(map(str, started)))
pathlib.Path("children.part").rename("children")
time.sleep(3600)
"""
LAUNCHER = """
import json, os, sys, time
from pathlib import Path
from pytest_hwperf.host.launch import Command
from pytest_hwperf.host.launch import launch
from pytest_hwperf.host.worker_protocol import WorkerTask

place = Path(sys.argv[1])
command = Command(arguments=[], directory=place, environment={**os.environ, "PYTHONPATH": str(place)}, module="endless")
launched = launch(command, WorkerTask(role="pair"), place)
while not (place / "children").exists():
    time.sleep(0.01)
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(3600)  # holds all pipes of its parent
started = [launched.guard.pid, launched.process.pid, *map(int, (place / "children").read_text().split())]
if "end" in sys.argv:
    launched.end()
print(json.dumps(started), flush=True)
time.sleep(3600)
"""


def launcher(place: Path, *more: str) -> tuple["subprocess.Popen[str]", list[int]]:
    """Start what launches an endless process; return it and the processes that it is answerable for."""
    (place / "endless.py").write_text(ENDLESS, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(place), *more], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def left_of(processes: list[int]) -> list[int]:
    """Return the places of those that do not end."""
    return [n for n, pid in enumerate(processes) if not ends(pid)]


def absent(place: Path) -> Command:
    return Command(arguments=[], directory=place, environment={}, module="none", interpreter=str(place / "absent"))


def finish(process: "subprocess.Popen[str]") -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize(
    ("number", "state"), [(signal.SIGTERM, "running"), (signal.SIGHUP, "running"), (signal.SIGKILL, "stopped")]
)
def test_a_process_ends_with_its_launcher(tmp_path: Path, number: signal.Signals, state: str) -> None:
    process, started = launcher(tmp_path)
    if state == "stopped":
        os.killpg(started[1], signal.SIGSTOP)
    process.send_signal(number)
    finish(process)
    assert [] == left_of(started)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux")
def test_a_fork_of_the_launcher_keeps_no_process_alive(tmp_path: Path) -> None:
    """It holds the other end of the guard's pipe open."""
    process, started = launcher(tmp_path, "fork")
    process.send_signal(signal.SIGKILL)
    try:
        assert [] == left_of(started)
    finally:
        finish(process)


def test_a_process_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    process, started = launcher(tmp_path, "end")
    try:
        assert [] == left_of(started)
    finally:
        finish(process)


def test_without_a_guard_no_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(WorkerError, match="no guard of a fresh process can be started"):
        launch.launch(absent(tmp_path), WorkerTask(role="pair"), tmp_path)


def test_without_a_process_no_guard_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, real = list["subprocess.Popen[bytes]"](), subprocess.Popen

    def recorded(command: list[str], **given: Any) -> "subprocess.Popen[bytes]":
        started.append(real(command, **given))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", recorded)
    with pytest.raises(WorkerError, match=r"absent cannot be started in .*: \[Errno 2\]"):
        launch.launch(absent(tmp_path), WorkerTask(role="pair"), tmp_path)
    assert [-signal.SIGKILL] == [guard.returncode for guard in started]


@pytest.mark.parametrize("launcher_is", ["gone", "going"])
def test_the_guard_kills_the_whole_group(monkeypatch: pytest.MonkeyPatch, launcher_is: str) -> None:
    """In this process, with a pipe whose other end is closed after the group was told."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    reading, writing = os.pipe()
    with (
        os.fdopen(reading) as stdin,
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True) as process,
    ):
        os.write(writing, b"%d" % process.pid)
        os.close(writing)
        launcher = os.getppid() if launcher_is == "going" else -1
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "argv", ["guard.py", str(launcher), "HWPERF_STARTED_none"])
        try:
            guard.main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    assert -signal.SIGKILL == process.returncode


def shown(place: Path, process: int, environment: bytes, *, size: int, start: int, end: int) -> None:
    """Show a process as `/proc` does; of its fields only those that tell whether it has an environment yet."""
    fields = ["R", *["1"] * 49]
    fields[20], fields[47], fields[48] = str(size), str(start), str(end)
    folder = place / str(process)
    folder.mkdir(exist_ok=True)
    (folder / "stat").write_text(f"{process} (a name) {' '.join(fields)}", encoding="ascii")
    (folder / "environ").write_bytes(environment)


def test_a_process_in_exec_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its old memory and its new environment no mark can be seen: it must not pass for another's."""
    paused = list[float]()

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 1:
            shown(tmp_path, process.pid, b"HWPERF_STARTED_1=1\0", size=1 << 20, start=4096, end=4115)
        elif len(paused) == 2:
            (tmp_path / str(process.pid) / "environ").unlink()

    monkeypatch.setattr(guard, "PROCESSES", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as process:
        shown(tmp_path, process.pid, b"", size=1 << 20, start=0, end=0)
        monkeypatch.setattr(time, "sleep", pause)
        guard.end_marked("HWPERF_STARTED_1")
        monkeypatch.undo()
    assert (-signal.SIGKILL, 2) == (process.returncode, len(paused))


def test_a_process_without_environment_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was started without any, a kernel thread or a zombie."""
    monkeypatch.setattr(guard, "PROCESSES", str(tmp_path))
    waits = list[float]()
    monkeypatch.setattr(time, "sleep", waits.append)
    for size, end in ((1 << 20, 4096), (0, 0)):
        shown(tmp_path, os.getpid(), b"", size=size, start=end, end=end)
        guard.end_marked("HWPERF_STARTED_1")
    assert not waits


# A program that tidies up when it is asked to end, as a run of pytest does, and one that waits for it.
TIDY = """
import pathlib, signal, sys, time

def ended(*_):
    pathlib.Path(sys.argv[1], "tidy").touch()
    sys.exit(1)

signal.signal(signal.SIGTERM, ended)
pathlib.Path(sys.argv[1], "begun").touch()
time.sleep(3600)
"""
WAITING = """
import sys
from pytest_hwperf.host.interruption import interruptible
from pytest_hwperf.host.launch import run_to_end

with interruptible():
    run_to_end(["tidy.py", sys.argv[1]])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_is_waited_for_ends_with_who_waits(tmp_path: Path, number: signal.Signals) -> None:
    """It has the time to tidy up, unless this one itself is killed."""
    (tmp_path / "tidy.py").write_text(TIDY, encoding="utf-8")
    command = [sys.executable, "-c", WAITING, str(tmp_path)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        process.send_signal(number)
    assert [] == left_in(tmp_path)
    assert (number != signal.SIGKILL) == (tmp_path / "tidy").exists()


def test_a_program_that_ends_by_itself_says_how() -> None:
    done = launch.run_to_end(["-c", "import sys; print('out'); print('error', file=sys.stderr); sys.exit(3)"])
    assert (3, "out\n", "error\n") == (done.returncode, done.stdout, done.stderr)
