"""The import graph of the package: no circle, also by imports inside functions and for annotations, and few floors."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "pytest_hwperf"
ROOT = Path(__file__).parents[1] / PACKAGE
MOST_FLOORS = 8
Graph = Mapping[str, frozenset[str]]  # module → modules that it imports


def sources_of(root: Path) -> dict[str, str]:
    """Return module name → source of every file below a package's folder."""
    found = {}
    for path in root.rglob("*.py"):
        parts = [root.name, *path.relative_to(root).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def graph_of(sources: Mapping[str, str]) -> Graph:
    """Return the imports among these modules; a package is imported where a name of its own file is."""
    return {name: frozenset(_imported(name, ast.parse(text), sources)) for name, text in sources.items()}


def _imported(name: str, tree: ast.AST, known: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            asked = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            asked = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for one in asked:
            module = one if one in known else one.rpartition(".")[0]
            if module in known and module != name:
                yield module


def floors_of(graph: Graph, folder: str) -> int:
    """Return the longest chain of imports among the modules of a folder, those of folders below it left out."""
    inside = {name for name in graph if name.rpartition(".")[0] == folder}
    floors = dict[str, int]()
    for name in TopologicalSorter({name: graph[name] & inside for name in inside}).static_order():
        floors[name] = 1 + max((floors[below] for below in graph[name] & inside), default=0)
    return max(floors.values(), default=0)


@cache
def graph() -> Graph:
    sources = sources_of(ROOT)
    assert f"{PACKAGE}.plugin.hooks" in sources
    # The public names are those of other modules, each loaded at its first use: nothing of them is needed to load it.
    return {name: imports for name, imports in graph_of(sources).items() if name != PACKAGE}


def circle_of(found: Graph) -> list[str]:
    """Return modules that import each other in a circle, [] where there is none."""
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert [] == circle_of(graph())


@pytest.mark.parametrize(
    "back",
    ["import p.a\n", "def f():\n    from p.a import x\n", "if TYPE_CHECKING:\n    from p import a\n"],
    ids=["at the top", "inside a function", "for annotations"],
)
def test_a_planted_circle_is_found(back: str) -> None:
    circle = circle_of(graph_of({"p": "", "p.a": "from p.b import y\n", "p.b": back}))
    assert {"p.a", "p.b"} <= {*circle}


def test_no_folder_has_many_floors() -> None:
    folders = {name.rpartition(".")[0] for name in graph()}
    floors = {folder: floors_of(graph(), folder) for folder in folders}
    assert {} == {folder: found for folder, found in floors.items() if found > MOST_FLOORS}
    assert 3 == floors_of(graph_of({"p.a": "import p.b", "p.b": "import p.c", "p.c": "", "p.d": "import p.c"}), "p")
