"""The programs of `benchmarks/`, whose functions some tests call."""

import importlib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def functions_of(name: str) -> dict[str, Any]:
    """Return what a program defines: `gate.builds`."""
    if str(ROOT) not in sys.path:  # as of `pytest`; `python -m pytest` has put it there
        sys.path.append(str(ROOT))
    return vars(importlib.import_module(f"benchmarks.{name}"))
