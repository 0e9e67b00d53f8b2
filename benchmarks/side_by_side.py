"""Whether pairs side by side pay here: the spread of equal pairs, and their wall time, for one and more at once.

From the root of the repository: `python -m benchmarks.side_by_side --pairs 12 --at-once 1 2`. It needs as many free
processors as pairs run at once; numpy and scikit-learn are the workloads' own.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_hwperf.core.codec import from_json
from pytest_hwperf.core.metrics import MEDIAN_LATENCY
from pytest_hwperf.core.report import Report, ReportFile
from pytest_hwperf.core.screen import SCREEN_PAIRS

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


def build(folder: Path, at_once: int) -> Report:
    """Run one build of equal code."""
    report = folder / "report.json"
    options = [f"--hwperf-against={folder / 'same'}", f"--hwperf-parallel={at_once}", f"--hwperf-report={report}"]
    line = [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", "--hwperf-energy=off", *options]
    subprocess.run([*line, "--hwperf-explain=never"], cwd=folder / "here", check=True, stdout=subprocess.DEVNULL)
    return from_json(ReportFile, report.read_bytes()).report


def project(folder: Path) -> None:
    """Write the same tests twice."""
    for name in ("here", "same"):
        place = folder / name
        place.mkdir()
        (place / "test_workloads.py").write_text(WORKLOADS, encoding="utf-8")
        (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")


def spreads(reports: Sequence[Report]) -> dict[str, list[float]]:
    """Return the log ratios of the screen's pairs, by test: what looked slower by chance has more, which chose it."""
    found = dict[str, list[float]]()
    for pair in (pair for report in reports for gate in report.gates for pair in gate.evidence.pairs):
        for one in pair.observations:
            if pair.stage == "screen" and (one.metric, one.statistic) == MEDIAN_LATENCY and one.change is not None:
                found.setdefault(one.measurement.test.partition("::")[2], []).append(one.change)
    return found


def table(at_once: int, reports: Sequence[Report]) -> list[str]:
    """Return a row for each workload."""
    gates = [gate for report in reports for gate in report.gates]
    screens = sum(pair.stage == "screen" for gate in gates for pair in gate.evidence.pairs)
    each_s = sum(gate.seconds["screen"] for gate in gates) / screens
    rows = []
    for test, changes in spreads(reports).items():
        low, _, high = statistics.quantiles(changes, n=4)
        sd = 100 * statistics.stdev(changes)
        rows.append(f"| {test} | {at_once} | {len(changes)} | {sd:.2f} | {100 * (high - low):.2f} | {each_s:.2f} |")
    return rows


def main() -> None:
    """Let builds with one and with more pairs at once take turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=12, help="of each workload at least")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    reports: dict[int, list[Report]] = {number: [] for number in options.at_once}
    with tempfile.TemporaryDirectory() as name:
        project(Path(name))
        for _ in range(-(-options.pairs // SCREEN_PAIRS)):
            for number, seen in reports.items():
                seen.append(build(Path(name), number))
    print("| workload | at once | pairs | sd, % | IQR, % | wall time a pair, s |\n|---|---|---|---|---|---|")
    for number, seen in reports.items():
        print("\n".join(table(number, seen)))


if __name__ == "__main__":
    main()
