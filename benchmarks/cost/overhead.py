"""What measuring costs, beside pytest-benchmark in one run.

pip install -e . pytest-benchmark
python -m benchmarks overhead
"""

import argparse
import importlib.metadata
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.cost import judging_many, reported_noop, stored_values, unused_plugin
from benchmarks.cost.intervals import Row

_HEAD = ("quantity", "target", "hwperf", "pytest-benchmark", "met")


def main() -> None:
    """Measure the four groups and print each as it is done."""
    asked = _arguments()
    print(_setting())
    with tempfile.TemporaryDirectory(prefix="overhead-") as name:
        folder = Path(name)
        print(_table(unused_plugin.measure(folder, asked.rounds, asked.seed)), flush=True)
        print(_table(reported_noop.measure(folder, asked.processes, asked.seed)), flush=True)
        print(_table(stored_values.measure(asked.seed)), flush=True)
        print(_table(judging_many.measure(folder, asked.results, asked.stored, asked.repeats, asked.seed)), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="empty sessions of each plugin (default: 30)")
    parser.add_argument("--processes", type=int, default=9, help="processes that time a no-op (default: 9)")
    parser.add_argument("--results", type=int, default=1000, help="results to judge (default: 1000)")
    parser.add_argument("--stored", type=int, default=5, help="stored sessions of each result (default: 5)")
    parser.add_argument("--repeats", type=int, default=2, help="times that they are judged (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="of orders and made-up values (default: 1)")
    return parser.parse_args()


def _setting() -> str:
    """Name what is compared, or stop where pytest-benchmark is not there."""
    try:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in ("pytest-hwperf", "pytest-benchmark")]
    except importlib.metadata.PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed in {sys.prefix}: pip install {error.name}, then run this again")
    cores = len(os.sched_getaffinity(0))
    return f"{', '.join(versions)}, Python {platform.python_version()}, {platform.system()}, {cores} cores\n"


def _table(rows: Sequence[Row]) -> str:
    # Markdown drops leading spaces; a dash keeps explaining rows apart from the rest.
    cells = ((r.quantity.replace("  ", "- ", 1), r.target, r.hwperf, r.benchmark, r.met) for r in rows)
    return tables.markdown(_HEAD, cells) + "\n"
