"""Start a fresh process of this user's pytest or of a model worker, and end it with everything it has started."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.core.records import replace
from pytest_hwperf.host.command_line import Command
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, WorkerTask, encode

_LOG_TAIL = 12  # lines of a failed worker's log that its error quotes
_LOG_BYTES = 1 << 16  # of which these are taken: a process may write without end


@dataclass(slots=True, kw_only=True)
class Launched:
    """A running process; whoever launched it calls `end`."""

    process: subprocess.Popen[bytes]
    log: Path

    def end(self) -> None:
        """Kill the whole process group: a child of the test may outlive its worker."""
        if os.name == "posix":
            with suppress(ProcessLookupError):  # the group has ended by itself, which is the usual case
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()

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
    with (place / "log").open("wb") as log:  # never a pipe, which would block when it is full
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
    return Launched(process=process, log=place / "log")
