"""The commands of every README, run in their order as they are typed, in a fresh folder.

What a page says to write in between is written as it says. The settings of `fakes.shells` only shorten the runs.
Two kinds of commands are not run here: those of `INSTALL` are what CI itself runs, and those of the benchmarks take
minutes or hours, so that their programs only read them.
"""

import argparse
import importlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from fakes.repositories import commit, git
from fakes.shells import EQUAL, type_in

ROOT = Path(__file__).parents[1]
README, BENCHMARKS = ROOT / "README.md", ROOT / "benchmarks" / "README.md"
EXAMPLE = ROOT / "example_project"
PAGES = [README, EXAMPLE / "README.md", BENCHMARKS, ROOT / "tests" / "data" / "README.md"]
# `test_docs.py::test_the_readme_has_the_commands_that_ci_runs` holds these against tox.ini and .ci/run.
INSTALL = [
    "python -m pip install . && python -m pytest example_project",
    "python -m pip install tox tox-uv && python -m tox",
]
GATE = "pytest --hwperf-all --hwperf-against=origin/main"
# For each other command: what is written before it, its exit code, and what it shows.
DIGITS = [
    ("python -m pytest tests/test_pixels.py --hwperf-against=HEAD", "three times", 1, "latency p50 "),
    ("python -m pytest tests/test_logistic.py --hwperf-against=HEAD", "less accurate", 1, "accuracy -"),
    ("python -m pytest tests/test_pixels.py --hwperf-save", "undone", 0, "1 run saved to baseline main"),
    ("python -m pytest tests/test_pixels.py --hwperf-compare --hwperf-save", "three times", 1, "baseline accept"),
    ("hwperf baseline accept 'tests/test_pixels.py::*'", None, 0, "accepted as baseline main: tests/test_pixels.py"),
    ("hwperf baseline list", None, 0, "main: tests/test_pixels.py::test_scaling_the_pixels: 1 run, the newest"),
]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SCALING = re.compile(r"^( +)return X / 16$", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [found[2] for found in _BLOCK.finditer(text) if found[1] == language]


def commands(page: Path) -> list[str]:
    """Return every command of a page, without the comment behind it."""
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    return [line.partition("  #")[0].rstrip() for line in lines]


def test_these_are_all_pages() -> None:
    tracked = subprocess.run(["git", "ls-files", "*README*"], cwd=ROOT, check=False, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("this copy of the project is no repository")
    assert sorted(str(page.relative_to(ROOT)) for page in PAGES) == sorted(tracked.stdout.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_has_a_language(page: Path) -> None:
    """A block without one could be a command that nothing runs."""
    assert [] == blocks(page, "")


def test_every_command_is_expected() -> None:
    assert [GATE, *INSTALL] == commands(README)
    assert [INSTALL[0], *(one[0] for one in DIGITS)] == commands(EXAMPLE / "README.md")


@pytest.mark.live
def test_the_commands_of_the_readme_work(tmp_path: Path) -> None:
    """On the page's own test, in a clone: `origin/main` is what was cloned."""
    code = next(code for code in blocks(README, "python") if "def test_" in code)
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init")
    commit(origin, test_digits__py=code)
    git(tmp_path, "clone", str(origin), str(clone))
    type_in(clone, GATE, 0, "1 of 1 tests compared", EQUAL)


@pytest.mark.live
def test_the_commands_of_the_example_work(tmp_path: Path) -> None:
    """In a copy of the example that is a repository of its own."""
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    git(folder, "init")
    commit(folder, __gitignore="__pycache__/\n.pytest_cache/\n.hwperf/\n")
    for command, edit, ended, shown in DIGITS:
        write(folder, edit)
        type_in(folder, command, ended, shown, EQUAL if edit == "less accurate" else "")


def write(project: Path, edit: str | None) -> None:
    """Write what the page says before a command."""
    if edit is None:
        return
    git(project, "checkout", "--", ".")
    models = project / "digits_models.py"
    before = models.read_text(encoding="utf-8")
    after = before
    if edit == "three times":
        more = blocks(EXAMPLE / "README.md", "python")[0].rstrip("\n")
        after = _SCALING.sub(lambda _: more, before)
    elif edit == "less accurate":
        written = re.search(r"`(LogisticRegression\(.+?\))`", (EXAMPLE / "README.md").read_text(encoding="utf-8"))
        assert written
        after = re.sub(r"LogisticRegression\([^)]*\)", written[1], before)
    assert (edit == "undone") == (after == before)
    models.write_text(after, encoding="utf-8")


class ReadError(Exception):
    """The arguments of a program were read; what follows takes hours."""


def commands_of_benchmarks() -> list[str]:
    """Return the commands of their page, in blocks and within lines."""
    lines = re.findall(r"`(?:taskset -c 1 )?(python -m benchmarks [^`]+)`", BENCHMARKS.read_text(encoding="utf-8"))
    return [one for one in (*commands(BENCHMARKS), *lines) if "NAME" not in one]


def test_the_page_of_the_benchmarks_names_all_of_them() -> None:
    listed: Any = importlib.import_module("benchmarks.__main__")
    names = {name for folder in listed.FOLDERS for name in listed.benchmarks(folder)}
    assert names == {shlex.split(one)[3] for one in commands_of_benchmarks() if one.startswith("python -m benchmarks ")}


@pytest.mark.parametrize("command", commands_of_benchmarks())
def test_the_programs_of_the_benchmarks_read_their_commands(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if command.startswith("pip install "):
        assert shlex.split(command)[2:]
        return
    python, option, package, *arguments = shlex.split(command)
    assert ("python", "-m", "benchmarks") == (python, option, package)
    program: Any = importlib.import_module("benchmarks.__main__")
    monkeypatch.setattr(sys, "argv", [package, *arguments])
    if not arguments:
        assert not program.main()
        return
    if arguments[0] == "mutants":
        pytest.importorskip("cosmic_ray")
    read = argparse.ArgumentParser.parse_args

    def stop(parser: argparse.ArgumentParser) -> NoReturn:
        raise ReadError(read(parser))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    with pytest.raises(ReadError):
        program.main()
