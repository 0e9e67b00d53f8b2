"""One gate on a host, ended and removed when nobody wants it any more, and the worker in which it runs."""

import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.repositories import repository_with

from pytest_hwperf import __version__
from pytest_hwperf.fleet import on_host
from pytest_hwperf.fleet.on_host import ReturnLine, answer, dask_setup, last_line
from pytest_hwperf.fleet.project import Project, project_of
from pytest_hwperf.host.interruption import signals_blocked
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.report import HostAnswer, Order
from pytest_hwperf.records.run import replace

TEST = "def test_one(hwperf):\n    hwperf.record('tokens', 4.0, better='lower')\n"
SLEEP = [sys.executable, "-c", "import time; print('at work', flush=True); time.sleep(60)"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("project")
    root = repository_with(folder / "project", test_one__py=TEST, pytest__ini="[pytest]\n")
    (root / "sub").mkdir()
    (folder / "place").mkdir()
    return project_of(root, [], folder / "place")


def order(project: Project, *arguments: str, version: str = __version__, limit_s: float = 60.0) -> Order:
    return Order(
        version=version,
        job="a",
        arguments=arguments,
        folder=".",
        candidate=project.candidate,
        snapshot=project.snapshot,
        install=None,
        limit_s=limit_s,
    )


@pytest.mark.live
def test_a_gate_is_run_and_nothing_of_it_stays(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    signs: list[str] = []
    arguments = ("--hwperf-only", "--hwperf-machine-kind=arm", "--hwperf-energy=off", "-pno:cacheprovider")
    found = answer(order(project, *arguments), project.parcel, ReturnLine(tell=signs.append, is_wanted=lambda: True))
    assert (0, "") == (found.exit_code, found.problem), found.log
    report = found.read()
    assert report is not None
    assert [("test_one.py::test_one", "arm")] == [(one.run.test, one.run.kind) for one in report.judgements]
    assert project.candidate == report.revision
    assert "unpacking" == signs[0]
    assert "1 passed" in found.log
    assert [] == [*tmp_path.rglob("hwperf-base-*")]


KILLED = """import os, signal, sys
from pytest_hwperf.records.report import Order
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.fleet.on_host import ReturnLine, answer
line = ReturnLine(tell=lambda _: os.kill(os.getpid(), signal.SIGKILL), is_wanted=lambda: True)
answer(from_json(Order, sys.argv[1].encode()), b"", line)
"""


@pytest.mark.live
@pytest.mark.parametrize("by", ["the next gate", "the end of the fleet"])
def test_what_a_killed_worker_has_left_is_removed(
    by: str, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    killed = subprocess.run([sys.executable, "-c", KILLED, to_json(order(project)).decode()], check=False)
    left = [*tmp_path.rglob("hwperf-base-*")]
    if by == "the next gate":
        answer(order(project), b"", quiet())
    else:
        ssh = pytest.importorskip("pytest_hwperf.fleet.ssh", reason="the extra fleet is not installed")
        subprocess.run([sys.executable, "-c", ssh._TIDY], check=True)
    assert (-signal.SIGKILL, 1) == (killed.returncode, len(left))
    assert [] == [*tmp_path.rglob("hwperf-base-*")]


def test_what_a_gate_writes_beside_its_project_goes_with_it(project: Project, tmp_path: Path) -> None:
    """It is killed with its programs, which cannot remove theirs."""
    program = "import os, pathlib, tempfile; pathlib.Path('said').write_text(tempfile.mkdtemp())"
    gate(project, tmp_path, quiet())._step([sys.executable, "-c", program], tmp_path, "pytest")
    assert Path((tmp_path / "said").read_text(encoding="utf-8")).parent == tmp_path / "temporary"


def test_whatever_fails_on_a_host_is_its_answer(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "and the fleet 0.0: install the same" in answer(order(project, version="0.0"), b"", quiet()).problem
    assert "the parcel cannot be unpacked" in answer(order(project), b"no parcel", quiet()).problem
    for error in (OSError(28, "No space left on device"), WorkerError("git is not installed"), ValueError("no UTF-8")):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(on_host, "unpack", fail)
        assert str(error) == answer(order(project), b"", quiet()).problem


def quiet(*, wanted: bool = True) -> ReturnLine:
    return ReturnLine(tell=lambda _: None, is_wanted=lambda: wanted)


def gate(project: Project, folder: Path, line: ReturnLine, limit_s: float = 60.0) -> on_host._Gate:
    return on_host._Gate(order(project, limit_s=limit_s), folder, line)


@pytest.mark.live
def test_what_nobody_wants_or_takes_too_long_is_ended_with_what_it_has_started(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_host, "_EVERY_S", 0.01)
    signs: list[str] = []

    def is_wanted() -> bool:
        return not any("at work" in sign for sign in signs)

    with pytest.raises(WorkerError, match="nobody waits"):
        gate(project, tmp_path, ReturnLine(tell=signs.append, is_wanted=is_wanted))._step(SLEEP, tmp_path, "pytest")
    assert "pytest: at work" == signs[-1]
    with pytest.raises(WorkerError, match=r"pytest has not ended within 0.001 s: .*--longest=SECONDS"):
        gate(project, tmp_path, quiet(), 0.001)._step(SLEEP, tmp_path, "pytest")


@pytest.mark.parametrize(("uv", "made"), [("/bin/uv", ["/bin/uv", "venv"]), (None, [sys.executable, "-m"])])
def test_the_environment_is_made_by_uv_or_by_venv_and_pip(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uv: str | None, made: list[str]
) -> None:
    run: list[list[str]] = []

    def step(_: object, command: list[str], directory: Path, name: str) -> int:
        run.append(command)
        assert (tmp_path / "project", "installing") == (directory, name)
        return 0

    monkeypatch.setattr("shutil.which", lambda _: uv)
    monkeypatch.setattr(on_host._Gate, "_step", step)
    python = gate(project, tmp_path, quiet())._environment(tmp_path / "a.whl", ("-e", "."))
    assert made == run[0][:2]
    assert str(tmp_path / "environment" / "bin" / "python") == python
    assert [str(tmp_path / "a.whl"), "-e", "."] == run[1][-3:]
    monkeypatch.setattr(on_host._Gate, "_step", lambda *_: 1)
    with pytest.raises(WorkerError, match="ended with code 1"):
        gate(project, tmp_path, quiet())._environment(tmp_path / "a.whl", ())


def test_the_last_line_of_a_log_is_a_sign_of_life(tmp_path: Path) -> None:
    lines = {"": "", "one\ntwo\n": "two", "one\r\x1b[32mtwo\x1b[0m": "two", "x" * 5000: "x" * 200}
    for written, last in lines.items():
        (tmp_path / "log").write_text(written, encoding="utf-8")
        assert last == last_line(tmp_path / "log")
    assert "" == last_line(tmp_path / "none")


def test_variables_that_lead_elsewhere_are_left_out(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of pytest only where it has an environment of its own."""
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-n 2")
    program = "import os; print(*(name in os.environ for name in ('PYTHONPATH', 'PYTEST_ADDOPTS', 'PATH')))"
    for install, left in (((), "False False True"), (None, "False True True")):
        made = on_host._Gate(replace(order(project), install=install), tmp_path, quiet())
        made._step([sys.executable, "-c", program], tmp_path, "pytest")
        assert left == last_line(tmp_path / "log")


ORDER = Order(version="1", job="j", arguments=(), folder=".", candidate="", snapshot="", install=None, limit_s=9.0)


class Worker:
    """A worker of dask that runs one task."""

    def __init__(self) -> None:
        self.status = SimpleNamespace(name="running")
        self.state = SimpleNamespace(tasks={"key": SimpleNamespace(state="executing")})
        self.events: list[tuple[str, dict[str, Any]]] = []

    def get_current_task(self) -> str:
        return "key"

    def log_event(self, topic: str, message: dict[str, Any]) -> None:
        self.events.append((topic, message))


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()
    distributed = pytest.importorskip("distributed", reason="the extra fleet is not installed")
    monkeypatch.setattr(distributed, "get_worker", lambda: made)
    return made


def carry_out(monkeypatch: pytest.MonkeyPatch, during: Any) -> None:
    def answered(order: Order, parcel: bytes, line: ReturnLine) -> HostAnswer:
        assert (ORDER, b"parcel") == (order, parcel)
        during(line)
        return HostAnswer(problem="done")

    monkeypatch.setattr(on_host, "answer", answered)
    on_host.carry_out(to_json(ORDER), b"parcel", "topic")


def test_signs_and_the_answer_are_events_of_the_job(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_out(monkeypatch, lambda line: line.tell("at work"))
    sign, packed = (message for _, message in worker.events)
    assert {"topic"} == {topic for topic, _ in worker.events}
    assert {"job": "j", "sign": "at work"} == sign
    assert b"done" in zlib.decompress(packed["answer"])


def test_it_is_wanted_until_it_is_taken_back_or_the_worker_closes(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[bool] = []

    def during(line: ReturnLine) -> None:
        for task, status in [("executing", "running"), ("cancelled", "running"), ("executing", "closing")]:
            worker.state.tasks["key"].state, worker.status.name = task, status
            wanted.append(line.is_wanted())
        worker.state.tasks.clear()
        wanted.append(line.is_wanted())

    carry_out(monkeypatch, during)
    assert [True, False, False, False] == wanted


ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STATE = "import signal as s; print(s.SIGINT in s.pthread_sigmask(s.SIG_BLOCK, []), s.getsignal(s.SIGTERM))"


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in ALL}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def state_of_a_program() -> str:
    done = subprocess.run([sys.executable, "-c", STATE], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.usefixtures("handlers")
def test_signals_that_come_while_workers_are_started_wait_and_a_worker_lives_on() -> None:
    """Its programs are as ever."""
    taken: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
    with signals_blocked():
        signal.raise_signal(signal.SIGINT)
        assert "True 0" == state_of_a_program().replace("Handlers.SIG_DFL", "0")
        assert [] == taken
    assert [signal.SIGINT] == taken
    with signals_blocked():
        dask_setup(None)
        for number in ALL:
            signal.raise_signal(number)
        assert "False 0" == state_of_a_program().replace("Handlers.SIG_DFL", "0")


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
    monkeypatch.setattr(on_host, "sleep", done.append)
    monkeypatch.setattr(os, "_exit", done.append)
    os.write(pipe, b"whatever comes is not looked at")
    os.close(pipe)
    on_host.end_with(sys.stdin.fileno())
    assert [(os.getpid(), signal.SIGTERM), 20.0, 1] == done


def test_a_module_runs_as_a_program_in_a_folder_that_goes_with_it(
    pipe: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", "")
    monkeypatch.setattr("sys.argv", ["on_host.py", "-m", "program", "--spec", "x"])
    watched: list[int] = []
    monkeypatch.setattr(on_host, "end_with", watched.append)
    monkeypatch.syspath_prepend(tmp_path)
    said = tmp_path / "said"
    text = (
        "import os, pathlib, sys\nfolder = os.environ['DASK_TEMPORARY_DIRECTORY']\nlines = [__name__, *sys.argv[1:]]\n"
    )
    text += f"pathlib.Path({str(said)!r}).write_text(' '.join([*lines, folder, str(os.path.isdir(folder))]))\n"
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    on_host.main()
    os.close(pipe)

    name, option, value, folder, there = said.read_text(encoding="utf-8").split()
    assert ("__main__", "--spec", "x", "True") == (name, option, value, there)
    assert not Path(folder).exists()
    assert [sys.stdin.fileno()] == watched
