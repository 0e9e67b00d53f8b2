"""The baseline's own interpreter: where it is, and which pytest plugins it has."""

from dataclasses import dataclass, replace

from pytest_hwperf.core.errors import WorkerError
from pytest_hwperf.host.launch import run_to_end

_QUESTION = "from importlib.metadata import entry_points; print(*(one.name for one in entry_points(group='pytest11')))"
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter in an environment of its own."""

    path: str  # absolute, since it is started elsewhere; a venv's python is a link, and has to stay one
    plugins: frozenset[str] | None = None  # of pytest, by their names; None: it was not asked, or did not say


def with_plugins(interpreter: Interpreter, timeout_s: float) -> Interpreter:
    """Ask an interpreter for its plugins; why it cannot be asked is said when it is started for the pairs."""
    try:
        answer = run_to_end(
            ["-P", "-c", _QUESTION], interpreter=interpreter.path, timeout_s=max(0.0, min(timeout_s, _LONGEST_S))
        )
    except WorkerError:
        return interpreter
    return interpreter if answer.returncode else replace(interpreter, plugins=frozenset(answer.stdout.split()))
