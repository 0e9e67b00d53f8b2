"""A disk without room, or a limit of the size of files, is named with its folder and with what to do."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.reruns import INI, measured, repository

from pytest_hwperf.host import files
from pytest_hwperf.host.files import remedy_of_writing, why_full
from pytest_hwperf.host.launch import run_logged

if sys.platform != "win32":
    import resource

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no limit of the size of files there")
CODE = "def call():\n    pass\n"
_SIZE = 20 * 1024  # bytes of the largest file


@pytest.fixture
def limited() -> Iterator[None]:
    """No file of this process, or of one that it starts, can be larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_SIZE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("limited")
def test_a_limit_of_the_size_of_files_is_the_reason_of_a_process_that_failed(tmp_path: Path) -> None:
    """Half a file of byte code that another process reads is not the reason."""
    program = [sys.executable, "-c", "raise EOFError('marshal data too short')"]
    code, said = run_logged(program, tmp_path / "log", timeout_s=60.0, directory=tmp_path, environment=os.environ)
    shown = (
        f"{tmp_path} takes no file of 1 MB (File too large): start it where the largest size of a file (`ulimit -f`)"
    )
    assert (1, f"{shown} is higher") == (code, said)
    assert [tmp_path / "log"] == [*tmp_path.iterdir()]


def test_a_process_that_failed_for_another_reason_says_that(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "raise EOFError('marshal data too short')"]
    _, said = run_logged(program, tmp_path / "log", timeout_s=60.0, directory=tmp_path, environment=os.environ)
    assert said.endswith("EOFError: marshal data too short")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS], ids=["full", "quota", "read-only"])
def test_each_way_not_to_take_a_file_has_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(_path: Path, _mode: int = 0) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "create_file", refuse)
    said = why_full(tmp_path)
    assert said.startswith(f"{tmp_path} takes no file of 1 MB ({os.strerror(code)}): ")
    assert said.endswith(", or choose another temporary folder with TMPDIR")
    assert ("free some space" in said, "make it writable" in said) == (code != errno.EROFS, code == errno.EROFS)


def test_other_errors_have_no_remedy_of_a_disk() -> None:
    assert "" == remedy_of_writing(OSError(errno.ENOENT, "gone"))


@pytest.mark.live
def test_a_comparison_under_a_limit_of_file_sizes_names_it(pytester: pytest.Pytester) -> None:
    """The sides write half of their byte code and cannot read it: exit code 4, and the reason is the limit."""
    project = repository(pytester, {"work.py": CODE, "pytest.ini": INI, "test_it.py": measured("it", "work.call")})
    options = ["--hwperf-against=HEAD", "--hwperf-energy=off"]
    command = f"ulimit -f 20; exec {sys.executable} -m pytest {' '.join(options)}"
    done = subprocess.run(["bash", "-c", command], cwd=project.path, capture_output=True, text=True, check=False)
    assert 4 == done.returncode, done.stdout
    assert "takes no file of 1 MB (File too large): start it where" in done.stderr
    assert "marshal" not in done.stdout + done.stderr
