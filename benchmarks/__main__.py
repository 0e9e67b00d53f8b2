"""Run a benchmark: `python -m benchmarks NAME [arguments]`. Without a name it lists all of them.

A benchmark is a module with a function `main` in one of the folders. The list is read from the files: nothing of them
is imported.
"""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
FOLDERS = {
    "gate": "How often is the gate wrong, what does it find, and how long does it take?",
    "cost": "What does measuring cost?",
    "loads": "Do our loads give the figures of other load generators?",
    "stores": "How fast and how safe are stores, and what do stored values tell?",
    "scenarios": "What do runtimes and new versions of a model change?",
    "code": "How well do the tests guard the code, and how much of it does a run enter?",
}


def benchmarks(folder: str) -> dict[str, str]:
    """Return the names in a folder, each with the first line of what it says of itself."""
    found = {}
    for path in sorted((HERE / folder).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def listed() -> Iterator[str]:
    """Yield every folder with its question, and a line for each benchmark in it."""
    for folder, question in FOLDERS.items():
        yield f"{folder}: {question}"
        yield from (f"  {name:15} {line}" for name, line in benchmarks(folder).items())


def main() -> int:
    """List the benchmarks, or run the one that is named."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    folder = next((one for one in FOLDERS if name in benchmarks(one)), None)
    if folder is None:
        print("python -m benchmarks NAME [arguments], with --help for the arguments\n", *listed(), sep="\n")
        return 1 if name else 0
    sys.argv = [f"python -m benchmarks {name}", *sys.argv[2:]]
    return int(importlib.import_module(f"benchmarks.{folder}.{name}").main() or 0)


if __name__ == "__main__":
    sys.exit(main())
