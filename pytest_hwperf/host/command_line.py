"""The command line of a worker process: this user's pytest again, or the module that runs a model."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_hwperf.host.worker_protocol import ModelSpec

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
    of_plugins: Mapping[str, str]  # plugin of this session → the option that keeps it from doing so
    root: Path  # pytest's rootdir
    inipath: Path | None
    directory: Path  # in which pytest was started
    environment: Mapping[str, str]
    keeps_cache: bool = True  # whether pytest's cache plugin is on
    deadline_s: float = LONGEST_SILENCE_S  # a process that is silent for longer hangs

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
