"""The baseline's own interpreter: where it is, and which pytest plugins it has."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_QUESTION = "from importlib.metadata import entry_points; print(*(one.name for one in entry_points(group='pytest11')))"
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter in an environment of its own."""

    path: str  # absolute, since it is started elsewhere; a venv's python is a link, and has to stay one
    plugins: frozenset[str] | None = None  # of pytest, by their names; None: it did not say


def interpreter_at(path: Path) -> Interpreter:
    """Ask an interpreter for its plugins; why it cannot be asked is said when it is started for the pairs."""
    command = [str(path), "-P", "-c", _QUESTION]
    try:
        answer = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_LONGEST_S
        )
    except (OSError, subprocess.SubprocessError):
        return Interpreter(path=str(path))
    return Interpreter(path=str(path), plugins=frozenset(answer.stdout.decode("utf-8", errors="replace").split()))
