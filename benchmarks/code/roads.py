"""How much of the package a run goes through: its files and functions that are entered, and files that call each other.

    python -m benchmarks roads

Each road is one real run in a project of its own. Its own process is watched by a profile hook; the fresh processes
that it starts are not.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.projects import commit

WATCHER = Path(__file__).with_name("watching.py")
MODEL = """
def predict(values):
    return sum(value * value for value in values)

def predict_again(values):
    return sum(value ** 2 for value in values)
"""
TEST = """
import pytest
from model import predict

@pytest.mark.hwbudget(latency_p95_ms=1000)
def test_predict(hwperf):
    hwperf(predict, range(1000))
"""
QUICK = ("-q", "--hwperf-energy=off", "--hwperf-sample-time=0.2", "-p", "no:cacheprovider")
ROADS: Mapping[str, Sequence[Sequence[str]]] = {  # the last command of each is watched
    "budget on a callable": [["pytest", *QUICK]],
    "stored comparison": [
        ["pytest", *QUICK, "--hwperf-save"],
        ["pytest", *QUICK, "--hwperf-compare", "-o", "hwperf_rerun=never"],
    ],
    "the gate's own process": [["pytest", *QUICK, "--hwperf-against=HEAD"]],
    "hwperf compare of two functions": [
        ["pytest_hwperf.cli", "compare", "model:predict", "model:predict_again", "--data=rows.npy", "--time=20"]
    ],
}


def main() -> None:
    """Go all roads, and print what each of them enters."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = []
    for name, commands in ROADS.items():
        with tempfile.TemporaryDirectory(prefix="roads-") as folder:
            found = _gone(Path(folder), commands)
        both = sorted({tuple(sorted(edge)) for edge in found["calls"] if edge[::-1] in found["calls"]})
        files, listed = {file for file, _ in found["functions"]}, ", ".join(" ↔ ".join(pair) for pair in both)
        rows.append((name, len(files), len(found["functions"]), f"{len(both)}: {listed}"))
        print(name, flush=True)
    print(tables.markdown(("road", "files", "functions", "files that call each other"), rows))


def _gone(folder: Path, commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    import numpy as np

    np.save(folder / "rows.npy", np.ones((32, 8), "float32"))
    commit(folder, {"model.py": MODEL, "test_model.py": TEST, "pytest.ini": "[pytest]\npythonpath = .\n"})
    for command in commands[:-1]:
        subprocess.run([sys.executable, "-m", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    out = folder / "road.json"
    watched = [sys.executable, str(WATCHER), str(out), *commands[-1]]
    done = subprocess.run(watched, cwd=folder, check=False, capture_output=True, text=True)
    if not out.exists():
        raise SystemExit(done.stdout + done.stderr)
    found = json.loads(out.read_text())
    return {"functions": found["functions"], "calls": {tuple(edge) for edge in found["calls"]}}
