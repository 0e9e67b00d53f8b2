"""The architecture page is held against the package: picture, roads, code map, invariants and messages of a pair.

The code map is generated. After a file was moved or its docstring changed, write the map again with
`python -m pytest tests/test_architecture_page.py --update-golden`.
"""

import ast
import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest

from pytest_hwperf.pairs.channel import Message

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_hwperf"
PAGE = ROOT / "docs" / "architecture.md"
ROADS = ("From marker to verdict", "From `--hwperf-against` to the comparison line")

_COLUMN = 26  # where the sentences of the code map begin
_DOCSTRING = re.compile(r'r?"""(.*?)"""', re.DOTALL)  # read so, since parsing every file whole takes seconds
_FILE = re.compile(r"`((?:[\w.-]+/)+\w+\.py)`")


def section(title: str) -> str:
    """Return the text under one heading of the second level."""
    return PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def block(title: str) -> str:
    """Return the first fenced block of plain text under a heading."""
    return section(title).partition("```text\n")[2].partition("```")[0]


def storeys() -> list[list[str]]:
    """Return the layers that import-linter enforces, the uppermost first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring, without its full stop; of no module there is none."""
    if not path.exists():  # a folder of files that another program runs, as Alembic does
        return ""
    docstring = _DOCSTRING.match(path.read_text(encoding="utf-8"))
    return re.split(r"(?<=[.!?])\s", docstring[1], maxsplit=1)[0].rstrip(".") if docstring else ""


def code_map() -> str:
    """Return a line for each file of the package, folder by folder in the order of the storeys."""
    return "\n".join(chain.from_iterable(map(_folder, _folders())))


def _folders() -> list[Path]:
    """Return every folder of the package, each before those inside it."""
    rooms = [PACKAGE / name for name in chain.from_iterable(storeys()) if (PACKAGE / name).is_dir()]
    unplaced = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE, *rooms}
    inner = {room: sorted(folder for folder in unplaced if room in folder.parents) for room in rooms}
    others = sorted(unplaced - {*chain.from_iterable(inner.values())})
    return [PACKAGE, *chain.from_iterable((room, *inner[room]) for room in rooms), *others]


def _folder(folder: Path) -> list[str]:
    name = f"{folder.relative_to(PACKAGE.parent if folder == PACKAGE else PACKAGE).as_posix()}/"
    lines = [_line(name, first_sentence(folder / "__init__.py"))]
    files = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    return [*lines, *(_line(f"    {path.name}", first_sentence(path)) for path in files)]


def _line(name: str, sentence: str) -> str:
    return f"{name:{_COLUMN - 2}}  {sentence}".rstrip()


def test_the_code_map_is_the_package(request: pytest.FixtureRequest) -> None:
    """Each file stands in it with the first sentence of its docstring."""
    shown, actual = block("Code map"), f"{code_map()}\n"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(shown, actual), encoding="utf-8")
        return
    assert actual == shown, "write it again: python -m pytest tests/test_architecture_page.py --update-golden"


def test_packages_hold_a_docstring_only() -> None:
    """Code stands in named files; the hooks and the command line's entry are the exceptions, and the public names."""
    exceptions = {PACKAGE, PACKAGE / "plugin", PACKAGE / "cli"}
    packages = [path for path in PACKAGE.rglob("__init__.py") if path.parent not in exceptions]
    assert [] == [path for path in packages if len(ast.parse(path.read_text(encoding="utf-8")).body) > 1]


def test_the_picture_has_every_storey_in_its_order() -> None:
    drawn = [re.findall(r"\b(\w+)(?:/|\.py)", storey) for storey in re.split("─+", block("Storeys"))]
    assert [sorted(layer) for layer in storeys()] == [sorted(names) for names in drawn]


@pytest.mark.parametrize("road", ROADS)
def test_a_road_visits_each_file_once(road: str) -> None:
    files = _FILE.findall(section(road))
    assert len(files) > 5
    assert [] == [file for file in files if files.count(file) > 1]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_file_named_exists(page: Path) -> None:
    """In the package, in the repository or in the example project."""
    named = _FILE.findall(page.read_text(encoding="utf-8"))
    places = (PACKAGE, ROOT, ROOT / "example_project")
    assert [] == [file for file in named if not any((place / file).is_file() for place in places)]


def test_every_invariant_names_a_test_that_exists() -> None:
    rules = re.findall(r"^\| (\d) \|.*$", section("Invariants"), re.MULTILINE)
    proofs = set(re.findall(r"`(test_\w+)`", section("Invariants")))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))
    assert ["1", "2", "3", "4", "5", "6", "7"] == rules
    assert [] == [proof for proof in sorted(proofs) if f"def {proof}(" not in tests]


def test_every_message_of_a_pair_is_listed() -> None:
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8").partition("\n## Messages of a pair\n")[2]
    listed = re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
    assert {kind.__name__ for kind in get_args(Message)} == {
        name.strip("`") for row in listed for name in row.split(", ")
    }
