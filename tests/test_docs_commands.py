"""Commands of the documentation: each is read by the program that it calls, and the tutorial is gone through."""

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy.fft  # noqa: F401 - an inner run that imports it first would drop it, and it cannot be loaded twice
import pytest
import scipy.special  # noqa: F401 - the same
from fakes.shells import type_in

from pytest_hwperf.cli import _parser, parse
from pytest_hwperf.plugin.session.parsers import _GONE
from pytest_hwperf.plugin.session.settings import OPTIONS, read_settings

ROOT = Path(__file__).parents[1]
TUTORIAL, COMMANDS = ROOT / "docs" / "tutorial.md", ROOT / "docs" / "reference" / "commands.md"
PAGES = [ROOT / "README.md", ROOT / "example_project" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN = ("pytest", "python -m pytest", "hwperf ")
# What is not this package's own: programs whose arguments nobody here can read.
OTHERS = (
    *("cd ", "dask ", "git ", "mkdir ", "openssl ", "pg_dump ", "sqlite3 ", "pip install ", "python -c "),
    *("python -m pip ", "python -m venv ", "before/bin/python -m pip ", "python -m tox"),
)

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the language and the text of each block, also of those within a list."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield found[2], re.sub(rf"^{found[1]}", "", found[3], flags=re.MULTILINE)


def typed() -> list[str]:
    """Return every command line once, without the comment behind it."""
    found = [text for page in PAGES for language, text in blocks(page) if language == "bash"]
    lines = [line for text in found for line in text.replace("\\\n", " ").splitlines()]
    return [*dict.fromkeys(line.partition("  #")[0].strip() for line in lines)]


def test_every_command_is_read_by_its_program(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option is known, and its value one that is allowed."""
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_hwperf.plugin")
    programs = dict.fromkeys(OWN, 0)
    for command in typed():
        words = shlex.split(command.removeprefix("python -m "))
        if command.startswith("hwperf "):
            parse(words[1:])
        elif f"{command} ".startswith(("pytest ", "python -m pytest ")):
            settings = read_settings(pytester.parseconfig("-pno:benchmark", *words[1:]))
            assert settings.only == ("--hwperf-only" in words), command
        else:
            assert command.startswith(OTHERS), command
        programs |= {own: number + command.startswith(own) for own, number in programs.items()}
    assert all(programs.values())


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


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Return every command that can be run, those of several words too."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for inner in action.choices.values():
            yield from commands(inner)


ALL = {command.prog: command for command in commands(_parser())}


def options_of(name: str) -> dict[str, str]:
    """Return each option of a command, but for those of all, with its default as text, "" where it has none."""
    own = [action for action in ALL[name]._actions if action.dest not in ("help", "color")]
    options = [action for action in own if action.option_strings]
    return {action.option_strings[-1]: _shown(action.default) for action in options}


def _shown(default: object) -> str:
    return f"{default:g}" if isinstance(default, float) else str(default or "")


def rows_of(text: str) -> dict[str, str]:
    """Return the options of a table, each with what stands in the column of defaults."""
    rows = re.findall(r"^\| `(--[a-z0-9-]+)[^|]*\| ([^|]*)\|", text.replace("\\|", "/"), re.MULTILINE)
    return {option: default.strip(" `") for option, default in rows}


def made_up(text: str) -> list[tuple[str, str]]:
    """Return options that no command has, wherever one is written out, as code or as a line of a block."""
    written = re.findall(rf"\b({'|'.join(ALL)})\b([^`\n]*)", text)
    return [
        (name, option)
        for name, words in written
        for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", words.partition(" -- ")[0])
        if option not in options_of(name) and not option.startswith("--hwperf-")
    ]


def test_every_option_of_a_command_stands_on_its_page_with_its_default() -> None:
    page = COMMANDS.read_text(encoding="utf-8")
    for name in ALL:
        title = name if f"\n## {name}\n" in page else name.rpartition(" ")[0]  # actions of a command share a section
        section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        shown, options = rows_of(section), options_of(name)
        assert section, name
        assert (name, options.keys()) == (name, shown.keys())
        assert {} == {option: shown[option] for option, given in options.items() if given not in ("", shown[option])}


def test_neither_a_page_nor_the_code_makes_up_an_option() -> None:
    """What the code prints as a remedy stands in it."""
    known = {option.flag for option in OPTIONS} | {"--hwperf-"} | {*_GONE}
    for file in [*ROOT.glob("*.md"), *PAGES, *(ROOT / "pytest_hwperf").rglob("*.py")]:
        text = file.read_text(encoding="utf-8")
        assert (file.name, []) == (file.name, made_up(text))
        assert (file.name, set()) == (file.name, {*re.findall(r"--hwperf-[a-z0-9-]*", text)} - known)
    assert [("hwperf doctor", "--loud"), ("hwperf baseline accept", "--force")] == made_up(
        "run `hwperf doctor --loud`\nhwperf baseline accept --force '*'\n"
        "`hwperf selfcheck --builds 3 -- tests --verbose`, and `--other` things"
    )
