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


@pytest.mark.parametrize(
    ("command", "directory", "environment", "missing"),
    [
        ([sys.executable, *CODE], None, None, ()),
        ([sys.executable, *CODE], None, {"PYTHONPATH": f"/a:{OWN}"}, ()),
        ([sys.executable, *CODE], "/b/src", {"PYTHONPATH": "../lib"}, ("/b/lib",)),
        ([sys.executable, *CODE], "/b", {b"PYTHONPATH": b"src:lib"}, ()),
        ([sys.executable, *CODE], "/b/src", {}, ("/b/lib",)),
        ([sys.executable, "-Im", "pkg"], "/b/src", None, ("/b/src", "/b/lib")),
        ([sys.executable, "-E", "x.py"], None, None, ("/b/src", "/b/lib")),
        ([sys.executable, "x.py", "-I"], None, None, ()),
        (["/usr/bin/python3", "x.py"], None, {}, ("/b/src", "/b/lib")),
        (["/bin/sh", "-c", "python x.py"], None, {}, ("/b/src", "/b/lib")),
        (["nice", "-n", "5", sys.executable, *CODE], None, {}, ("/b/src", "/b/lib")),
        (["timeout", "9", "python3.11", "-I", "x.py"], None, None, ("/b/src", "/b/lib")),
        (["env", "-i", "python", "x.py"], None, None, ("/b/src", "/b/lib")),
        (["env", "PYTHONPATH=", "python", "x.py"], None, None, ("/b/src", "/b/lib")),
        (["env", "MODE=1", "python", "x.py"], None, None, ()),
        (["./script"], None, {}, ("/b/src", "/b/lib")),
        (["env", "./script"], None, {}, ("/b/src", "/b/lib")),
        (["env", "sh", "-c", "./script"], None, {}, ("/b/src", "/b/lib")),
        (["sh", "-c", "./other"], "below", {}, ("/b/src", "/b/lib")),
        (["sh", "-c", "./script"], "below", {}, ()),
        (["grep", "-i", "python", "log.txt"], None, None, ()),
        (["tar", "cf", "-", "python"], None, None, ()),
        (["timeout", "9", "ls", "-"], None, {}, ()),
        (["sh", "-c", "cat pipe"], None, {}, ()),
        (["/bin/sh", "-c", "./script"], None, {}, ("/b/src", "/b/lib")),
        (["sh", "-c", "cd . && exec ./script --fast"], None, {}, ("/b/src", "/b/lib")),
        (["/bin/sh", "-c", "./script"], None, None, ()),
        (["/bin/sh", "-c", "python x.py"], "/b/src", {"PYTHONPATH": "/b/lib"}, ("/b/src",)),  # no -c of Python's
        (["bash", "-c", "python x.py"], None, {"PYTHONPATH": OWN}, ()),
        (["/bin/sh", "-Ec", "python x.py"], None, {"PYTHONPATH": OWN}, ()),
        (["/bin/sh", "-c", "ls"], None, {}, ()),
        (["git", "status"], None, {}, ()),
        (["/no/such"], None, {}, ()),
        (b"/usr/bin/python3", None, {}, ("/b/src", "/b/lib")),
        ([sys.executable, *CODE], None, 3, ("/b/src", "/b/lib")),
    ],
)
def test_programs_of_python_that_search_less_are_found(
    programs: StartedPrograms, command: Any, directory: str | None, environment: Any, missing: tuple[str, ...]
) -> None:
    Path("below").mkdir()
    for script in ("script", "below/other"):
        Path(script).write_text(f"#!{sys.executable}\n", encoding="utf-8")
    os.mkfifo("pipe")
    program = command[0] if isinstance(command, list) else command
    programs.note("subprocess.Popen", (program, command, directory, environment))
    assert ([missing] if missing else []) == [*filter(None, programs.found().values())]


@pytest.mark.parametrize(
    ("event", "arguments", "shown"),
    [
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
    ],
)
def test_processes_that_may_run_code_are_found(
    programs: StartedPrograms, event: str, arguments: tuple[Any, ...], shown: str
) -> None:
    """A program that the system has installed is not of this project."""
    programs.note(event, (arguments[0][0], *arguments) if event == "subprocess.Popen" else arguments)
    assert ({shown: ()} if shown else {}) == programs.found()


def test_a_good_start_of_the_same_command_hides_no_bad_one(programs: StartedPrograms) -> None:
    given: tuple[dict[str, str] | None, ...] = ({}, None)
    for environment in given:
        programs.note("subprocess.Popen", (sys.executable, [sys.executable, "x.py"], None, environment))
    one, other = Opened(started=programs.found()), Opened(started={f"{sys.executable} x.py": ()})
    assert [("/b/src", "/b/lib")] * 2 == [*one.joined(other).started.values(), *other.joined(one).started.values()]


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
    assert {f"{sys.executable} x.py": ("/b/src", "/b/lib")} == programs.found()


def test_a_variable_that_a_test_removes_is_missed(programs: StartedPrograms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    programs.note("subprocess.Popen", (sys.executable, [sys.executable, "x.py"], None, None))
    assert [("/b/src", "/b/lib")] == [*programs.found().values()]


def test_a_folder_that_is_gone_keeps_no_program_from_starting(programs: StartedPrograms) -> None:
    Path.cwd().rmdir()
    programs.note("os.exec", (sys.executable, [sys.executable, *CODE], {"PYTHONPATH": OWN}))
    assert [()] == [*programs.found().values()]


@pytest.mark.parametrize(
    ("event", "arguments", "told"),
    [
        ("subprocess.Popen", ("python", ["python", "/a/x.py"], "/a", {}), ("/a", "/a/x.py")),
        ("subprocess.Popen", ("make", ["make", "all"], "/a", {"PYTHONPATH": "/a/src"}), ("/a", "/a/src")),
        ("subprocess.Popen", ("make", ["make", "all"], "/", {"PYTHONPATH": OWN}), ("/",)),
        ("os.system", ("cd /a && make all",), ("{here}/", "cd /a && make all")),
    ],
)
def test_paths_that_a_program_is_told_are_kept(
    programs: StartedPrograms, event: str, arguments: Any, told: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the process has had in its environment from the start was translated."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    programs.note(event, arguments)
    assert [tuple(one.format(here=Path.cwd()) for one in told)] == [*programs.told().values()]
