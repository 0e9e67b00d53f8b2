"""A program over SSH ends with its connection, which is its standard input."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_hwperf.fleet import attached


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of the standard input."""
    here, there = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(here))
    yield there
    sys.stdin.close()


def test_when_its_input_is_closed_it_is_told_and_then_ended(pipe: int, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: done.append((pid, number)))
    monkeypatch.setattr(attached, "sleep", done.append)
    monkeypatch.setattr(os, "_exit", done.append)
    os.write(pipe, b"whatever comes is not looked at")
    os.close(pipe)
    attached.end_with(sys.stdin.fileno())
    assert [(os.getpid(), signal.SIGTERM), 20.0, 1] == done


def test_a_module_runs_as_a_program_in_a_folder_that_goes_with_it(
    pipe: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", "")
    monkeypatch.setattr("sys.argv", ["attached.py", "-m", "program", "--spec", "x"])
    watched: list[int] = []
    monkeypatch.setattr(attached, "end_with", watched.append)
    monkeypatch.syspath_prepend(tmp_path)
    said = tmp_path / "said"
    text = (
        "import os, pathlib, sys\nfolder = os.environ['DASK_TEMPORARY_DIRECTORY']\nlines = [__name__, *sys.argv[1:]]\n"
    )
    text += f"pathlib.Path({str(said)!r}).write_text(' '.join([*lines, folder, str(os.path.isdir(folder))]))\n"
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    attached.main()
    os.close(pipe)

    name, option, value, folder, there = said.read_text(encoding="utf-8").split()
    assert ("__main__", "--spec", "x", "True") == (name, option, value, there)
    assert not Path(folder).exists()
    assert [sys.stdin.fileno()] == watched
