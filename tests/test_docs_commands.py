"""Every command of the documentation: each is read by the program that it calls, and the tutorial is gone through."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy.fft  # noqa: F401 - an inner run that imports it first would drop it, and it cannot be loaded twice
import pytest
import scipy.special  # noqa: F401 - the same
from fakes.shells import type_in

from pytest_hwperf.cli import parse
from pytest_hwperf.plugin.settings import read_settings

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = [ROOT / "README.md", ROOT / "example_project" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What is not this package's own: programs whose arguments nobody here can read.
OTHERS = (
    "cd ",
    "dask ",
    "git ",
    "mkdir ",
    "openssl ",
    "pg_dump ",
    "pip install ",
    "python -c ",
    "python -m pip ",
    "python -m venv ",
    "before/bin/python -m pip ",
    "python -m tox",
    "sqlite3 ",
)

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each block, also of those within a list."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield found[2], re.sub(rf"^{found[1]}", "", found[3], flags=re.MULTILINE)


def commands() -> dict[str, Path]:
    """Return every command line, without the comment behind it, with the last page that has it."""
    found = dict[str, Path]()
    for page in PAGES:
        for language, text in blocks(page):
            if language == "bash":
                lines = text.replace("\\\n", " ").splitlines()
                found.update((line.partition("  #")[0].strip(), page) for line in lines)
    return found


ALL = commands()


@pytest.mark.parametrize("command", [one for one in ALL if f"{one} ".startswith(("pytest ", "python -m pytest "))])
def test_pytest_reads_its_commands(command: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option is known, and its value one that is allowed."""
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_hwperf.plugin")
    words = shlex.split(command.removeprefix("python -m ").removeprefix("pytest"))
    settings = read_settings(pytester.parseconfig("-pno:benchmark", *words))
    assert settings.only == ("--hwperf-only" in words)


@pytest.mark.parametrize("command", [one for one in ALL if one.startswith("hwperf ")])
def test_the_command_hwperf_reads_its_commands(command: str) -> None:
    parse(shlex.split(command)[1:])


def test_every_other_command_is_one_of_another_program() -> None:
    own = ("pytest", "python -m pytest", "hwperf ")
    assert [] == [one for one in ALL if not one.startswith(own) and not one.startswith(OTHERS)]


def test_no_block_is_without_a_language() -> None:
    """Such a block could be a command that nothing reads."""
    fences = {page: re.findall(r"^ *```(\w*)$", page.read_text(encoding="utf-8"), re.MULTILINE) for page in PAGES}
    assert {} == {page.name: found for page, found in fences.items() if not all(found[::2]) or any(found[1::2])}


# What each command of the tutorial shows, and its exit code.
SHOWN = {
    "pytest": ("1 passed", 0),
    "pytest --hwperf-against=HEAD": ("regressed: latency p50", 1),
}


@pytest.mark.live
def test_the_tutorial_works_as_it_is_typed(pytester: pytest.Pytester) -> None:
    """Files are written and commands are typed in the order of the page; what starts no process runs in this one."""
    typed = list[str]()
    for language, text in blocks(TUTORIAL):
        if language == "python":
            (pytester.path / text.partition("\n")[0].removeprefix("# ")).write_text(text, encoding="utf-8")
        for command in text.splitlines() * (language == "bash"):
            shown, ended = SHOWN.get(command, ("", 0))
            if command == "pytest":
                result = pytester.runpytest_inprocess("-pno:cacheprovider", "--hwperf-sample-time=0.05")
                assert ended == result.ret
                result.stdout.fnmatch_lines([f"*{shown}*"])
            else:
                type_in(pytester.path, command, ended, shown, "")
            typed.append(command)
    assert 2 == typed.count("pytest")
    assert SHOWN.keys() < {*typed}
