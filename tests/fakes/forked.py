"""Scripted workers that are forked: a fresh interpreter takes a third of a second to start, and there are hundreds.

They are processes of their own nevertheless, with sessions, logs and ends of their own.
"""

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from time import monotonic, sleep
from typing import Any, NoReturn, cast

from fakes import scripted_worker

from pytest_hwperf.host import signals
from pytest_hwperf.host.launch import Command, Launched
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerTask, encode
from pytest_hwperf.records.run import replace

_MOST_DESCRIPTORS = 4096


@dataclass
class Forked:
    """As much of `subprocess.Popen` as pairs use."""

    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode if self.returncode is not None else self._ended(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int | None:
        began = monotonic()
        while timeout is not None and self.poll() is None:
            if monotonic() - began > timeout:
                raise TimeoutExpired("a forked worker", timeout)
            sleep(0.01)
        return self.returncode if self.returncode is not None else self._ended(0)

    def _ended(self, how: int) -> int | None:
        pid, status = os.waitpid(self.pid, how)
        if pid:
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


_FORKING = threading.Lock()  # filelock refuses a fork while another thread forks


def launch(
    command: Command,
    task: WorkerTask,
    place: Path,
    environment: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
) -> Launched:
    """Stand for `host.launch.launch` where the command is a scripted worker."""
    given = {**command.environment, **(environment or {}), ENVIRONMENT: encode(replace(task, model=command.model))}
    (script,) = command.arguments
    (place / "log").touch()  # before the process is there, as a real one's is: it may be looked at at once
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, which the child does not use
        with _FORKING:
            pid = os.fork()
    if not pid:
        _work(script, given, place / "log", descriptors)
    with suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)  # as the child does: whoever comes first
    return Launched(process=cast("Any", Forked(signals.own_child(pid))), log=place / "log")


def _work(script: str, environment: Mapping[str, str], log: Path, descriptors: Sequence[int]) -> NoReturn:
    """Be the worker, and end without anything that the parent would do at its end."""
    status = 1
    try:
        sys.settrace(None)
        sys.setprofile(None)
        for ended_by in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ended_by, signal.SIG_DFL)
        with suppress(PermissionError):
            os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for number in (1, 2):
            os.dup2(output, number)
        for number in set(range(3, _MOST_DESCRIPTORS)) - set(descriptors):
            with suppress(OSError):
                os.close(number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["scripted_worker", script]
        scripted_worker.main()
        status = 0
    except SystemExit as end:
        status = 0 if end.code is None else 1
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - the log holds it, as that of a process does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
