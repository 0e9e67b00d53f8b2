"""The page of the command `hwperf` is held against its parser: nothing is left out or made up."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_hwperf.cli import _parser

ROOT = Path(__file__).parents[1]
COMMANDS = ROOT / "docs" / "commands.md"
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "example_project" / "README.md"]


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
    """Return each option of a command, but for --help, with its default as text, "" where it has none."""
    options = [action for action in ALL[name]._actions if action.option_strings and action.dest != "help"]
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


@pytest.mark.parametrize("name", ALL)
def test_every_option_stands_on_the_page_with_its_default(name: str) -> None:
    page = COMMANDS.read_text(encoding="utf-8")
    title = name if f"\n## {name}\n" in page else name.rpartition(" ")[0]  # the actions of a command share a section
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    shown, options = rows_of(section), options_of(name)
    assert section
    assert options.keys() == shown.keys()
    assert {} == {option: shown[option] for option, default in options.items() if default not in ("", shown[option])}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_makes_up_an_option(page: Path) -> None:
    assert [] == made_up(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("run `hwperf doctor --loud`", [("hwperf doctor", "--loud")]),
        ("hwperf baseline accept --force '*'\n", [("hwperf baseline accept", "--force")]),
        ("`hwperf selfcheck --builds 3 -- tests --verbose`, and `--other` things", []),
    ],
)
def test_a_made_up_option_is_noticed(text: str, found: list[tuple[str, str]]) -> None:
    assert found == made_up(text)
