"""A worker of this machine outlives what a terminal sends to all; a program over SSH ends with its connection."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_hwperf.fleet import worker_process
from pytest_hwperf.fleet.worker_process import dask_setup, signals_blocked

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STATE = "import signal as s; print(s.SIGINT in s.pthread_sigmask(s.SIG_BLOCK, []), s.getsignal(s.SIGTERM))"


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ALL}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def state_of_a_program() -> str:
    done = subprocess.run([sys.executable, "-c", STATE], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.usefixtures("handlers")
def test_signals_that_come_while_workers_are_started_wait() -> None:
    taken: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
    with signals_blocked():
        signal.raise_signal(signal.SIGINT)
        assert "True 0" == state_of_a_program().replace("Handlers.SIG_DFL", "0")
        assert [] == taken
    assert [signal.SIGINT] == taken


@pytest.mark.usefixtures("handlers")
def test_a_worker_lives_on_and_its_programs_are_as_ever() -> None:
    with signals_blocked():
        dask_setup(None)
        for number in ALL:
            signal.raise_signal(number)
        assert "False 0" == state_of_a_program().replace("Handlers.SIG_DFL", "0")


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of the standard input."""
    here, there = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(here))
    yield there
    sys.stdin.close()


def test_when_its_input_is_closed_it_is_told_and_then_ended(pipe: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: done.append((pid, number)))
    monkeypatch.setattr(worker_process, "sleep", done.append)
    monkeypatch.setattr(os, "_exit", done.append)
    os.write(pipe, b"whatever comes is not looked at")
    os.close(pipe)
    worker_process.end_with(sys.stdin.fileno())
    assert [(os.getpid(), signal.SIGTERM), 20.0, 1] == done


def test_a_module_runs_as_a_program_in_a_folder_that_goes_with_it(
    pipe: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", "")
    monkeypatch.setattr("sys.argv", ["worker_process.py", "-m", "program", "--spec", "x"])
    watched: list[int] = []
    monkeypatch.setattr(worker_process, "end_with", watched.append)
    monkeypatch.syspath_prepend(tmp_path)
    said = tmp_path / "said"
    text = (
        "import os, pathlib, sys\nfolder = os.environ['DASK_TEMPORARY_DIRECTORY']\nlines = [__name__, *sys.argv[1:]]\n"
    )
    text += f"pathlib.Path({str(said)!r}).write_text(' '.join([*lines, folder, str(os.path.isdir(folder))]))\n"
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    worker_process.main()
    os.close(pipe)

    name, option, value, folder, there = said.read_text(encoding="utf-8").split()
    assert ("__main__", "--spec", "x", "True") == (name, option, value, there)
    assert not Path(folder).exists()
    assert [sys.stdin.fileno()] == watched
