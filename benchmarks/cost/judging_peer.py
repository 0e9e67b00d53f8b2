"""pytest-benchmark's nearest equal of judging: it compares and writes results at the end of a real session.

As a pytest plugin (`-p benchmarks.cost.judging_peer`) it fills the session with results that were never measured and
times what pytest-benchmark does with them. `peer_seconds` starts such sessions.
"""

import importlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.projects import ROOT

_DESCRIBING = {"get_machine_info": "describe the machine"}  # within the first two steps
_STAGES = {
    "handle_loading": "load one stored session",
    "finish": "summarise, compare, save, write JSON",
    "display": "draw the terminal's table",
}
_taken: dict[str, list[float]] = {}  # name → seconds of each call


def peer_seconds(folder: Path, results: int, values: int, seed: int) -> dict[str, float]:
    """Save `results` of `values` durations, then compare and write as many again; return that session's seconds.

    What describes the machine, which a session pays once however many results it has, is left out.
    """
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "test_empty.py").write_text("def test_nothing() -> None:\n    pass\n", encoding="utf-8")
    _session(folder, f"{results} {values} {seed}", "--benchmark-save=before")
    compare = ("--benchmark-compare", "--benchmark-compare-fail=median:50%", "--benchmark-json=benchmark.json")
    _session(folder, f"{results} {values} {seed + 1}", "--benchmark-save=now", *compare)
    taken: dict[str, float] = json.loads((folder / "taken.json").read_text(encoding="utf-8"))
    return taken


def _session(folder: Path, wanted: str, *options: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir=.", "-p", "no:cacheprovider"),
            *("-p", "pytest_benchmark.plugin", "-p", "benchmarks.cost.judging_peer", *options, "test_empty.py"),
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT),
            "OVERHEAD_PEER": wanted,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"pytest-benchmark's session ended with {done.returncode}:\n{done.stdout}{done.stderr}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Time the three steps before pytest-benchmark takes the first of them."""
    from pytest_benchmark.session import BenchmarkSession

    for method, name in {**_STAGES, **_DESCRIBING}.items():
        setattr(BenchmarkSession, method, _timed(getattr(BenchmarkSession, method), name))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Put results into the session, as its fixture would after measuring."""
    stats: Any = importlib.import_module("pytest_benchmark.stats")  # its functions have no types
    results, values, seed = map(int, os.environ["OVERHEAD_PEER"].split())
    chance = random.Random(seed)
    own: Any = session.config.pluginmanager.get_plugin("pytest-benchmark")
    for i in range(results):
        fixture = SimpleNamespace(
            name=f"test_{i}",
            fullname=f"tests/test_many.py::test_{i}",
            group=None,
            param=None,
            params=None,
            extra_info={},
            cprofile_stats=None,
            has_error=False,
        )
        record = stats.Metadata(fixture, iterations=1, options={"disable_gc": False, "min_rounds": 5})
        for _ in range(values):
            record.update(1e-3 * chance.lognormvariate(0, 0.01))
        own.benchmarks.append(record)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write what was taken, without the descriptions of the machine: the first for loading, the second for saving."""
    taken = {name: sum(_taken.get(name, [0.0])) for name in _STAGES.values()}
    describing = _taken["describe the machine"]
    taken[_STAGES["finish"]] -= describing[-1]
    taken[_STAGES["handle_loading"]] -= sum(describing[:-1])
    (config.rootpath / "taken.json").write_text(json.dumps(taken), encoding="utf-8")


def _timed(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        done = method(*args, **kwargs)
        _taken.setdefault(name, []).append(time.perf_counter() - started)
        return done

    return wrapped
