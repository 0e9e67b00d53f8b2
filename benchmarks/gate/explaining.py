"""Whether the gate names what was planted: a slow function, an ONNX operator, an allocation; nothing in equal code.

    pip install -e ".[memray]"
    python -m benchmarks explaining 10

Each run is a whole gate in a new repository. The table says how many runs of each case named the planted cause first.
The equal code is explained with `--hwperf-explain=always`, and must name no mover.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import arms, tables
from benchmarks.projects import commit

_LONGEST_S = 1200
_MODEL = """
import re

import numpy as np
from onnx import TensorProto, helper, numpy_helper

REPEATS = 1
HIDDEN = 128


def tokenize(text):
    return [word.lower() for word in re.split(r"\\W+", text)]


def embed(words):
    return [sum(map(ord, word)) for word in words]


def score(text):
    for _ in range(REPEATS):
        words = tokenize(text)
    return sum(embed(words)) + sum(embed(words)[::-1]) + len(words)


def layers():
    weights = np.full((HIDDEN, HIDDEN), 1 / HIDDEN, dtype=np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["a"])]
    nodes += []  # planted here
    nodes += [helper.make_node("MatMul", [nodes[-1].output[0], "w"], ["y"])]
    shape = ["rows", HIDDEN]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "two layers",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def load():
    return [np.ones(2_000_000), *tables()]


def tables():
    return [np.ones(1_000_000)]
"""
_TESTS = """
import numpy as np
import pytest

import model


@pytest.fixture
def hwperf_model():
    return model.layers()


@pytest.fixture
def hwperf_data():
    return np.random.default_rng(0).random((512, model.HIDDEN), dtype=np.float32)


def test_function(hwperf):
    hwperf(model.score, "Hello world, of many words. " * 400)


@pytest.mark.hwscenarios("onnx_file")
def test_operator(hwperf, scenario):
    hwperf(scenario, batch_size=512)


@pytest.mark.hwregression(memory="5%")
def test_allocation(hwperf):
    hwperf(model.load)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is planted, and what has to be named."""

    test: str
    was: str
    now: str
    metric: str
    named: str  # with which the name of the first mover begins


CASES: Mapping[str, Case] = {
    "function": Case(test="function", was="REPEATS = 1\n", now="REPEATS = 2\n", metric="latency", named="tokenize"),
    "operator": Case(
        test="operator",
        was="nodes += []  # planted here",
        now='nodes += [helper.make_node("Erf", ["a"], ["e"])]',
        metric="latency",
        named="Erf",
    ),
    "allocation": Case(
        test="allocation",
        was="return [np.ones(1_000_000)]",
        now="return [np.ones(1_000_000), np.ones(2_000_000)]",
        metric="memory",
        named="tables",
    ),
    "equal": Case(test="", was="", now="", metric="", named=""),
}


def main() -> None:
    """Run the cases in turns, and print what they found."""
    parser = arms.parser(__doc__, "explaining.jsonl")
    parser.add_argument("runs", nargs="?", type=int, default=10, help="of each case")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=[*CASES])
    asked = parser.parse_args()
    turns = ({"round": number, "case": case} for number, case in arms.drawn(asked.cases, asked.runs))
    records = arms.run(asked, turns, lambda turn: _built(CASES[turn["case"]]))
    rows = []
    for case in dict.fromkeys(record["case"] for record in records):
        good = [record["as planted"] for record in records if record["case"] == case]
        rows.append((case, tables.share(sum(good), len(good))))
    print(tables.markdown(("case", "named first, or nothing in equal code"), rows))


def _built(case: Case) -> dict[str, Any]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        is_good, line = _run(case, Path(folder))
    return {"as planted": is_good, "seconds": round(time.monotonic() - began), "said": line}


def _run(case: Case, folder: Path) -> tuple[bool, str]:
    """Run the gate on one case; return whether it found what it should, and what it said."""
    commit(folder, {"model.py": _MODEL, "test_model.py": _TESTS})
    if case.was:
        assert case.was in _MODEL  # noqa: S101 - else nothing would be planted
        (folder / "model.py").write_text(_MODEL.replace(case.was, case.now), encoding="utf-8")
    report = folder / "report.json"
    asked = ["--hwperf-against=HEAD", f"--hwperf-report={report}", "--hwperf-energy=off", "-p", "no:cacheprovider"]
    asked += ["-k", case.test] if case.test else ["--hwperf-explain=always"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *asked],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
    )
    if not report.exists():
        return False, f"exit code {done.returncode}: {(done.stdout + done.stderr)[-300:]}"
    gates = json.loads(report.read_text(encoding="utf-8"))["report"]["gates"]
    explanations = [one for gate in gates for one in gate["explanations"]]
    return _planted_first(case, explanations) if case.named else _nothing(explanations)


def _planted_first(case: Case, explanations: list[dict[str, Any]]) -> tuple[bool, str]:
    """Return whether the planted cause is the first mover of its metric, and what was named."""
    movers = [one["movers"][0] for one in explanations if one["metric"] == case.metric and one["movers"]]
    why = [str(one["withheld"]) for one in explanations if one["withheld"]]
    if not movers:
        return False, f"nothing named; {'; '.join(why) or 'not found'}"
    first = max(movers, key=lambda one: one["share"])
    return first["name"].startswith(case.named), f"{first['name']} {first['where']} {first['share']:.0%} of the change"


def _nothing(explanations: list[dict[str, Any]]) -> tuple[bool, str]:
    """Return whether nothing was named, of several comparisons."""
    named = [f"{one['measurement']['test']}: {one['movers'][0]['name']}" for one in explanations if one["movers"]]
    return bool(explanations) and not named, "; ".join(named) or f"{len(explanations)} explanations, no mover"
