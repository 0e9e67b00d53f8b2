"""The tests that time a call that does nothing, three ways in one process; `reported_noop.py` runs them."""

import json
import os
import timeit
from pathlib import Path
from statistics import median
from typing import Any

_CALLS = 100_000  # per reading
_READINGS = 100  # of the call and of the empty loop, in turn: some 0.3 s


def noop() -> None:
    """Do nothing."""


def test_hwperf(hwperf: Any) -> None:
    """Its p50 stands in the report of `--hwperf-report=FILE.json`."""
    hwperf(noop)


def test_benchmark(benchmark: Any) -> None:
    """Its median stands in the file of `--benchmark-json`."""
    benchmark(noop)


def test_timeit() -> None:
    """Write the medians of `timeit noop()` and of its empty loop, in seconds per turn."""
    call, empty = timeit.Timer("noop()", globals={"noop": noop}), timeit.Timer("pass")
    readings = [(call.timeit(_CALLS), empty.timeit(_CALLS)) for _ in range(_READINGS)]
    whole, loop = (median(taken) / _CALLS for taken in zip(*readings, strict=True))
    Path(os.environ["OVERHEAD_TIMEIT"]).write_text(json.dumps({"call": whole, "loop": loop}), encoding="utf-8")
