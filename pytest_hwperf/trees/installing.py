"""Packages installed into an environment by pip, without a shell; what went wrong is told with what to type next."""

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol

from pytest_hwperf.core.errors import UsageProblem, WorkerError
from pytest_hwperf.host.launch import run_to_end

_TAIL = 12  # lines of a log
_HINDERING = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
_PIP = ("-P", "-m", "pip")


class RunPython(Protocol):
    """How an interpreter is run to its end."""

    def __call__(
        self,
        arguments: Sequence[str],
        *,
        interpreter: str,
        timeout_s: float,
        directory: Path,
        environment: dict[str, str],
    ) -> CompletedProcess[str]:
        """Run it and return what it has said."""


def has_pip() -> bool:
    """Whether this environment has a pip, which one over it sees too."""
    return importlib.util.find_spec("pip") is not None


def install(
    python: Path,
    what: Sequence[str],
    timeout_s: float,
    run: RunPython = run_to_end,
    sees_pip: Callable[[], bool] = has_pip,
) -> None:
    """Install packages into the environment of `python`."""
    given = {name: value for name, value in os.environ.items() if name not in _HINDERING} | _QUIET
    if not sees_pip():
        _checked(run, python, ["-P", "-m", "ensurepip", "--default-pip"], timeout_s, given)
    _checked(run, python, [*_PIP, "install", "--no-warn-conflicts", *what], timeout_s, given)


def _checked(run: RunPython, python: Path, arguments: Sequence[str], timeout_s: float, given: dict[str, str]) -> None:
    shown = " ".join(["python", *arguments[1:]])
    try:
        done = run(arguments, interpreter=str(python), timeout_s=timeout_s, directory=python.parent, environment=given)
    except WorkerError as error:
        raise UsageProblem(
            f"`{shown}` for the environment of the baseline: {error}; give more time with --hwperf-time-limit=SECONDS"
        ) from error
    if done.returncode:
        lines = [f"  {line}" for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise UsageProblem("\n".join([f"`{shown}` for the environment of the baseline failed:", *lines[-_TAIL:]]))
