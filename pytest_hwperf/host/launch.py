"""Start a fresh process of this user's pytest or of a model worker, and end it with everything it has started."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.core.records import replace
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, ModelSpec, WorkerTask, encode

LONGEST_SILENCE_S = 300.0  # unless the user gives another: fixtures train models

_LOG_TAIL = 12  # lines of a failed worker's log that its error quotes
_OF_COVERAGE = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")  # coverage follows into whoever inherits them


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How to start this user's pytest again."""

    arguments: Sequence[str]  # after `python -m`: "pytest" and its arguments, unless `module` says otherwise
    directory: Path
    environment: Mapping[str, str]
    deadline_s: float = LONGEST_SILENCE_S  # a process that is silent for longer hangs
    interpreter: str = field(default=sys.executable)
    module: str = "pytest"
    model: ModelSpec | None = None  # what that module measures, where it is no pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class PytestCommand:
    """This user's pytest command, in the parts of which those of fresh processes are made."""

    inherited: Sequence[str]  # options of the user's command line, without its tests and what a worker must not do
    neutral: Sequence[str]  # options that keep plugins from disturbing a worker, or its files
    root: Path  # pytest's rootdir
    inipath: Path | None
    directory: Path  # in which pytest was started
    environment: Mapping[str, str]
    deadline_s: float = LONGEST_SILENCE_S  # a process that is silent for longer hangs

    def for_file(self, path: Path) -> Command:
        """Return the command that runs the tests of one file."""
        ini = [] if self.inipath is None else ["-c", str(self.inipath)]
        return Command(
            arguments=[*self.inherited, str(path), f"--rootdir={self.root}", *ini, *self.neutral],
            directory=self.directory,
            environment=self.environment,
            deadline_s=self.deadline_s,
        )


def untraced(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that coverage does not follow into: a traced call takes many times as long.

    With `patch = subprocess` it does so without any option of pytest-cov.
    """
    return {name: value for name, value in environment.items() if name not in _OF_COVERAGE}


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
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
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
    arguments = [*command.arguments]
    if command.module == "pytest":  # the asking session's own cache and temporary folders must not be cleared under it
        arguments += ["-o", f"cache_dir={place / 'cache'}", f"--basetemp={place / 'tmp'}"]
    with (place / "log").open("wb") as log:  # never a pipe, which would block when it is full
        try:
            process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this and the user's own arguments
                [command.interpreter, "-m", command.module, *arguments],
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
