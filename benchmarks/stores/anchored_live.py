"""How much less the change from a release varies than the raw figure: live gates of equal code against an anchor.

    taskset -c 1 python -m benchmarks anchored_live --runs=8

Each run is a nightly job (`--hwperf-against=anchor --hwperf-save`) of one function, into a database of its own for the
machine as it is, and for a machine on which another process computes on the same core. What is printed was read back
from these databases.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import tables
from benchmarks.arms import busy
from benchmarks.projects import commit, git
from pytest_hwperf.stores.sql.store import SqlStore

ANCHOR = "v1"
WORK = """
def product():
    return sum(i * i for i in range(4000))
"""
TEST = """
import work


def test_product(hwperf):
    hwperf(work.product)
"""


def make_project(folder: Path) -> None:
    """Make a repository of one function and its test, with the release that is the anchor."""
    folder.mkdir()
    commit(folder, {"work.py": WORK, "test_work.py": TEST, "pytest.ini": "[pytest]\npythonpath = .\n"})
    git(folder, "tag", ANCHOR)


def nightly(folder: Path, store: str) -> None:
    """Run one build.

    Raises:
        RuntimeError: it gave no verdict; says what it did instead.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-phwperf", "-pno:cacheprovider", "--hwperf-sample-time=0.2"]
    asked = ["--hwperf-against=anchor", f"-ohwperf_anchor={ANCHOR}", "-ohwperf_anchor_builds=1", "--hwperf-energy=off"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, *asked, "--hwperf-save", f"--hwperf-store=sql:sqlite:///{store}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode > 1:
        raise RuntimeError(done.stdout[-1500:] + done.stderr[-500:])


def read_back(store: Path) -> dict[str, list[float]]:
    """Return the median latency of each run in s, and its relative change from the anchor, the oldest first."""
    found = SqlStore(f"sqlite:///{store}").history("main")
    chosen = [one for one in found if (one.metric, one.statistic) == ("latency", "p50")]
    return {
        "change from the release" if one.anchor else "raw median": [past.estimate.value for past in one.values]
        for one in chosen
    }


def spread(name: str, values: list[float]) -> float:
    """Return the standard deviation of the logarithms, in %."""
    return 100 * statistics.stdev([math.log(value) if name == "raw median" else math.log1p(value) for value in values])


def main() -> None:
    """Run the builds of both kinds, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, help="a file for the values, a line for each series")
    asked = parser.parse_args()
    rows, lines, together = list[tuple[object, ...]](), list[str](), dict[str, list[float]]()
    with tempfile.TemporaryDirectory(prefix="hwperf-anchored-") as name:
        for machine, others in (("as it is", 0), ("a neighbour on the core", 1)):
            folder, loads = Path(name, str(others)), []
            make_project(folder)
            with busy(others):
                for _ in range(asked.runs):
                    nightly(folder, "team.db")
                    loads.append(os.getloadavg()[0])
            for what, values in sorted(read_back(folder / "team.db").items(), reverse=True):
                rows.append((machine, f"{min(loads):.1f} to {max(loads):.1f}", *row(what, values)))
                together.setdefault(what, []).extend(values)
                lines.append(json.dumps({"machine": machine, "load": loads, "figure": what, "values": values}))
    rows += [("both", "", *row(what, values)) for what, values in together.items()]
    print(tables.markdown(("machine", "load", "figure", "runs", "sd, %", "least and most"), rows))
    if asked.out:
        asked.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


def row(what: str, values: list[float]) -> tuple[object, ...]:
    """Return the cells of a series."""
    return what, len(values), f"{spread(what, values):.2f}", f"{min(values):.4g} .. {max(values):.4g}"
