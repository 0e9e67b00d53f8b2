"""Trees are built by the user's own commands, without a shell; what fails is quoted."""

import os
import sys
from pathlib import Path
from time import monotonic

import pytest

from pytest_hwperf.checkout import building
from pytest_hwperf.checkout.building import BuildPlace, run_builds
from pytest_hwperf.records.errors import UsageProblem, WorkerError


class FakeRun:
    """Runs nothing, and ends as it is told."""

    def __init__(self, code: int | None = 0) -> None:
        """Nothing has run."""
        self.code = code
        self.commands = list[list[str]]()
        self.path = ""
        self.makes: Path | None = None

    def __call__(
        self, command: list[str], log: Path, *, timeout_s: float, directory: Path, environment: dict[str, str]
    ) -> tuple[int | None, str]:
        """Take the place of `run_logged`."""
        assert timeout_s >= 1
        assert directory.name == "tree"
        self.commands.append(command)
        self.path = environment["PATH"]
        log.write_text("all of it")
        if command[0] == "absent":
            raise WorkerError("absent cannot be started")
        if self.makes is not None:
            self.makes.unlink()
            self.makes.write_text("new and longer")
            os.utime(self.makes, (1, 1))
        return self.code, "The end of its log:\n  no compiler"


@pytest.fixture
def place(tmp_path: Path) -> BuildPlace:
    return BuildPlace(
        side="present tree",
        directory=tmp_path / "tree",
        environment={"PATH": "/usr/bin"},
        interpreter="/venv/bin/python3.11",
        logs=tmp_path / "logs",
    )


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    fake = FakeRun()
    monkeypatch.setattr(building, "run_logged", fake)
    return fake


def test_commands_are_run_in_order_with_the_interpreter_of_the_side(place: BuildPlace, run: FakeRun) -> None:
    """Programs beside it are found first; what has worked leaves no log."""
    built = run_builds(["python setup.py build_ext --inplace", "make 'a b'"], place, monotonic())
    assert [["/venv/bin/python3.11", "setup.py", "build_ext", "--inplace"], ["make", "a b"]] == run.commands
    assert f"/venv/bin{os.pathsep}/usr/bin" == run.path
    assert [] == list(place.logs.iterdir())
    assert built.seconds >= 0
    assert () == built.stale


@pytest.mark.parametrize(
    ("code", "why"),
    [(2, "ended with code 2"), (None, r"did not end within 1 s; give more time .*--hwperf-time-limit=")],
)
def test_what_fails_is_quoted_and_its_log_is_kept(place: BuildPlace, run: FakeRun, code: int | None, why: str) -> None:
    run.code = code

    with pytest.raises(
        UsageProblem, match=rf"(?s)--hwperf-build='make x', in the present tree, {why}.*no compiler"
    ) as caught:
        run_builds(["make x", "never"], place, monotonic())
    (log,) = place.logs.glob("*/present-tree.log")
    assert str(caught.value).endswith(f"All of it: {log}")
    assert 1 == len(run.commands)


@pytest.mark.usefixtures("run")
def test_a_program_that_is_not_there_is_named(place: BuildPlace) -> None:
    with pytest.raises(UsageProblem, match="--hwperf-build=absent, in the present tree: absent cannot be started"):
        run_builds(["absent"], place, monotonic())


def test_compiled_files_that_were_loaded_before_are_named(place: BuildPlace, run: FakeRun, tmp_path: Path) -> None:
    """This process still has the old ones."""
    files = [tmp_path / name for name in ("fast.so", "same.so", "code.py")]
    for file in files:
        file.touch()
    run.makes = files[0]
    loaded = [*map(str, files), str(tmp_path / "gone.so")]
    assert (str(files[0]),) == run_builds(["make"], place, monotonic(), loaded).stale


@pytest.mark.live
def test_a_real_build_writes_its_log(tmp_path: Path) -> None:
    place = BuildPlace(
        side="baseline", directory=tmp_path, environment=os.environ, interpreter=sys.executable, logs=tmp_path / "logs"
    )
    program = "import sys, os; print(os.getcwd()); print('broken', file=sys.stderr); sys.exit(3)"
    with pytest.raises(UsageProblem, match=r"(?s)baseline, ended with code 3. The end of its log:\n  .*broken"):
        run_builds([f'python -c "{program}"'], place, monotonic() + 60)
