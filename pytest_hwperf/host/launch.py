"""Start a fresh process of this user's pytest or of a model worker, and end it with everything it has started."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pytest_hwperf.host import guard, signals
from pytest_hwperf.host.files import why_full
from pytest_hwperf.host.interruption import uninterrupted
from pytest_hwperf.host.pair_parent import STARTED
from pytest_hwperf.host.worker_protocol import ENVIRONMENT, ModelSpec, WorkerTask, encode
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.run import replace

if sys.platform != "win32":
    import fcntl

LONGEST_SILENCE_S = 300.0  # unless the user gives another: fixtures train models
_OF_COVERAGE = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")  # coverage follows into whoever inherits them


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How to start this user's pytest again."""

    arguments: Sequence[str]  # after `python -m`: "pytest" and its arguments, unless `module` says otherwise
    directory: Path
    environment: Mapping[str, str]
    deadline_s: float = LONGEST_SILENCE_S  # a process that is silent for longer hangs
    interpreter: str = field(default=sys.executable)
    keeps_cache: bool = True  # whether pytest's cache plugin is on: without it, its option is unknown
    module: str = "pytest"
    model: ModelSpec | None = None  # what that module measures, where it is no pytest
    only: Mapping[str, str] = field(default_factory=dict)  # node, label and name of the one measurement of its task
    under: Sequence[str] = ()  # the program that runs the interpreter, with its options: valgrind

    @property
    def safely(self) -> Sequence[str]:
        """Options of the interpreter: its folder may hold a numpy.py that nobody asked for.

        Of pytest, the user says whether the folder is on the path.
        """
        return ["-P"] if self.module != "pytest" or sys.flags.safe_path else []

    def for_module(self, place: Path) -> list[str]:
        """Return the arguments of the module in a process that keeps its own files in the folder `place`."""
        own = []
        if self.module == "pytest":  # the asking session's own cache and temporary folders must not be cleared under it
            cache = ["-o", f"cache_dir={place / 'cache'}"] if self.keeps_cache else []
            own = [*cache, f"--basetemp={place / 'tmp'}"]
        return [*self.arguments, *own]

    def line(self, place: Path) -> list[str]:
        """Return the whole command line of such a process."""
        return [*self.under, self.interpreter, *self.safely, "-m", self.module, *self.for_module(place)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PytestCommand:
    """This user's pytest command, in the parts of which those of fresh processes are made."""

    inherited: Sequence[str]  # options of the user's command line, without its tests and what a worker must not do
    neutral: Sequence[str]  # options that keep pytest from disturbing a worker, or the files of this session
    of_plugins: Mapping[str, str]  # plugin of this session → the option that does so for it
    root: Path  # pytest's rootdir
    inipath: Path | None
    directory: Path  # in which pytest was started
    environment: Mapping[str, str]
    keeps_cache: bool = True  # whether pytest's cache plugin is on
    deadline_s: float = LONGEST_SILENCE_S  # a process that is silent for longer hangs
    path: Sequence[str] = field(default_factory=lambda: tuple(sys.path))  # of imports, when it was started
    since: float = field(default_factory=time.time)  # when that was, in seconds since 1970

    def for_file(self, path: Path) -> Command:
        """Return the command that runs the tests of one file."""
        ini = [] if self.inipath is None else ["-c", str(self.inipath)]
        return Command(
            arguments=[*self.inherited, str(path), f"--rootdir={self.root}", *ini, *self.neutral_with(None)],
            directory=self.directory,
            environment=self.environment,
            keeps_cache=self.keeps_cache,
            deadline_s=self.deadline_s,
        )

    def neutral_with(self, plugins: Collection[str] | None) -> list[str]:
        """Return the neutral options that an interpreter with these plugins takes; None: this one."""
        return [
            *self.neutral,
            *(option for name, option in self.of_plugins.items() if plugins is None or name in plugins),
        ]


def undisturbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process whose calls are compared, without what would follow into it.

    With `patch = subprocess` coverage does so without any option of pytest-cov, and a traced call takes many times as
    long. ONNX Runtime keeps a database of what is used in the user's home, and sends it.
    """
    left = {name: value for name, value in environment.items() if name not in _OF_COVERAGE}
    return {"ORT_DISABLE_TELEMETRY": "1", **left}


_LOG_TAIL = 12  # lines of a failed worker's log that its error quotes
_LAST_WORK_S = 60.0  # to end its own processes and remove its own tree
_LOG_BYTES = 1 << 16  # of which these are taken: a process may write without end


class Running(Protocol):
    """A process, as much of `subprocess.Popen` as pairs use."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


@dataclass(slots=True, kw_only=True)
class Launched:
    """A running process; whoever launched it calls `end`."""

    process: Running
    log: Path
    guard: subprocess.Popen[bytes] | None = None  # which ends the process if this one is killed
    mark: str = ""  # variable in the environment of the process and of all that it starts

    def end(self) -> None:
        """Kill it with all that it has started: a child of the test may outlive its worker, and leave its group."""
        with uninterrupted():
            end_group(self.process)
            self.process.wait()
            signals.let_go(self.process.pid)
            if self.mark:
                guard.end_marked(self.mark)
            if self.guard is not None:
                _end_guard(self.guard)

    def interrupt(self) -> None:
        """Send it what Ctrl-C sends; it may have ended."""
        with suppress(ProcessLookupError):
            signals.send(self.process.pid, signal.SIGINT)

    def log_tail(self) -> str:
        """Return the last lines of its output, for an error; where its folder is full, that is the reason of all."""
        if full := why_full(self.log.parent):
            return full
        with self.log.open("rb") as log:
            log.seek(max(log.seek(0, os.SEEK_END) - _LOG_BYTES, 0))
            lines = log.read().decode("utf-8", errors="replace").splitlines()
        if not lines:
            return "Its log is empty"
        return "\n".join(["The end of its log:", *(f"  {line}" for line in lines[-_LOG_TAIL:])])


def end_group(process: Running, *, at_once: bool = True) -> None:
    """Kill a process with all that it has started, or ask all of them to end, where the system can; it may have ended.

    Windows has no such groups: what a process has started is found as long as the process lives, and is killed.
    """
    if sys.platform != "win32":
        # The group has ended by itself, which is the usual case; macOS refuses one whose end nobody has waited for.
        with suppress(ProcessLookupError, PermissionError):
            signals.send_to_group(process.pid, signals.KILL if at_once else signal.SIGTERM)
        return
    if not signals.is_own(process.pid):
        return
    import psutil

    with suppress(psutil.NoSuchProcess):
        started = psutil.Process(process.pid).children(recursive=True)
        signals.send(process.pid, signals.KILL)
        for one in started:
            with suppress(psutil.NoSuchProcess):
                one.kill()


def interpreter_of(environment: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def is_child_of(parent: int) -> bool:
    """Whether the process that started this one still lives; on Windows its number may be that of another by then."""
    if sys.platform != "win32":
        return os.getppid() == parent
    import psutil

    return bool(psutil.pid_exists(parent))


def hold(pid: int, *, still: bool) -> None:
    """Stop a process, or let it go on; on Windows it never stops. It may have ended."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError):
            signals.send(pid, signal.SIGSTOP if still else signal.SIGCONT)


_FIRST_FREE = 3  # the descriptors before are those of the standard streams


def sockets() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets, to which nobody else can connect: ours, and a process's own.

    The second is to be inherited, and is none of the descriptors that the process uses for its standard streams.
    """
    ours, theirs = socket.socketpair()
    if sys.platform != "win32":  # where a socket is none of these descriptors
        with theirs:
            return ours, socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE))
    return ours, theirs


