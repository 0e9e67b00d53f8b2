"""Packages are installed by pip, whose refusals are told with the end of what it says."""

from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from pytest_hwperf.checkout import building
from pytest_hwperf.checkout.building import install
from pytest_hwperf.records.errors import UsageProblem, WorkerError

PYTHON = Path("/env/bin/python")


class FakePython:
    """An interpreter that does nothing and ends with this code; there is a pip, or not."""

    def __init__(self, patch: pytest.MonkeyPatch, *, code: int = 0, said: str = "", has_pip: bool = True) -> None:
        self.code, self.said, self.is_late = code, said, False
        self.commands, self.given = list[list[str]](), dict[str, str]()
        patch.setattr(building, "run_to_end", self.run)
        patch.setattr("importlib.util.find_spec", lambda _: self if has_pip else None)

    def run(self, arguments: Sequence[str], *, interpreter: str, directory: Path, **given: Any) -> object:
        """Take the place of a process."""
        assert (str(PYTHON), PYTHON.parent) == (interpreter, directory)
        self.commands.append(list(arguments))
        self.given = given["environment"]
        if self.is_late:
            raise WorkerError(f"gave no answer within {given['timeout_s']:g} s")
        return CompletedProcess([], self.code, "", self.said)


def test_pip_is_given_the_requirements_and_no_foreign_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.org")
    python = FakePython(monkeypatch)
    install(PYTHON, ["a==1", "b<2"], 60.0)
    assert [["-P", "-m", "pip", "install", "--no-warn-conflicts", "a==1", "b<2"]] == python.commands
    assert "PYTHONPATH" not in python.given
    assert "https://index.example.org" == python.given["PIP_INDEX_URL"]


def test_an_environment_without_pip_gets_that_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    python = FakePython(monkeypatch, has_pip=False)
    install(PYTHON, ["a==1"], 60.0)
    assert ["ensurepip", "pip"] == [command[2] for command in python.commands]


def test_a_refusal_is_told_with_the_end_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    FakePython(monkeypatch, code=1, said="\n\n".join(f"line {number}" for number in range(30)))
    with pytest.raises(UsageProblem) as caught:
        install(PYTHON, ["a==1"], 60.0)
    lines = str(caught.value).splitlines()
    assert "`python -m pip install --no-warn-conflicts a==1` for the environment of the baseline failed:" == lines[0]
    assert [f"  line {number}" for number in range(18, 30)] == lines[1:]


def test_an_installation_that_takes_too_long_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    FakePython(monkeypatch).is_late = True
    with pytest.raises(UsageProblem, match=r"no answer within 60 s; give more time with --hwperf-time-limit=SECONDS"):
        install(PYTHON, ["a==1"], 60.0)
