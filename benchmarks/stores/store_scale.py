"""How long the SQL store takes while it grows.

    python -m benchmarks store_scale --most=1000000

A new SQLite file is filled by the store's own bulk writing, revision by revision, as a team does: each run has eight
figures and a per-example accuracy. At each power of ten the median of some repetitions is taken: a comparison of one
test (its stored runs, the machines that have it, and the newest run of each test), the history of a test, and saving
2,000 tests once more. The exponent is that of a power of the number of runs, fitted by least squares of logarithms.
"""

import argparse
import math
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean, median

from benchmarks import tables
from pytest_hwperf.host.machine import describe_machine
from pytest_hwperf.records.run import Estimate, Figure, Machine, Run, Sample, StoredRun
from pytest_hwperf.stores.sql.store import SqlStore

TESTS = 2000
STATISTICS = (
    ("latency", "mean"), ("latency", "p50"), ("latency", "p95"), ("latency", "p99"), ("throughput", "mean"),
    ("cpu_time", "mean"), ("accuracy", "mean"), ("memory", "max"),
)  # fmt: skip
BARS_S = {"compare": 1.0, "history": 0.2, "save of 2,000": 5.0}
REPEATS = 5
ACCURACY = 0.97

Taken = tuple[float, float]  # seconds: wall time, CPU time


def main() -> None:
    """Fill, time, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=100_000, help="runs to stop at")
    parser.add_argument("--file", help="where the database lies, and stays; default: a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.file or f"{folder}/team.db")
        store, machine = SqlStore(f"sqlite:///{path}"), describe_machine()
        store.check("main", writing=True)
        rows, shown = list[tuple[int, dict[str, Taken]]](), list[tuple[str, ...]]()
        filled, revision, spent_s, aim = 0, 0, 0.0, 1000
        while aim <= options.most:
            while filled < aim:
                tests = min(TESTS, aim - filled)
                prepared = [*runs(revision, machine, tests)]
                spent_s += taken_by(partial(store.save, "main", prepared))[0]
                filled, revision = filled + tests, revision + 1
            rows.append((filled, timed(store, machine, revision)))
            shown.append(row_of(*rows[-1], path, spent_s))
            print(*shown[-1], sep=", ", flush=True)
            filled, revision = filled + TESTS * REPEATS, revision + REPEATS
            aim *= 10
        print(tables.markdown(("runs", *BARS_S, "file", "all saves until then"), shown))
        for name, bar_s in BARS_S.items():
            wall, cpu = (
                exponent([count for count, _ in rows], [taken[name][one] for _, taken in rows]) for one in (0, 1)
            )
            print(f"{name}: exponent {wall:+.2f} of wall time, {cpu:+.2f} of CPU time, bar {bar_s:g} s")


def timed(store: SqlStore, machine: Machine, revision: int) -> dict[str, Taken]:
    """Return the median seconds of each kind of use; saving adds runs."""
    test = name_of(7)

    def compare() -> None:
        found = (store.load("main", machine, test, ""), store.machines("main", test, ""), store.newest("main"))
        if not all(found):
            raise SystemExit("a comparison has found nothing")

    def history() -> None:
        if len(store.history("main", test)) != len(STATISTICS):
            raise SystemExit("the history has not every statistic")

    numbers = iter(range(revision, revision + REPEATS))
    prepared = [[*runs(number, machine, TESTS)] for number in numbers]
    return {
        "compare": middle([taken_by(compare) for _ in range(REPEATS + 1)][1:]),
        "history": middle([taken_by(history) for _ in range(REPEATS + 1)][1:]),
        "save of 2,000": middle([taken_by(partial(store.save, "main", one)) for one in prepared]),
    }


def middle(taken: list[Taken]) -> Taken:
    """Return the medians of wall and CPU time."""
    wall, cpu = zip(*taken, strict=True)
    return median(wall), median(cpu)


def taken_by(action: Callable[[], object]) -> Taken:
    """Return the seconds of an action, by the wall and of this process's CPU time."""
    began = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began[0], time.process_time() - began[1]


def runs(revision: int, machine: Machine, tests: int) -> Iterator[StoredRun]:
    """Yield a run of each test at a revision."""
    drawn = Random(revision)
    started = (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=revision)).isoformat()
    for number in range(tests):
        correct = array("d", [float(drawn.random() < ACCURACY) for _ in range(100)])
        samples = (Sample(metric="accuracy", values=correct, per="example", source="labels"),)
        yield StoredRun(
            run=Run(
                test=name_of(number), label="", scenario="onnx_fp32", machine=machine, revision=f"{revision:040x}",
                started_at=started, samples=samples,
                conditions={"batch_size": "16", "load": "single_stream", "precision": "fp32", "threads": "1"},
                context={"model": f"sha256:{number:064x}", "steal": "0.1 %"}, unmeasured={},
            ),
            figures=tuple(figure(metric, statistic, drawn) for metric, statistic in STATISTICS),
        )  # fmt: skip


def figure(metric: str, statistic: str, drawn: Random) -> Figure:
    """Return a figure with an interval."""
    value = drawn.lognormvariate(-5, 0.05)
    estimate = Estimate(
        value=value, low=value * 0.98, high=value * 1.02, confidence=0.98, n=412, method="order statistics"
    )
    return Figure(metric=metric, statistic=statistic, estimate=estimate, source="perf_counter", per="call")


def name_of(number: int) -> str:
    """Return the id of a test."""
    return f"tests/models/test_family_{number // 50}.py::TestModels::test_predicts[onnx_fp32-{number % 50}]"


def row_of(count: int, taken: dict[str, Taken], path: Path, spent_s: float) -> tuple[str, ...]:
    """Return the cells of a row; the CPU time stands in brackets."""
    size = sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*")) / 1e6
    cells = (f"{wall:.3f} s ({cpu:.3f})" for wall, cpu in taken.values())
    return f"{count:,}", *cells, f"{size:,.0f} MB", f"{spent_s:.0f} s"


def exponent(counts: list[int], seconds: list[float]) -> float:
    """Return the slope of logarithms; nan of a single point."""
    x, y = [math.log(count) for count in counts], [math.log(one) for one in seconds]
    spread = sum((one - fmean(x)) ** 2 for one in x)
    if not spread:
        return math.nan
    return sum((a - fmean(x)) * (b - fmean(y)) for a, b in zip(x, y, strict=True)) / spread
