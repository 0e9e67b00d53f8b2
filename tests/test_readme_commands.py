"""The commands of every README, run in their order as they are typed, in a fresh folder.

What a page says to write in between is written as it says. The settings of `fakes.shells` only shorten the runs.
Two kinds of commands are not run here: those of `INSTALL` are what CI itself runs, and those of the benchmarks take
minutes or hours, so that their programs only read them.
"""

import argparse
import configparser
import functools
import importlib
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest
from fakes.repositories import commit, git
from fakes.shells import EQUAL, type_in

ROOT = Path(__file__).parents[1]
README, BENCHMARKS = ROOT / "README.md", ROOT / "benchmarks" / "README.md"
EXAMPLE = ROOT / "example_project"
PAGES = [README, EXAMPLE / "README.md", BENCHMARKS, ROOT / "tests" / "data" / "README.md"]
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
    """And no block is without a language: it could be a command that nothing runs."""
    assert [] == [page for page in PAGES if blocks(page, "")]
    tracked = subprocess.run(["git", "ls-files", "*README*"], cwd=ROOT, check=False, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("this copy of the project is no repository")
    assert sorted(str(page.relative_to(ROOT)) for page in PAGES) == sorted(tracked.stdout.split())


def test_every_command_is_expected_and_those_of_an_installation_are_what_ci_runs() -> None:
    """The first is what the tox environment `example` runs and then looks at, the second is all of CI."""
    assert [GATE, *INSTALL] == commands(README)
    assert [INSTALL[0], *(one[0] for one in DIGITS)] == commands(EXAMPLE / "README.md")
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    example, checks = tox["testenv:example"]["commands"].split("\n")[1:]
    ci = [one for one in (ROOT / ".ci" / "run").read_text("utf-8").splitlines() if one.startswith("python ")]
    first = f"python -m pip install . && {example.partition(' --hwperf-report=')[0]}"
    assert [first, " && ".join(ci)] == INSTALL
    assert example.rpartition("=")[2] == checks.split()[-1]  # the report of this very run
    assert "example_checks.py" in checks


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


def test_the_programs_of_the_benchmarks_read_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page names all of them."""
    program: Any = importlib.import_module("benchmarks.__main__")
    read = argparse.ArgumentParser.parse_args

    def stop(parser: argparse.ArgumentParser) -> NoReturn:
        raise ReadError(read(parser))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(program, "benchmarks", functools.cache(program.benchmarks))  # it parses every file
    named = set[str]()
    for command in commands_of_benchmarks():
        if command.startswith("pip install "):
            continue
        python, option, package, *arguments = shlex.split(command)
        if package == "benchmarks.corpus":
            monkeypatch.setattr(sys, "argv", [package, *arguments])
            with pytest.raises(ReadError):
                importlib.import_module("benchmarks.corpus.__main__").main()
            continue
        assert ("python", "-m", "benchmarks") == (python, option, package)
        monkeypatch.setattr(sys, "argv", [package, *arguments])
        if not arguments:
            assert not program.main()
            continue
        named.add(arguments[0])
        if arguments[0] == "mutants" and find_spec("cosmic_ray") is None:
            continue
        with pytest.raises(ReadError):
            program.main()
    assert named == {name for folder in program.FOLDERS for name in program.benchmarks(folder)}
