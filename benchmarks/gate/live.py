"""Real builds of equal code, and of more work in one function: how many are red, and what they blame.

    python -m benchmarks live --bare --equal 40 --planted 20 --out builds.jsonl

The example project and four functions, or with `--bare` these functions alone; `--busy 4` beside so many busy
processes. Builds of both kinds take turns in a drawn order.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import arms, tables
from benchmarks.arms import Record
from benchmarks.projects import ROOT, commit

UNITS = 100
BLAMED = "tests/test_work.py::test_product"
WORK = '''
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

UNITS = {units}
A = np.random.default_rng(0).random((48, 48), dtype=np.float32)


def product():
    """UNITS products of small matrices: 0.2 to 0.3 ms."""
    for _ in range(UNITS):
        A @ A


def words():
    """Count the words of a text in a dictionary: 0.3 ms."""
    counts = {{}}
    for word in ("the quick brown fox jumps over the lazy dog " * 300).split():
        counts[word] = counts.get(word, 0) + 1


def ordered():
    """Sort 4,000 numbers: 0.3 ms."""
    sorted(range(4000), key=lambda one: -one)


def session():
    """A chain of 8 products of 128 x 128, on two threads."""
    weights = np.full((128, 128), 1 / 128, dtype=np.float32)
    nodes = [helper.make_node("MatMul", [f"x{{n}}", "w"], [f"x{{n + 1}}"]) for n in range(8)]
    shape = [128, 128]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("x8", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    found = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    rows = np.ones(shape, dtype=np.float32)
    return lambda: found.run(None, {{"x0": rows}})
'''
TESTS = """
import work


def test_product(hwperf):
    hwperf(work.product)


def test_words(hwperf):
    hwperf(work.words)


def test_ordered(hwperf):
    hwperf(work.ordered)


def test_two_threads(hwperf):
    hwperf(work.session())
"""


def make_project(folder: Path, *, bare: bool) -> Path:
    """Make a repository of four functions, and of the example project's logistic regression and pixels."""
    files = {"work.py": WORK.format(units=UNITS), "tests/test_work.py": TESTS}
    if not bare:
        shutil.copytree(ROOT / "example_project", folder, dirs_exist_ok=True)
        for name in ("test_forest.py", "test_mlp.py"):  # training them takes longer than everything else together
            (folder / "tests" / name).unlink()
    commit(folder, {**files, "pytest.ini": "[pytest]\npythonpath = .\n"} if bare else files)
    return folder


def build(folder: Path, units: int, tests: Sequence[str]) -> dict[str, Any]:
    """Run one build and say what it came to."""
    # A comment changes too: the file is never byte for byte the baseline's.
    (folder / "work.py").write_text(f"# a harmless edit\n{WORK.format(units=units)}", encoding="utf-8")
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:benchmark", "--hwperf-against=HEAD"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--hwperf-energy=off", f"--hwperf-report={report}", *tests],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    if not report.exists():
        return {"code": done.returncode, "seconds": seconds, "error": done.stdout[-1500:] + done.stderr[-500:]}
    said = json.loads(report.read_text(encoding="utf-8"))["report"]
    found = [
        (judgement["run"]["test"], verdict) for judgement in said["judgements"] for verdict in judgement["verdicts"]
    ]
    return {
        "code": done.returncode,
        "seconds": round(seconds, 1),
        "tests": len(said["judgements"]),
        "red": sorted({test for test, verdict in found if verdict["fails"]}),
        "reasons": [verdict["reason"] for _, verdict in found if verdict["fails"]],
        "undecided": sum(verdict["outcome"] == "inconclusive" for _, verdict in found),
        "stages": said["gates"][0]["seconds"],
    }


def table(records: Sequence[Record]) -> str:
    """Count what the builds came to."""
    rows = []
    for units in sorted({record["units"] for record in records}):
        mine = [record for record in records if record["units"] == units]
        chosen = [record for record in mine if "error" not in record]
        if not chosen:
            continue
        what = "equal code" if units == UNITS else f"+{units - UNITS} % work in one function"
        red, only = sum(bool(one["red"]) for one in chosen), sum(one["red"] == [BLAMED] for one in chosen)
        seconds = sorted(one["seconds"] for one in chosen)[len(chosen) // 2]
        tests, undecided = chosen[0]["tests"], sum(one["undecided"] for one in chosen)
        errors = f"{len(mine) - len(chosen)} of {len(mine)}"
        rows.append((what, tables.share(red, len(chosen)), only, f"{seconds:.0f}", tests, undecided, errors))
    head = ("", "builds red", "blame that function alone", "median seconds", "runs", "inconclusive", "errors")
    return tables.markdown(head, rows)


def main() -> None:
    """Run what is missing in the file, then count."""
    parser = arms.parser(__doc__, "builds.jsonl")
    parser.add_argument("--equal", type=int, default=40)
    parser.add_argument("--planted", type=int, default=20)
    parser.add_argument("--more", type=int, default=6, help="of the work in one function, in percent")
    parser.add_argument("--busy", type=int, default=0, help="processes that compute meanwhile (default: 0)")
    parser.add_argument("--tests", nargs="*", default=[], help="of the project; default: all")
    parser.add_argument("--bare", action="store_true", help="the four functions alone, without the example project")
    asked = parser.parse_args()
    order = [UNITS] * asked.equal + [UNITS + asked.more] * asked.planted
    random.Random(1).shuffle(order)
    turns = ({"round": number, "units": units} for number, units in enumerate(order))
    with tempfile.TemporaryDirectory(prefix="hwperf-live-") as name, arms.busy(asked.busy):
        project = cache(lambda: make_project(Path(name), bare=asked.bare))  # by the first build
        records = arms.run(asked, turns, lambda turn: build(project(), turn["units"], asked.tests))
    print(table(records))
