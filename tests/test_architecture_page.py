"""The architecture page is held against the package: picture, folders, files and invariants; and messages of a pair."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from pytest_hwperf.gate.channel import Message

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_hwperf"
PAGE = ROOT / "docs" / "architecture.md"

_FILE = re.compile(r"`((?:[\w.-]+/)+\w+\.py)`")


def section(title: str) -> str:
    """Return the text under one heading of the second level."""
    return PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_picture_and_the_table_have_every_storey() -> None:
    """The layers that import-linter enforces, the uppermost first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    storeys = [sorted(name.strip() for name in layer.split("|")) for layer in layers]
    picture = section("Storeys").split("```")[1]
    drawn = [sorted(re.findall(r"\b(\w+)(?:/|\.py)", storey)) for storey in re.split("─+", picture)]
    listed = re.findall(r"^\| `(\w+)(?:/|\.py)`", section("Folders"), re.MULTILINE)
    assert storeys == drawn
    assert sorted(name for storey in storeys for name in storey) == sorted(listed)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_file_named_exists(page: Path) -> None:
    """In the package, in the repository or in the example project."""
    named = _FILE.findall(page.read_text(encoding="utf-8"))
    places = (PACKAGE, ROOT, ROOT / "example_project")
    assert [] == [file for file in named if not any((place / file).is_file() for place in places)]


def test_every_invariant_names_a_test_that_exists() -> None:
    proofs = set(re.findall(r"`(test_\w+)`", section("Invariants")))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))
    assert len(proofs) > 10
    assert [] == [proof for proof in sorted(proofs) if f"def {proof}(" not in tests]


def test_every_message_of_a_pair_is_listed() -> None:
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8").partition("\n## Messages of a pair\n")[2]
    listed = re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
    assert {kind.__name__ for kind in get_args(Message)} == {
        name.strip("`") for row in listed for name in row.split(", ")
    }
