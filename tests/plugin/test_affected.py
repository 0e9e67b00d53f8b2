"""Tests that are left out since nothing that they run has changed, in a real repository; pairs take no time."""

from pathlib import Path

import pytest
from fakes.reruns import COMPARED, REHEARSED, repository

WORK = """
from functools import cache

from fakes.simulated_time import spend


def changed():
    return spend({units})


@cache
def prepared():
    return changed()


def steady():
    return spend(300)
"""
TESTS = """
import ctypes
import os
import pathlib
import subprocess
import sys

import work

HERE = pathlib.Path(__file__).parents[1]


def test_changed(hwperf):
    hwperf(work.changed)


def test_first(hwperf):
    work.prepared()
    hwperf(work.steady)


def test_cached(hwperf):
    work.prepared()
    hwperf(work.steady)


def test_steady(hwperf):
    logs = pathlib.Path(os.environ["HOME"], "logs")
    os.makedirs(logs, exist_ok=True)
    (logs / f"{os.getpid()}.txt").write_text("own")
    hwperf(work.steady)


def test_data(hwperf):
    (HERE / "rows.csv").read_text()
    hwperf(work.steady)


def test_native(hwperf):
    library = ctypes.CDLL(None)
    library.close(library.open(bytes(HERE / "model.bin"), 0))
    hwperf(work.steady)


def test_source(hwperf):
    (HERE / "work.py").read_text()
    hwperf(work.steady)


def test_process(hwperf):
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)
    hwperf(work.steady)
"""
LATE = """
import importlib
import pathlib

import pytest
import work

HERE = pathlib.Path(__file__).parents[1]
COUNTS = dict.fromkeys(("calls", "tail", "file", "module", "quiet"), 0)


def called(name, at, then):
    COUNTS[name] += 1
    if COUNTS[name] == at:
        then()
    work.steady()


def test_calls(hwperf):
    hwperf(called, "calls", 150, work.changed)


@pytest.mark.hwregression(latency_p95="10%")
def test_tail(hwperf):
    hwperf(called, "tail", 400, work.changed)


def test_file(hwperf):
    hwperf(called, "file", 150, (HERE / "rows.csv").read_text)


def test_module(hwperf):
    hwperf(called, "module", 150, lambda: importlib.import_module("late"))


def test_quiet(hwperf):
    hwperf(called, "quiet", 150, int)
"""
OWN = "from fakes.simulated_time import spend\n\n\ndef test_own(hwperf):\n    hwperf(spend, 300)\n"
FILES = {
    "work.py": WORK.format(units=300),
    "rows.csv": "1,2",
    "model.bin": "0",
    "README.md": "Rows.",
    ".gitignore": "__pycache__/\n",
    "pytest.ini": "[pytest]\npythonpath = .\n",
    "late.py": "VALUE = 1\n",
    "tests/test_it.py": TESTS,
    "tests/test_late.py": LATE,
    "tests/apart/test_own.py": OWN,
    "tests/apart/conftest.py": "",
}
UNTOUCHED = "nothing that it runs has changed"


@pytest.mark.live
@pytest.mark.monitoring
@pytest.mark.usefixtures("quick_pairs", "fakes_in_reach")
def test_only_what_a_change_cannot_reach_is_left_out(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cached value that changed code has made reaches the test that finds it, whoever has made it.

    As many calls are watched as a pair makes, and as its percentiles take: what only later ones run keeps a test in.
    A file that each process makes for itself is not shared.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    project = repository(pytester, FILES)
    project.write({name: f"{text} " for name, text in FILES.items() if not name.endswith((".py", ".ini"))})
    project.write({"work.py": f"# more\n{WORK.format(units=301)}", "late.py": "VALUE = 2\n"})

    result = project.run(REHEARSED, "--hwperf-affected")

    result.assert_outcomes(passed=14)
    found = {one.run.test.partition("::test_")[2]: one.comparisons[0] for one in project.report().judgements}
    reasons = dict.fromkeys(("changed", "first", "cached", "data", "native", "source", "process"), COMPARED)
    reasons |= dict.fromkeys(("calls", "tail", "file", "module"), COMPARED)
    reasons |= dict.fromkeys(("steady", "own", "quiet"), UNTOUCHED)
    assert reasons == {name: one.reason for name, one in found.items()}
    steady = found["steady"]
    assert ("equivalent", 0, None) == (steady.outcome, steady.pairs, steady.change)
    result.stdout.fnmatch_lines([f"*11 of 14 tests compared, 3 left out since {UNTOUCHED}: *"])
