"""Whole builds on this machine: the example project and four functions, with equal code and with more work in one.

From the root of the repository: `python -m benchmarks.live --equal 40 --planted 20 --out builds.jsonl`, with `--busy 4`
beside so many busy processes.
Builds of both kinds take turns in a drawn order; each line of the file is one of them, and a killed run goes on where
it was.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.busy import busy
from pytest_hwperf.core.exact import share_interval

ROOT = Path(__file__).parents[1]
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


def make_project(folder: Path, *, bare: bool) -> None:
    """Make a repository of four functions, and of the example project's logistic regression and pixels."""
    if bare:
        (folder / "tests").mkdir()
        (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    else:
        shutil.copytree(ROOT / "example_project", folder, dirs_exist_ok=True)
        for name in ("test_forest.py", "test_mlp.py"):  # training them takes longer than everything else together
            (folder / "tests" / name).unlink()
    (folder / "work.py").write_text(WORK.format(units=UNITS), encoding="utf-8")
    (folder / "tests" / "test_work.py").write_text(TESTS, encoding="utf-8")
    identity = ("-c", "user.name=benchmarks", "-c", "user.email=benchmarks@example.org")
    for arguments in (("init", "--quiet", "."), ("add", "."), ("commit", "--quiet", "--message=base")):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)


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
    judgements = json.loads(report.read_text(encoding="utf-8"))["report"]["judgements"]
    found = [(judgement["run"]["test"], verdict) for judgement in judgements for verdict in judgement["verdicts"]]
    return {
        "code": done.returncode,
        "seconds": round(seconds, 1),
        "load": round(os.getloadavg()[0], 2),
        "tests": len(judgements),
        "red": sorted({test for test, verdict in found if verdict["fails"]}),
        "reasons": [verdict["reason"] for _, verdict in found if verdict["fails"]],
        "undecided": sum(verdict["outcome"] == "inconclusive" for _, verdict in found),
        "stages": json.loads(report.read_text(encoding="utf-8"))["report"]["gates"][0]["seconds"],
    }


def render(rows: Sequence[dict[str, Any]]) -> str:
    """Count what the builds came to."""
    lines = []
    for units in sorted({row["units"] for row in rows}):
        what = "equal code" if units == UNITS else f"+{units - UNITS} % work in one function"
        chosen = [row for row in rows if row["units"] == units and "error" not in row]
        if not chosen:
            continue
        red, only = sum(bool(row["red"]) for row in chosen), sum(row["red"] == [BLAMED] for row in chosen)
        low, high = share_interval(red, len(chosen), 0.95)
        middle = sorted(row["seconds"] for row in chosen)[len(chosen) // 2]
        lines.append(
            f"{what}: {red} of {len(chosen)} builds red ({low:.1%} .. {high:.1%}, Clopper-Pearson 95 %), "
            f"{only} blame test_product alone; {middle:.0f} s a build in the middle, {chosen[0]['tests']} runs, "
            f"{sum(row['undecided'] for row in chosen)} comparisons inconclusive"
        )
    lines.append(f"errors: {sum('error' in row for row in rows)}")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing in the file, then count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equal", type=int, default=40)
    parser.add_argument("--planted", type=int, default=20)
    parser.add_argument("--more", type=int, default=6, help="of the work in one function, in percent")
    parser.add_argument("--busy", type=int, default=0, help="busy processes beside")
    parser.add_argument("--out", type=Path, default=Path("builds.jsonl"))
    parser.add_argument("--tests", nargs="*", default=[], help="of the project; default: all")
    parser.add_argument("--bare", action="store_true", help="the four functions alone, without the example project")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    order = [UNITS] * options.equal + [UNITS + options.more] * options.planted
    random.Random(1).shuffle(order)
    beside = busy(options.busy) if options.busy else nullcontext()
    with tempfile.TemporaryDirectory(prefix="hwperf-live-") as folder, beside:
        make_project(Path(folder), bare=options.bare)
        for units in order[len(rows) :]:
            rows.append({"units": units, **build(Path(folder), units, options.tests)})
            with options.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(rows[-1]) + "\n")
            print(rows[-1], flush=True)
    print(render(rows))


if __name__ == "__main__":
    main()
