"""Start a fresh process of this user's pytest or of a model worker, and end it with everything it has started."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.core.records import replace
from pytest_hwperf.host import guard
from pytest_hwperf.host.command_line import Command
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerTask, encode

_LOG_TAIL = 12  # lines of a failed worker's log that its error quotes
_LAST_WORK_S = 60.0  # to end its own processes and remove its own tree
_LOG_BYTES = 1 << 16  # of which these are taken: a process may write without end


@dataclass(slots=True, kw_only=True)
class Launched:
    """A running process; whoever launched it calls `end`."""

    process: subprocess.Popen[bytes]
    log: Path
    guard: subprocess.Popen[bytes] | None = None  # which ends the process if this one is killed

    def end(self) -> None:
        """Kill the whole process group: a child of the test may outlive its worker."""
        with uninterrupted():
            if os.name == "posix":
                with suppress(ProcessLookupError):  # the group has ended by itself, which is the usual case
                    os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
            self.process.wait()
            if self.guard is not None:
                self.guard.kill()
                self.guard.communicate()

    def log_tail(self) -> str:
        """Return the last lines of its output, for an error."""
        with self.log.open("rb") as log:
            log.seek(max(log.seek(0, os.SEEK_END) - _LOG_BYTES, 0))
            lines = log.read().decode("utf-8", errors="replace").splitlines()
        return "\n".join(["The end of its log:", *(f"  {line}" for line in lines[-_LOG_TAIL:])])


def launch(
    command: Command,
    task: WorkerTask,
    place: Path,
    environment: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
) -> Launched:
    """Start a process that carries out `task`.

    Args:
        command: how it is started.
        task: its role; the model of the command is added.
        place: an empty folder, for its log, cache and temporary files.
        environment: variables beside those of the command.
        descriptors: of this process, that it inherits.

    Raises:
        WorkerError: it cannot be started.
    """
    given = {**command.environment, **(environment or {}), ENVIRONMENT: encode(replace(task, model=command.model))}
    with uninterrupted(), (place / "log").open("wb") as log:  # never a pipe, which would block when it is full
        try:
            process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this and the user's own arguments
                command.line(place),
                cwd=command.directory,
                env=given,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=descriptors,
                start_new_session=os.name == "posix",
            )
        except OSError as error:
            raise WorkerError(f"{command.interpreter} cannot be started in {command.directory}: {error}") from error
        return guarded(Launched(process=process, log=place / "log"))


def run_to_end(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program of this Python that ends by itself, and tidies up itself where it is asked to end before.

    Raises:
        WorkerError: it cannot be started.
    """
    command = [sys.executable, *arguments]
    with ExitStack() as stack:
        with uninterrupted():
            process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this and the user's own arguments
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=os.name == "posix",
            )
            stack.callback(guarded(Launched(process=process, log=Path(os.devnull))).end)
        try:
            output, errors = process.communicate()
        except BaseException:
            with uninterrupted(), suppress(subprocess.TimeoutExpired):
                process.terminate()
                process.communicate(timeout=_LAST_WORK_S)
            raise
    texts = (output.decode(errors="replace"), errors.decode(errors="replace"))
    return subprocess.CompletedProcess(command, process.returncode, *texts)


def guarded(launched: Launched) -> Launched:
    """Start the guard of a process that leads a group; without POSIX it has none.

    Raises:
        WorkerError: it cannot be started; the process has been ended.
    """
    if os.name == "posix":
        try:
            launched.guard = _guard(launched.process.pid)
        except OSError as error:
            launched.end()
            raise WorkerError(f"no guard of a fresh process can be started: {error}") from error
    return launched


def _guard(group: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), str(group)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
