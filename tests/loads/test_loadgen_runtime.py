"""MLPerf LoadGen itself as engine: one test in a process, which is why each runs in one of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_hwperf.core.loads import Load
from pytest_hwperf.loads.loadgen import why_not

pytestmark = pytest.mark.runtime

RUN = """
import sys, tempfile, time
from pathlib import Path
from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.loads import Load
from pytest_hwperf.loads.loadgen import drive_loadgen
from pytest_hwperf.loads.times import Times
times, made = Times(), []
load = Load({load})
with tempfile.TemporaryDirectory() as folder:
    result = drive_loadgen(load, made.append, times, Path(folder), 1.0)
    served = times.served()
    assert len(made) == len(served.due), (len(made), len(served.due))
    assert result.kind == load.kind
    assert all(due <= ended for due, ended in zip(served.due, served.ended))
    assert abs(result.percentiles["50.00"] - sorted(served.latencies)[len(made) // 2]) < 0.01
    print(result.valid, len(made))
    try:
        drive_loadgen(load, made.append, times, Path(folder), 1.0)
    except UsageProblem as problem:
        print(problem)
"""


@pytest.mark.live
@pytest.mark.parametrize(
    ("load", "least"),
    [
        ("kind='server', qps=200, seconds=0.3, seed=1", 30),
        ("kind='single_stream', seconds=0.05", 30),
        ("kind='multi_stream', rows=4, seconds=0.05", 30),
        ("kind='offline', calls=50, in_flight=2", 50),
    ],
)
def test_loadgen_issues_the_calls_and_judges_them(load: str, least: int, tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen", reason="needs the extra loadgen")
    command = [sys.executable, "-c", RUN.replace("{load}", load)]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    first, _, again = done.stdout.partition("\n")

    assert (0, "") == (done.returncode, done.stderr)
    assert least <= int(first.split()[1])
    assert "it runs one test in a process" in again


@pytest.mark.parametrize(
    ("load", "waits", "said"),
    [
        (Load(kind="server", qps=5), False, ""),
        (Load(kind="server", qps=5), True, "it makes no async calls and no requests"),
        (Load(kind="server", qps=5, shape=2), False, "its schedule is a Poisson process: leave shape= out"),
        (Load(kind="concurrency", in_flight=5), False, "it knows single_stream, multi_stream, server, offline, and no"),
    ],
)
def test_what_loadgen_cannot_do_is_said(load: Load, waits: bool, said: str) -> None:
    assert why_not(load, waits=waits).startswith(said)
    assert bool(said) == bool(why_not(load, waits=waits))
