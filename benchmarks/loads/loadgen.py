"""The same call under our loads and under MLPerf LoadGen: percentiles, rates and early stopping side by side.

    pip install mlcommons-loadgen
    python -m benchmarks loadgen

The call multiplies matrices in one thread for about half a millisecond. Both sides run one after the other, several
times, and not at once.
"""

import argparse
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import tables
from pytest_hwperf.loads.local import Times, drive
from pytest_hwperf.records.markers import Load
from pytest_hwperf.records.run import Served
from pytest_hwperf.stats.figures.ranks import early_stopping, nearest_rank, rank_from_above
from pytest_hwperf.stats.service.loads import why_not_served

CALL_S, SECONDS, QPS, WITHIN_MS, ROWS = 0.0005, 3.0, 500.0, 10.0, 8
_LINE = re.compile(r"^ *([^:\n]+?) *: *([^\n]*?) *$", re.MULTILINE)
_PERCENTILE = re.compile(r"^ *(\d+\.\d+) percentile latency \(ns\) *: *(\d+)", re.MULTILINE)
_BOUND = re.compile(r"Early stopping (\d+\.\d+)th percentile estimate: (\d+)")
_RATES = ("Completed samples per second", "Samples per second", "QPS w/o loadgen overhead")
_FACTOR = np.full((280, 280), 0.5, dtype=np.float32)
# LoadGen's scenario → our load, and the percentiles that it judges.
LOADS = {
    "SingleStream": (Load(kind="single_stream", seconds=SECONDS), (0.50, 0.90, 0.99)),
    "MultiStream": (Load(kind="multi_stream", seconds=SECONDS, rows=ROWS), (0.50, 0.90, 0.99)),
    "Server": (Load(kind="server", qps=QPS, seconds=SECONDS, within_ms=WITHIN_MS), (0.50, 0.90, 0.99)),
    "Offline": (Load(kind="offline", calls=int(SECONDS / CALL_S)), (0.50, 0.90, 0.99)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenResult:
    """What LoadGen has written about one test in `mlperf_log_summary.txt`."""

    valid: bool
    percentiles: Mapping[str, float]  # "99.00" → s
    bounds: Mapping[str, float]  # "99.0" → s, that early stopping gives
    processed: int | None  # queries that early stopping looked at; None where it says nothing of them
    discarded: int | None  # the slowest of them, which it left out
    completed_qps: float | None


def read_summary(text: str) -> LoadGenResult:
    """Read a summary, whose lines are those of mlcommons/inference, loadgen/results.cc."""
    values = dict(_LINE.findall(text))
    return LoadGenResult(
        valid=values["Result is"] == "VALID",
        percentiles=_seconds(_PERCENTILE, text),
        bounds=_seconds(_BOUND, text),
        processed=_count(r"Processed at least \d+ queries \((\d+)\)", text),
        discarded=_count(r"Would discard (\d+) highest latency queries", text),
        completed_qps=next((float(values[name]) for name in _RATES if name in values), None),
    )


def _seconds(pattern: re.Pattern[str], text: str) -> dict[str, float]:
    return {name: int(nanoseconds) / 1e9 for name, nanoseconds in pattern.findall(text)}


def _count(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found[1]) if found else None


def busy(rows: int) -> None:
    """Multiply matrices for about half a millisecond a row, without the interpreter's lock, as runtimes do."""
    for _ in range(rows):
        np.matmul(_FACTOR, _FACTOR, out=np.empty_like(_FACTOR))


def ours(load: Load, seed: int) -> Served:
    """Drive the call by one of our loads."""
    rows, times = load.rows if load.kind == "multi_stream" else 1, Times()
    drive(Load(**{**_fields(load), "seed": seed}), lambda _: busy(rows), times)
    return times.served()


def theirs(scenario: str, seed: int) -> LoadGenResult:
    """Let LoadGen drive it in a process of its own: it runs one test a process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "benchmarks",
            "loadgen",
            "--one",
            scenario,
            "--seed",
            str(seed),
            "--out",
            folder,
        ]
        subprocess.run(command, check=True)
        return read_summary((Path(folder) / "mlperf_log_summary.txt").read_text(encoding="utf-8"))


def run_loadgen(scenario: str, seed: int, folder: str) -> None:
    """Run one test of LoadGen; it writes its files to `folder`."""
    import mlperf_loadgen as loadgen

    line: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def serve() -> None:
        while (samples := line.get()) is not None:
            busy(len(samples))
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(sample.id, 0, 0) for sample in samples])

    def issue(samples: Sequence[Any]) -> None:
        for part in [samples] if scenario == "MultiStream" else [[sample] for sample in samples]:
            line.put(part)

    worker = threading.Thread(target=serve)
    worker.start()
    output = loadgen.LogSettings()
    output.log_output.outdir = folder
    output.log_output.copy_summary_to_stdout = False
    system = loadgen.ConstructSUT(issue, lambda: None)
    samples = loadgen.ConstructQSL(ROWS, ROWS, lambda _: None, lambda _: None)
    loadgen.StartTestWithLogSettings(system, samples, _settings(loadgen, scenario, seed), output)
    line.put(None)
    worker.join()
    loadgen.DestroyQSL(samples)
    loadgen.DestroySUT(system)


def _settings(loadgen: Any, scenario: str, seed: int) -> Any:
    settings = loadgen.TestSettings()
    settings.scenario, settings.mode = getattr(loadgen.TestScenario, scenario), loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms, settings.min_query_count = round(1e3 * SECONDS), 1
    settings.server_target_qps, settings.server_target_latency_ns = QPS, round(1e6 * WITHIN_MS)
    # From these it takes how many queries fill the time; a run that is over too early is invalid.
    settings.offline_expected_qps = 1.5 / CALL_S
    settings.multi_stream_expected_latency_ns = round(1e9 * CALL_S * ROWS / 2)
    settings.multi_stream_samples_per_query = ROWS
    settings.schedule_rng_seed = seed
    return settings


def rows(repeats: int) -> list[tuple[str, ...]]:
    """Return the lines of the table: medians over the repeats, and the range of each side."""
    found: list[tuple[str, ...]] = []
    for scenario, (load, percentiles) in LOADS.items():
        mine, reference = [ours(load, seed) for seed in range(repeats)], [theirs(scenario, s) for s in range(repeats)]
        for q in percentiles:
            name = f"p{100 * q:g}, ms"
            left = [1e3 * _percentile(served.latencies, q) for served in mine]
            right = [1e3 * one.percentiles[f"{100 * q:.2f}"] for one in reference]
            found.append((scenario, name, _range(left), _range(right)))
        rates = [len(served.ended) * (ROWS if scenario == "MultiStream" else 1) / max(served.ended) for served in mine]
        known = [one.completed_qps for one in reference if one.completed_qps is not None]
        found.append((scenario, "completed, 1/s", _range(rates), _range(known) if known else "not given"))
        valid = sum(why_not_served(load, served) is None for served in mine)
        found.append((scenario, "valid", f"{valid} of {repeats}", f"{sum(o.valid for o in reference)} of {repeats}"))
        found += _early(scenario, percentiles[-1 if scenario == "MultiStream" else 1], mine, reference)
    return found


def _early(
    scenario: str, q: float, mine: Sequence[Served], reference: Sequence[LoadGenResult]
) -> list[tuple[str, ...]]:
    """Compare what early stopping leaves out of as many queries, which has to be the same number, and its bound."""
    counted = [(one.processed, one.discarded) for one in reference if one.processed and one.discarded is not None]
    if not counted:
        return []
    same = sum(rank_from_above(n, q) - 1 == discarded for n, discarded in counted)
    bounds = [1e3 * bound for served in mine if (bound := early_stopping(served.latencies, q)) is not None]
    theirs = [1e3 * one.bounds[f"{100 * q:.1f}"] for one in reference if f"{100 * q:.1f}" in one.bounds]
    return [
        (scenario, f"early stopping of p{100 * q:g}: same count", f"{same} of {len(counted)}", ""),
        (scenario, f"early stopping of p{100 * q:g}: bound, ms", _range(bounds), _range(theirs)),
    ]


def _percentile(latencies: Sequence[float], q: float) -> float:
    return sorted(latencies)[nearest_rank(Fraction(str(q)), len(latencies)) - 1]


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.3g} ({min(values):.3g} .. {max(values):.3g})"


def _fields(load: Load) -> dict[str, Any]:
    return {name: getattr(load, name) for name in load.__struct_fields__}


def main() -> None:
    """Print the table, or run one test of LoadGen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="of each load on each side")
    parser.add_argument("--one", choices=list(LOADS), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    given = parser.parse_args()
    with threadpool_limits(1):
        if given.one:
            run_loadgen(given.one, given.seed, given.out)
        else:
            print(tables.markdown(("scenario", "", "pytest-hwperf", "LoadGen"), rows(given.repeats)))
