"""Equal tests on a machine that is busy: how many the gate calls equivalent within its default time.

    python -m benchmarks loaded

It takes as long as a gate may, 600 s. Twelve tests of several kinds are gated against a commit of the same code, with
`--hwperf-prove-equal`, while so many processes compute. Further pairs come after everything else, so that the same
pairs without them say what the gate would have found without the option.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.arms import busy
from benchmarks.projects import commit
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.evidence import Evidence, Hypothesis
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.verdict import Comparison, ComparisonOutcome
from pytest_hwperf.stats.pairs.sequence import decide

TIME_S, PROCESSES = 600, 5
_SETTLING_S = 20  # in which the load rises
_OUTCOMES: Sequence[ComparisonOutcome] = ("equivalent", "improved", "inconclusive", "regressed")
_TESTS = r"""
import json
import re

import numpy as np
import pytest

ROWS = [{"number": number, "text": f"row {number}", "values": [number / 7] * 5} for number in range(400)]
TEXT = json.dumps(ROWS)
MATRIX = np.random.default_rng(1).normal(size=(160, 160)).astype("float32")
ARRAY = np.random.default_rng(2).normal(size=200_000)


def looped(count):
    total = 0
    for number in range(count):
        total += number * number % 7
    return total


def chained(layers):
    values = MATRIX
    for _ in range(layers):
        values = np.maximum(values @ MATRIX * 0.01, 0)
    return values


@pytest.mark.parametrize("count", [300, 5_000, 50_000, 300_000])
def test_loop(hwperf, count):
    hwperf(looped, count)


@pytest.mark.parametrize("layers", [1, 10, 60])
def test_matrices(hwperf, layers):
    hwperf(chained, layers)


def test_sort(hwperf):
    hwperf(np.sort, ARRAY)


def test_parse(hwperf):
    hwperf(json.loads, TEXT)


def test_write(hwperf):
    hwperf(json.dumps, ROWS)


def test_words(hwperf):
    hwperf(re.findall, r"\w+ \d+", TEXT)


def test_sorted_in_place(hwperf):
    hwperf(list.sort, setup=lambda: ([list(ARRAY[:20_000])], {}))
"""


def gated(folder: Path, report: Path, time_s: float) -> Evidence:
    """Gate twelve tests of equal code, and return what the verdicts rest on."""
    commit(folder, {"test_equal.py": _TESTS})
    words = ("-m", "pytest", "-q", f"--hwperf-report={report}", "--hwperf-against=HEAD", "-p", "no:cacheprovider")
    options = (f"--hwperf-time-limit={time_s:g}", "--hwperf-explain=never", "--hwperf-prove-equal")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words, *options], cwd=folder, check=False, capture_output=True, text=True, env=environment
    )
    if not report.exists():
        raise SystemExit(f"exit code {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")
    (gate,) = from_json(ReportFile, report.read_text(encoding="utf-8")).report.gates
    print(done.stdout.splitlines()[-1])
    return gate.evidence


def shown(evidence: Evidence) -> Iterator[str]:
    """Yield the outcomes of the median latencies, without further pairs and with them."""
    answers = {
        "without": decide(replace(evidence, until_equivalent=False)),
        "with `--hwperf-prove-equal`": decide(evidence),
    }
    counts = {name: Counter(one.outcome for one in _medians(found).values()) for name, found in answers.items()}
    rows = [(name, *(count[outcome] for outcome in _OUTCOMES)) for name, count in counts.items()]
    yield tables.markdown(("further pairs", *_OUTCOMES), rows)
    rows = [
        (asked.measurement.test.rpartition("::")[2], one.pairs, _change(one), one.outcome, _preempted(one))
        for asked, one in _medians(decide(evidence)).items()
    ]
    yield tables.markdown(("test", "pairs", "change, %", "", "blocks preempted"), rows)


def _medians(found: Mapping[Hypothesis, Comparison]) -> dict[Hypothesis, Comparison]:
    return {asked: one for asked, one in found.items() if asked.margin.key == MEDIAN_LATENCY}


def _change(found: Comparison) -> str:
    if found.change is None or found.change.low is None or found.change.high is None:
        return "n/a"
    return f"{100 * found.change.value:+.2f} ({100 * found.change.low:+.2f} .. {100 * found.change.high:+.2f})"


def _preempted(found: Comparison) -> str:
    return "n/a" if found.interference is None else f"{100 * found.interference:.0f} %"


def main() -> None:
    """Gate once beside busy processes, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=PROCESSES, help="that compute meanwhile (default: 5)")
    parser.add_argument("--time", type=float, default=TIME_S, help="of the gate, in seconds (default: 600)")
    parser.add_argument("--keep", type=lambda path: Path(path).resolve(), help="file for the report, as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, busy(asked.processes):
        time.sleep(_SETTLING_S if asked.processes else 0)
        load, began = os.getloadavg()[0], time.monotonic()
        evidence = gated(Path(folder), asked.keep or Path(folder, "report.json"), asked.time)
        pairs = Counter(pair.stage for pair in evidence.pairs)
        taken = time.monotonic() - began
        print(f"load {load:.1f} before and {os.getloadavg()[0]:.1f} after, {taken:.0f} s, {dict(pairs)}")
        print(*shown(evidence), sep="\n\n", flush=True)