def inherited(descriptors: Sequence[int]) -> dict[str, Any]:
    """Return how `subprocess.Popen` lets a process have these descriptors, too."""
    if sys.platform != "win32":
        return {"pass_fds": descriptors}
    for one in descriptors:
        os.set_handle_inheritable(one, True)  # noqa: FBT003 - its arguments have no names
    return {"close_fds": not descriptors}


def launch(
    command: Command,
    task: WorkerTask,
    place: Path,
    environment: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
) -> Launched:
    """Start a process that carries out `task`."""
    given = environment_of(command, task, environment or {})
    with uninterrupted():
        return start(command.line(place), place / "log", command.directory, given, **inherited(descriptors))[0]


def environment_of(command: Command, task: WorkerTask, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that carries out `task`: that of its command, with its task."""
    told = encode(replace(task, model=command.model, **command.only))
    return {**command.environment, **more, ENVIRONMENT: told}


def run_to_end(
    arguments: Sequence[str],
    *,
    interpreter: str = sys.executable,
    timeout_s: float | None = None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program of a Python that ends by itself."""
    command, own = [interpreter, *arguments], os.environ if environment is None else environment
    given: dict[str, Any] = {"directory": directory or Path(), "environment": own}
    with started(command, Path(os.devnull), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **given) as (_, process):
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise WorkerError(f"{interpreter} gave no answer within {timeout_s:g} s") from error
        except BaseException:
            if timeout_s is None:
                with uninterrupted(), suppress(subprocess.TimeoutExpired):
                    signals.send(process.pid, signal.SIGTERM)
                    process.communicate(timeout=_LAST_WORK_S)
            raise
    texts = (output.decode(errors="replace"), errors.decode(errors="replace"))
    return subprocess.CompletedProcess(command, process.returncode, *texts)


def run_logged(
    command: Sequence[str], log: Path, *, timeout_s: float, directory: Path, environment: Mapping[str, str]
) -> tuple[int | None, str]:
    """Run a program of the user's to its end, without a shell; it is ended with all it has started.

    Return its code, None where its time was up, and the last lines of its output.
    """
    with started(command, log, directory=directory, environment=environment) as (launched, process):
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        return code, launched.log_tail()


@contextmanager
def started(
    command: Sequence[str], log: Path, *, directory: Path, environment: Mapping[str, str], **given: Any
) -> "Iterator[tuple[Launched, subprocess.Popen[bytes]]]":
    """Run a program beside this one, without a shell; it is ended on exit with all it has started."""
    with ExitStack() as stack:
        with uninterrupted():
            launched, process = start(command, log, directory, environment, **given)
            stack.enter_context(process)  # whose pipes it closes when the process has ended
            stack.callback(launched.end)
        yield launched, process


def start(
    command: Sequence[str], log: Path, directory: Path, environment: Mapping[str, str], **given: Any
) -> "tuple[Launched, subprocess.Popen[bytes]]":
    """Start a process in a group of its own, and its guard before it: this one may be killed at any moment.

    What it writes goes to the end of `log`, as far as `given` says nothing else: a pipe would block when it is full.
    """
    mark = f"{STARTED}{os.urandom(8).hex()}"  # beside the mark of a process that this one was started by
    own, is_guarded = {**environment, mark: "1"}, sys.platform != "win32"
    watching, guarding = None, [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), mark]
    quiet: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with log.open("ab") as output:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, **given}
        try:
            if is_guarded:
                watching = subprocess.Popen(guarding, bufsize=0, cwd="/", start_new_session=True, **quiet)  # noqa: S603 - our own program
                signals.own(watching)
            process = subprocess.Popen(  # noqa: S603 - the interpreter that runs this and the user's own arguments
                command, cwd=directory, env=own, start_new_session=True, **streams
            )
            signals.own(process)
        except OSError as error:
            if watching is None and is_guarded:
                raise WorkerError(f"no guard of a fresh process can be started: {error}") from error
            if watching is not None:
                _end_guard(watching)
            raise WorkerError(f"{command[0]} cannot be started in {directory}: {error}") from error
    if watching is not None and watching.stdin is not None:
        with suppress(BrokenPipeError):  # somebody has killed it
            watching.stdin.write(b"%d" % process.pid)
    return Launched(process=process, log=log, guard=watching, mark=mark), process


def _end_guard(process: "subprocess.Popen[bytes]") -> None:
    signals.send(process.pid, signals.KILL)
    process.communicate()
    signals.let_go(process.pid)
