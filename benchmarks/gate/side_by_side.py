"""Whether pairs side by side pay here: the spread of equal pairs, and their wall time, for one and more at once.

    python -m benchmarks side_by_side --pairs 12 --at-once 1 2

It needs as many free processors as pairs run at once; numpy and scikit-learn are the workloads' own.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import arms, projects, tables
from benchmarks.arms import Record
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.metrics import MEDIAN_LATENCY
from pytest_hwperf.records.report import ReportFile
from pytest_hwperf.stats.pairs.sequence import SCREEN_PAIRS

WORKLOADS = """
import numpy as np
from sklearn.linear_model import LogisticRegression

A = np.random.default_rng(0).random((48, 48))
X = np.random.default_rng(0).random((256, 20))
MODEL = LogisticRegression().fit(X, X[:, 0] > 0.5)


def test_numpy_25_us(hwperf):
    hwperf(lambda: A @ A)


def test_sklearn_200_us(hwperf):
    hwperf(lambda: MODEL.predict(X))


def test_python_1_ms(hwperf):
    hwperf(lambda: sum(i * i for i in range(20_000)))
"""


def make(folder: Path) -> Path:
    """Write the same tests twice."""
    tests = {"test_workloads.py": WORKLOADS, "pytest.ini": "[pytest]\n"}
    projects.write(folder, {f"{side}/{name}": text for side in ("here", "same") for name, text in tests.items()})
    return folder


def build(folder: Path, at_once: int) -> dict[str, Any]:
    """Run one build of equal code; return the log ratios of the screen's pairs by test, their number and their time.

    Of the screen alone: what looked slower by chance has more pairs, which chose it.
    """
    report = folder / "report.json"
    options = [f"--hwperf-against={folder / 'same'}", f"--hwperf-parallel={at_once}", f"--hwperf-report={report}"]
    line = [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", "--hwperf-energy=off", *options]
    subprocess.run([*line, "--hwperf-explain=never"], cwd=folder / "here", check=True, stdout=subprocess.DEVNULL)
    gates = from_json(ReportFile, report.read_bytes()).report.gates
    screen = [pair for gate in gates for pair in gate.evidence.pairs if pair.stage == "screen"]
    changes = dict[str, list[float]]()
    for one in (one for pair in screen for one in pair.observations):
        if (one.metric, one.statistic) == MEDIAN_LATENCY and one.change is not None:
            changes.setdefault(one.measurement.test.partition("::")[2], []).append(one.change)
    return {"changes": changes, "pairs": len(screen), "seconds": sum(gate.seconds["screen"] for gate in gates)}


def rows(records: Sequence[Record]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each number of pairs at once and each workload."""
    for at_once in sorted({record["at once"] for record in records}):
        mine = [record for record in records if record["at once"] == at_once]
        each_s = sum(record["seconds"] for record in mine) / sum(record["pairs"] for record in mine)
        for test in mine[0]["changes"]:
            changes = [change for record in mine for change in record["changes"].get(test, ())]
            low, _, high = statistics.quantiles(changes, n=4)
            spread = f"{100 * statistics.stdev(changes):.2f}", f"{100 * (high - low):.2f}"
            yield test, at_once, len(changes), *spread, f"{each_s:.2f}"


def main() -> None:
    """Let builds with one and with more pairs at once take turns, and print the table."""
    parser = arms.parser(__doc__, "side_by_side.jsonl")
    parser.add_argument("--pairs", type=int, default=12, help="of each workload at least")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2])
    asked = parser.parse_args()
    drawn = arms.drawn(asked.at_once, -(-asked.pairs // SCREEN_PAIRS))
    turns = ({"round": number, "at once": at_once} for number, at_once in drawn)
    with tempfile.TemporaryDirectory() as name:
        folder = cache(lambda: make(Path(name)))  # by the first build
        records = arms.run(asked, turns, lambda turn: build(folder(), turn["at once"]))
    print(tables.markdown(("workload", "at once", "pairs", "sd, %", "IQR, %", "wall time a pair, s"), rows(records)))
