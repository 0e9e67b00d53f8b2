"""How much of the package a run goes through: its files and functions that are entered, and files that call each other.

    python -m benchmarks.roads

Each road is one real run in a project of its own. Its own process is watched by a profile hook; the fresh processes
that it starts are not.
"""

import json
import runpy
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest_hwperf

PACKAGE = str(Path(pytest_hwperf.__file__).parent)
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
    """Go all roads, or watch one command where its output is named."""
    if sys.argv[1:2] == ["--watch"]:
        _watch(Path(sys.argv[2]), sys.argv[3:])
        return
    print("| road | files | functions | files that call each other |\n|---|---|---|---|")
    for name, commands in ROADS.items():
        with tempfile.TemporaryDirectory(prefix="roads-") as folder:
            found = _gone(Path(folder), commands)
        both = sorted({tuple(sorted(edge)) for edge in found["calls"] if edge[::-1] in found["calls"]})
        files = {file for file, _ in found["functions"]}
        print(f"| {name} | {len(files)} | {len(found['functions'])} | {len(both)}: {_listed(both)} |", flush=True)


def _listed(pairs: Sequence[Sequence[str]]) -> str:
    return ", ".join(f"{one} ↔ {other}" for one, other in pairs)


def _gone(folder: Path, commands: Sequence[Sequence[str]]) -> dict[str, Any]:
    import numpy as np

    (folder / "model.py").write_text(MODEL)
    (folder / "test_model.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    np.save(folder / "rows.npy", np.ones((32, 8), "float32"))
    git = ("git", "-c", "user.name=roads", "-c", "user.email=roads@example.org")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "project"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    for command in commands[:-1]:
        subprocess.run([sys.executable, "-m", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    out = folder / "road.json"
    watched = [sys.executable, __file__, "--watch", str(out), *commands[-1]]
    done = subprocess.run(watched, cwd=folder, check=False, capture_output=True, text=True)
    if not out.exists():
        raise SystemExit(done.stdout + done.stderr)
    found = json.loads(out.read_text())
    return {"functions": found["functions"], "calls": {tuple(edge) for edge in found["calls"]}}


def _watch(out: Path, command: Sequence[str]) -> None:
    """Run a module as a program, and write what of the package was entered, and which file has called which."""
    functions, calls = set[tuple[str, str]](), set[tuple[str, str]]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        file = frame.f_code.co_filename[len(PACKAGE) + 1 :]
        functions.add((file, f"{frame.f_code.co_qualname}:{frame.f_code.co_firstlineno}"))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
            calls.add((caller.f_code.co_filename[len(PACKAGE) + 1 :], file))

    sys.argv = [*command]
    sys.path[0] = ""
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        out.write_text(json.dumps({"functions": sorted(functions), "calls": sorted(calls)}))


if __name__ == "__main__":
    main()
