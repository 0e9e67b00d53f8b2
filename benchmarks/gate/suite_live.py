"""Gates of many tests on this machine, one of which has become slower: what the simulations of `suite_size` expect.

    python -m benchmarks suite_live [NUMBER ...]

Each suite is a repository of two commits, gated once with every default but the time.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks import arms, tables
from benchmarks.projects import commit

_UNITS_A_MS = 250  # of work; about a millisecond on one processor of 2020
_WORK = """
UNITS = {units}
MORE = {more}


def call(number):
    total = 0
    for one in range(int(UNITS * MORE.get(number, 1))):
        for other in range(100):
            total += one * other
    return total
"""
_TEST = """

def test_{number}(hwperf):
    hwperf(work.call, {number})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests of one duration, of which at most one is slower now."""

    tests: int
    call_ms: float
    factor: float  # of the slower one; 1: none is
    time_s: int  # that is given

    def __str__(self) -> str:
        """Say what it is."""
        change = "" if self.factor == 1 else f", one ×{self.factor:g}"
        return f"{self.tests} of {self.call_ms:g} ms{change}, {self.time_s} s"


SUITES = (
    Suite(tests=10, call_ms=0.1, factor=1, time_s=600),
    Suite(tests=1, call_ms=50, factor=2, time_s=600),
    Suite(tests=1, call_ms=50, factor=24, time_s=600),
    Suite(tests=60, call_ms=1, factor=3, time_s=120),
    Suite(tests=20, call_ms=50, factor=1.1, time_s=600),
    Suite(tests=200, call_ms=1, factor=1.1, time_s=600),
    Suite(tests=200, call_ms=1, factor=1, time_s=600),
    Suite(tests=1000, call_ms=1, factor=1.3, time_s=1200),
)


def gated(suite: Suite, folder: Path) -> dict[str, object]:
    """Make a suite, gate it, and return what was found."""
    slow = Random(suite.tests).randrange(suite.tests)
    for more in ({}, {slow: suite.factor}):
        commit(folder, files(suite, more))
    report = folder / "report.json"
    words = ("-m", "pytest", "-q", f"--hwperf-report={report}", "--hwperf-against=HEAD~1", "-p", "no:cacheprovider")
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, *words, f"--hwperf-time-limit={suite.time_s}", "--hwperf-explain=never"],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - began
    if not report.exists():
        raise SystemExit(f"exit code {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")
    outcomes = {
        judgement["run"]["test"].rpartition("::")[2]: verdict["subject"]["outcome"]
        for judgement in json.loads(report.read_text())["report"]["judgements"]
        for verdict in judgement["verdicts"]
        if verdict["subject"].get("metric") == "latency" and verdict["subject"].get("statistic") == "p50"
    }
    regressed = {name for name, outcome in outcomes.items() if outcome == "regressed"}
    is_right = regressed == (set() if suite.factor == 1 else {f"test_{slow}"})
    counts = Counter(outcomes.values()).most_common()
    return {
        "found": "as planted" if is_right else "WRONG",
        "outcomes": ", ".join(f"{count} {outcome}" for outcome, count in counts),
        "exit code": done.returncode,
        "seconds": round(seconds),
    }


def files(suite: Suite, more: dict[int, float]) -> dict[str, str]:
    """Return the files of a suite in which some tests take so many times as long."""
    tests = "".join(_TEST.format(number=number) for number in range(suite.tests))
    return {
        "work.py": _WORK.format(units=suite.call_ms * _UNITS_A_MS, more=more),
        "test_suite.py": f"import work\n\n{tests}",
        "pytest.ini": "[pytest]\npythonpath = .\n",
    }


def main() -> None:
    """Run suites and print a row for each."""
    parser = arms.parser(__doc__, "suite_live.jsonl")
    listed = "; ".join(f"{number}: {suite}" for number, suite in enumerate(SUITES))
    parser.add_argument("suites", nargs="*", type=int, default=range(len(SUITES)), help=f"numbers ({listed})")
    asked = parser.parse_args()
    suites = {str(SUITES[number]): SUITES[number] for number in asked.suites}

    def build(turn: arms.Turn) -> dict[str, object]:
        with tempfile.TemporaryDirectory() as folder:
            return gated(suites[turn["suite"]], Path(folder))

    records = arms.run(asked, ({"suite": name} for name in suites), build)
    rows = ([one[key] for key in ("suite", "found", "outcomes", "exit code", "seconds", "load")] for one in records)
    print(tables.markdown(("suite", "found", "outcomes", "exit code", "s", "load before"), rows))
