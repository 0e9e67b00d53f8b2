"""What is reported for a call that does nothing, beside `timeit` in the same process."""

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cost.intervals import Row, answer_about, middle
from pytest_hwperf.records.codec import from_json
from pytest_hwperf.records.report import ReportFile

TARGET_S = 10e-9
_TESTS = Path(__file__).with_name("noop_session.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Seconds per call of one process."""

    hwperf: float  # p50 of latency
    benchmark: float  # median
    timeit: float  # the call with its loop
    loop: float  # timeit's empty loop

    @property
    def expected(self) -> float:
        """The call alone."""
        return self.timeit - self.loop


def measure(folder: Path, rounds: int, seed: int) -> list[Row]:
    """Run `rounds` processes, each with the three ways in random order; return the rows of the table."""
    chance, names = random.Random(seed), ["test_hwperf", "test_benchmark", "test_timeit"]
    found = []
    for number in range(rounds):
        chance.shuffle(names)
        found.append(_reported(folder / f"noop {number}", names))
    off = middle([one.hwperf - one.expected for one in found])
    return [
        Row(
            quantity=f"reported time of a no-op call minus (timeit - its loop), n={rounds} processes",
            target="within 10 ns",
            hwperf=off.show(1e9, "ns", 1),
            benchmark=middle([one.benchmark - one.expected for one in found]).show(1e9, "ns", 1),
            met=answer_about(off, -TARGET_S, TARGET_S),
        ),
        Row(
            quantity="  reported: p50, and pytest-benchmark's median",
            target="",
            hwperf=middle([one.hwperf for one in found]).show(1e9, "ns", 1),
            benchmark=middle([one.benchmark for one in found]).show(1e9, "ns", 1),
        ),
        Row(
            quantity="  timeit: the call with its loop, and the loop",
            target="",
            hwperf=middle([one.timeit for one in found]).show(1e9, "ns", 1),
            benchmark=middle([one.loop for one in found]).show(1e9, "ns", 1),
        ),
    ]


def _reported(folder: Path, names: list[str]) -> Reported:
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir=.", "-p", "no:cacheprovider"),
            *("-p", "pytest_hwperf.plugin", "--hwperf-report=hwperf.json"),
            *("-p", "pytest_benchmark.plugin", "--benchmark-json=benchmark.json"),
            *(f"{_TESTS}::{name}" for name in names),
        ],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OVERHEAD_TIMEIT": str(folder / "timeit.json")},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"the session of the no-op ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    theirs, plain = (
        json.loads((folder / name).read_text(encoding="utf-8")) for name in ("benchmark.json", "timeit.json")
    )
    (judgement,) = from_json(ReportFile, (folder / "hwperf.json").read_bytes()).report.judgements
    (p50,) = (f.estimate.value for f in judgement.figures if (f.metric, f.statistic) == ("latency", "p50"))
    median_s = theirs["benchmarks"][0]["stats"]["median"]
    return Reported(hwperf=p50, benchmark=median_s, timeit=plain["call"], loop=plain["loop"])
