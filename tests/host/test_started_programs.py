"""Programs that a process starts: which of them are Python's and do not search what this process searches."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_hwperf.host.opened_files import SPAWNING, Opened, StartedPrograms

OWN = "/b/src:/b/lib"
CODE = ["-c", "pass"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StartedPrograms:
    monkeypatch.setenv("PYTHONPATH", OWN)
    monkeypatch.chdir(tmp_path)
    for module in SPAWNING:  # that other tests have loaded
        monkeypatch.delitem(sys.modules, module, raising=False)
    return StartedPrograms()


BOTH = ("/b/src", "/b/lib")
# The command, its folder and environment, and what it does not search of what this process searches.
COMMANDS: list[tuple[Any, str | None, Any, tuple[str, ...]]] = [
    ([sys.executable, *CODE], None, None, ()),
    ([sys.executable, *CODE], None, {"PYTHONPATH": f"/a:{OWN}"}, ()),
    ([sys.executable, *CODE], "/b/src", {"PYTHONPATH": "../lib"}, ("/b/lib",)),
    ([sys.executable, *CODE], "/b", {b"PYTHONPATH": b"src:lib"}, ()),
    ([sys.executable, *CODE], "/b/src", {}, ("/b/lib",)),
    ([sys.executable, "-Im", "pkg"], "/b/src", None, BOTH),
    ([sys.executable, "-E", "x.py"], None, None, BOTH),
    ([sys.executable, "x.py", "-I"], None, None, ()),
    (["/usr/bin/python3", "x.py"], None, {}, BOTH),
    (["/bin/sh", "-c", "python x.py"], None, {}, BOTH),
    (["nice", "-n", "5", sys.executable, *CODE], None, {}, BOTH),
    (["timeout", "9", "python3.11", "-I", "x.py"], None, None, BOTH),
    (["env", "-i", "python", "x.py"], None, None, BOTH),
    (["env", "PYTHONPATH=", "python", "x.py"], None, None, BOTH),
    (["env", "MODE=1", "python", "x.py"], None, None, ()),
    (["./script"], None, {}, BOTH),
    (["env", "./script"], None, {}, BOTH),
    (["env", "sh", "-c", "./script"], None, {}, BOTH),
    (["sh", "-c", "./other"], "below", {}, BOTH),
    (["sh", "-c", "./script"], "below", {}, ()),
    (["grep", "-i", "python", "log.txt"], None, None, ()),
    (["tar", "cf", "-", "python"], None, None, ()),
    (["timeout", "9", "ls", "-"], None, {}, ()),
    (["sh", "-c", "cat pipe"], None, {}, ()),
    (["/bin/sh", "-c", "./script"], None, {}, BOTH),
    (["sh", "-c", "cd . && exec ./script --fast"], None, {}, BOTH),
    (["/bin/sh", "-c", "./script"], None, None, ()),
    (["/bin/sh", "-c", "python x.py"], "/b/src", {"PYTHONPATH": "/b/lib"}, ("/b/src",)),  # no -c of Python's
    (["bash", "-c", "python x.py"], None, {"PYTHONPATH": OWN}, ()),
    (["/bin/sh", "-Ec", "python x.py"], None, {"PYTHONPATH": OWN}, ()),
    (["/bin/sh", "-c", "ls"], None, {}, ()),
    (["git", "status"], None, {}, ()),
    (["/no/such"], None, {}, ()),
    (b"/usr/bin/python3", None, {}, BOTH),
    ([sys.executable, *CODE], None, 3, BOTH),
]


@pytest.mark.usefixtures("programs")
def test_programs_of_python_that_search_less_are_found() -> None:
    Path("below").mkdir()
    for script in ("script", "below/other"):
        Path(script).write_text(f"#!{sys.executable}\n", encoding="utf-8")
    os.mkfifo("pipe")
    for command, directory, environment, missing in COMMANDS:
        noted, program = StartedPrograms(), command[0] if isinstance(command, list) else command
        noted.note("subprocess.Popen", (program, command, directory, environment))
        assert (command, [missing] * bool(missing)) == (command, [*filter(None, noted.found().values())])


@pytest.mark.usefixtures("programs")
def test_processes_that_may_run_code_are_found() -> None:
    """A program that the system has installed is not of this project."""
    events: tuple[tuple[str, tuple[Any, ...], str], ...] = (
        ("subprocess.Popen", ([sys.executable], None, None), sys.executable),
        ("subprocess.Popen", (["sh", "run.sh"], None, None), "sh run.sh"),
        ("subprocess.Popen", (["./a.out"], None, None), "./a.out"),
        ("subprocess.Popen", (["env", "-i", "./a.out"], None, None), "env -i ./a.out"),
        ("subprocess.Popen", (["no-such-program"], None, None), ""),
        ("subprocess.Popen", (["/usr/bin/git", "status"], None, None), ""),
        ("subprocess.Popen", (["ls"], None, None), ""),
        ("subprocess.Popen", (["\0"], None, None), ""),
        ("os.system", ("ls",), "sh -c ls"),
        ("os.fork", (), "os.fork()"),
        ("os.forkpty", (), "os.fork()"),
    )
    for event, arguments, shown in events:
        noted = StartedPrograms()
        noted.note(event, (arguments[0][0], *arguments) if event == "subprocess.Popen" else arguments)
        assert ({shown: ()} if shown else {}) == noted.found()


def test_a_good_start_of_the_same_command_hides_no_bad_one(programs: StartedPrograms) -> None:
    given: tuple[dict[str, str] | None, ...] = ({}, None)
    for environment in given:
        programs.note("subprocess.Popen", (sys.executable, [sys.executable, "x.py"], None, environment))
    one, other = Opened(started=programs.found()), Opened(started={f"{sys.executable} x.py": ()})
    assert [BOTH] * 2 == [*one.joined(other).started.values(), *other.joined(one).started.values()]


@pytest.mark.parametrize("module", SPAWNING)
def test_processes_that_a_library_spawns_are_found(
    programs: StartedPrograms, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """No audit event tells of them; the module is loaded when the first one starts."""
    before = programs.found()
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    assert ({}, {SPAWNING[module]: ()}) == (before, programs.found())


@pytest.mark.parametrize("event", ["os.posix_spawn", "os.exec"])
def test_other_ways_to_start_a_program_count_too(programs: StartedPrograms, event: str) -> None:
    programs.note(event, (sys.executable, [sys.executable, "x.py"], {}))
    assert {f"{sys.executable} x.py": BOTH} == programs.found()


def test_a_variable_that_a_test_removes_is_missed(programs: StartedPrograms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    programs.note("subprocess.Popen", (sys.executable, [sys.executable, "x.py"], None, None))
    assert [BOTH] == [*programs.found().values()]


def test_a_folder_that_is_gone_keeps_no_program_from_starting(programs: StartedPrograms) -> None:
    Path.cwd().rmdir()
    programs.note("os.exec", (sys.executable, [sys.executable, *CODE], {"PYTHONPATH": OWN}))
    assert [()] == [*programs.found().values()]


@pytest.mark.usefixtures("programs")
def test_paths_that_a_program_is_told_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process has had in its environment from the start was translated."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    events: tuple[tuple[str, tuple[Any, ...], tuple[str, ...]], ...] = (
        ("subprocess.Popen", ("python", ["python", "/a/x.py"], "/a", {}), ("/a", "/a/x.py")),
        ("subprocess.Popen", ("make", ["make", "all"], "/a", {"PYTHONPATH": "/a/src"}), ("/a", "/a/src")),
        ("subprocess.Popen", ("make", ["make", "all"], "/", {"PYTHONPATH": OWN}), ("/",)),
        ("os.system", ("cd /a && make all",), (f"{Path.cwd()}/", "cd /a && make all")),
    )
    for event, arguments, told in events:
        noted = StartedPrograms()
        noted.note(event, arguments)
        assert [told] == [*noted.told().values()]
