"""Fresh processes without starting one: the log of one that was lost, and what an interrupted one may still do."""

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest

from pytest_hwperf.host import launch, signals
from pytest_hwperf.host.launch import Command, Launched, run_logged, run_to_end


def test_the_end_of_an_endless_log_is_quoted(tmp_path: Path) -> None:
    """A process may write gigabytes: only the end is read."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 36)
        file.seek(0, 2)
        file.write(b"\n" + b"\n".join(b"line %d" % n for n in range(20)))
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        tail = Launched(process=process, log=log).log_tail()
    assert ["The end of its log:", *(f"  line {n}" for n in range(8, 20))] == tail.splitlines()


class Interrupted:
    """A process that is waited for when Ctrl-C comes."""

    def __init__(self) -> None:
        self.pid = 7
        self.calls: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.append("close")

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        self.calls.append(f"wait {timeout}")
        if len(self.calls) == 1:
            raise KeyboardInterrupt
        raise subprocess.TimeoutExpired("python", timeout or 0.0)

    def end(self) -> None:
        self.calls.append("end")


@pytest.mark.parametrize(
    ("limit_s", "asked"), [(None, ["SIGTERM to 7", "wait 60.0"]), (600.0, [])], ids=["without a limit", "with one"]
)
def test_only_a_program_without_a_limit_has_time_to_tidy_up(
    monkeypatch: pytest.MonkeyPatch, limit_s: float | None, asked: list[str]
) -> None:
    """The other is asked a question; it may be a wrapper whose child would be waited for instead."""
    process = Interrupted()
    monkeypatch.setattr(launch, "start", lambda *_, **__: (process, process))
    monkeypatch.setattr(
        signals, "send", lambda pid, kind: process.calls.append(f"{signal.Signals(kind).name} to {pid}")
    )
    with pytest.raises(KeyboardInterrupt):
        run_to_end([], timeout_s=limit_s)
    assert [f"wait {limit_s}", *asked, "end", "close"] == process.calls


@pytest.mark.live
def test_a_program_that_takes_too_long_is_ended_and_its_log_stays(tmp_path: Path) -> None:
    program, log = "import time; time.sleep(600)", tmp_path / "log"
    ended = run_logged([sys.executable, "-c", program], log, timeout_s=0.01, directory=tmp_path, environment={})
    assert (None, "Its log is empty") == ended
    assert log.is_file()


def test_pytest_is_started_again_with_the_path_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the working directory where the user's own Python was told to leave it out."""
    command = Command(arguments=["t.py"], directory=Path(), environment={})
    for is_safe, shown in ((True, ["-P", "-m"]), (False, ["-m", "pytest"])):
        monkeypatch.setattr(sys, "flags", SimpleNamespace(safe_path=is_safe))
        assert shown == command.line(Path())[1:3]
