"""Decisions of `hwperf compare` about versions of the example's model whose difference is known.

    python -m benchmarks rollouts --time 120 --runs 1

The example's network as an ONNX file, and functions around it: one that is identical, one that works 10 % longer, one
that is wrong for 4 of 100 rows more, and the same on few rows. Prints what was decided, and whether it is right.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks import arms, tables
from benchmarks.projects import ROOT
from pytest_hwperf.cli import main as hwperf

EXAMPLE = ROOT / "example_project"
MODELS = """
import os
import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession("served.onnx", options, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
LOOPS = int(os.environ.get("ROLLOUT_LOOPS", "0"))


def _labels(X, share):
    labels = session.run(None, {name: X})[0]
    wrong = (X.sum(axis=1).astype(np.int64) * 7919) % 1000 < share
    return np.where(wrong, (labels + 1) % 10, labels)


def served(X):
    return _labels(X, 0)


def slower(X):
    for _ in range(LOOPS):
        pass
    return _labels(X, 0)


def worse(X):
    return _labels(X, 30)
"""


class Case(NamedTuple):
    """Two versions, and what has to be decided."""

    old: str
    new: str
    data: str
    expected: str


CASES = {
    "identical": Case("served.onnx", "copy.onnx", "rows.npz", "go"),
    "10 % slower": Case("rollout_models:served", "rollout_models:slower", "rows.npz", "no-go"),
    "4 points less accurate": Case("rollout_models:served", "rollout_models:worse", "rows.npz", "no-go"),
    "too few examples": Case("rollout_models:served", "rollout_models:worse", "few.npz", "inconclusive"),
}


def prepare(folder: Path) -> None:
    """Write the models and the rows, and say by the environment what is a tenth of a call."""
    sys.path.insert(0, str(EXAMPLE))
    import digits_models  # type: ignore[import-not-found] # of the example
    from skl2onnx import to_onnx

    digits = digits_models.load()
    network = digits_models.train_mlp(digits)
    content = to_onnx(network, digits.X_train[:1], options={"zipmap": False}).SerializeToString()
    for file in ("served.onnx", "copy.onnx"):
        (folder / file).write_bytes(content)
    (folder / "rollout_models.py").write_text(MODELS, encoding="utf-8")
    np.savez(folder / "rows.npz", X=digits.X_test, y=digits.y_test)
    np.savez(folder / "few.npz", X=digits.X_test[:60], y=digits.y_test[:60])
    os.environ["ROLLOUT_LOOPS"] = str(loops_of(0.10, np.load("rows.npz")["X"]))


def loops_of(share: float, rows: Any) -> int:
    """Return how many empty loops take this share of a call."""
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - sys.path holds text
    import rollout_models  # type: ignore[import-not-found] # written by `prepare`

    def seconds(call: Any) -> float:
        taken = []
        for _ in range(300):
            began = time.perf_counter()
            call()
            taken.append(time.perf_counter() - began)
        return median(taken)

    def spin() -> None:
        for _ in range(1000):
            pass

    return round(1000 * share * seconds(lambda: rollout_models.served(rows[:1])) / seconds(spin))


def decided(case: Case, seconds: float) -> dict[str, object]:
    """Return the decision, its headline, and how long it took."""
    began, out = time.monotonic(), io.StringIO()
    with contextlib.redirect_stdout(out):
        hwperf(["compare", case.old, case.new, f"--data={case.data}", f"--time={seconds:g}", "--json=found.json"])
    found = json.loads(Path("found.json").read_bytes())["record"]["decision"]["outcome"]
    headline = " ".join(out.getvalue().partition(" against ")[0].splitlines()[:-1])
    return {"decided": found, "seconds": round(time.monotonic() - began), "headline": headline}


def main() -> int:
    """Print a line for each decision; return 1 where one is wrong."""
    parser = arms.parser(__doc__, "rollouts.jsonl")
    parser.add_argument("--time", type=float, default=120.0, help="seconds of a comparison")
    parser.add_argument("--runs", type=int, default=1, help="of each case")
    asked = parser.parse_args()
    asked.out = asked.out.resolve()
    turns = ({"round": number, "case": name} for number in range(asked.runs) for name in CASES)
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        prepared = cache(lambda: prepare(Path(place)))  # by the first comparison

        def build(turn: arms.Turn) -> dict[str, object]:
            prepared()
            return decided(CASES[turn["case"]], asked.time)

        records = arms.run(asked, turns, build)
    rows = [
        (one["case"], expected, one["decided"], "right" if one["decided"] == expected else "WRONG", *what)
        for one in records
        for expected, what in [(CASES[one["case"]].expected, (one["seconds"], one["headline"]))]
    ]
    print(tables.markdown(("versions", "expected", "decided", "", "s", "headline"), rows))
    return int(any("WRONG" in row for row in rows))
