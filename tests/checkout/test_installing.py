"""Packages are installed by pip, whose refusals are told with the end of what it says."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pytest_hwperf.checkout.building import has_pip, install
from pytest_hwperf.records.errors import UsageProblem, WorkerError

PYTHON = Path("/env/bin/python")


@dataclass
class FakePython:
    """An interpreter that does nothing and ends with this code."""

    code: int = 0
    said: str = ""
    is_late: bool = False
    commands: list[list[str]] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)

    def __call__(
        self,
        arguments: Sequence[str],
        *,
        interpreter: str,
        timeout_s: float,
        directory: Path,
        environment: dict[str, str],
    ) -> CompletedProcess[str]:
        """Take the place of a process."""
        assert (str(PYTHON), PYTHON.parent) == (interpreter, directory)
        self.commands.append(list(arguments))
        self.given = environment
        if self.is_late:
            raise WorkerError(f"gave no answer within {timeout_s:g} s")
        return CompletedProcess([], self.code, "", self.said)


def test_pip_is_given_the_requirements_and_no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.org")
    python = FakePython()
    install(PYTHON, ["a==1", "b<2"], 60.0, python, sees_pip=lambda: True)
    assert [["-P", "-m", "pip", "install", "--no-warn-conflicts", "a==1", "b<2"]] == python.commands
    assert "PYTHONPATH" not in python.given
    assert "https://index.example.org" == python.given["PIP_INDEX_URL"]


def test_an_environment_without_pip_gets_that_of_python() -> None:
    python = FakePython()
    install(PYTHON, ["a==1"], 60.0, python, sees_pip=lambda: False)
    assert ["ensurepip", "pip"] == [command[2] for command in python.commands]
    assert isinstance(has_pip(), bool)


def test_a_refusal_is_told_with_the_end_of_the_log() -> None:
    said = "\n\n".join(f"line {number}" for number in range(30))

    with pytest.raises(UsageProblem) as caught:
        install(PYTHON, ["a==1"], 60.0, FakePython(code=1, said=said), sees_pip=lambda: True)
    lines = str(caught.value).splitlines()
    assert "`python -m pip install --no-warn-conflicts a==1` for the environment of the baseline failed:" == lines[0]
    assert [f"  line {number}" for number in range(18, 30)] == lines[1:]


def test_an_installation_that_takes_too_long_says_what_to_type() -> None:
    with pytest.raises(UsageProblem, match=r"no answer within 60 s; give more time with --hwperf-time-limit=SECONDS"):
        install(PYTHON, ["a==1"], 60.0, FakePython(is_late=True), sees_pip=lambda: True)
