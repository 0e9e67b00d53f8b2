"""Bytes that one stored value takes, in memory and in JSON."""

import gc
import importlib
import random
import tracemalloc
from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from benchmarks.cost.intervals import Row, answer
from pytest_hwperf.measure.samples import samples_of
from pytest_hwperf.measure.sampling import RawSamples, Window
from pytest_hwperf.records.codec import to_json
from pytest_hwperf.records.run import Machine, Run, Sample
from pytest_hwperf.stats.figures.estimates import figures

TARGET_B = 8.05  # 8 B a value and, spread over all of them, the records around them
_VALUES = 20_000
_MACHINE = Machine(cpu_model="", architecture="", cores=2, memory_gb=8, system="", python="", libraries={}, threads={})


def measure(seed: int) -> list[Row]:
    """Return the rows of the table."""
    values = [random.Random(seed + i).lognormvariate(-9, 0.1) for i in range(_VALUES)]
    for warm_up in (_summarised, _updated_summarised):  # what is imported now is not counted below
        warm_up(values[:9])
    ours, theirs = _kept(lambda: _sample(values), values), _kept(lambda: _updated(values), values)
    return [
        Row(
            quantity=f"memory of a stored value, of {_VALUES}",
            target="<= 8 B + records",
            hwperf=f"{ours:.2f} B",
            benchmark=f"{theirs:.2f} B",
            met=answer(ours, TARGET_B),
        ),
        Row(
            quantity="  after its statistics were taken",
            target="",
            hwperf=f"{_kept(lambda: _summarised(values), values):.2f} B",
            benchmark=f"{_kept(lambda: _updated_summarised(values), values):.2f} B",
        ),
        Row(
            quantity="a value in a JSON report, and in --benchmark-save-data",
            target="",
            hwperf=f"{_growth(_our_json, values):.2f} B",
            benchmark=f"{_growth(_their_json, values):.2f} B",
        ),
    ]


def _kept(make: Callable[[], object], values: list[float]) -> float:
    """Return the bytes that stay allocated while what `make` returned is held, per value."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    held = make()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del held
    return (after - before) / len(values)


def _sample(values: list[float]) -> Sample:
    """Go the way of a measurement: windows extend one array, and a sample is made of it."""
    measured = RawSamples(result=None, first_call_s=1e-3, calls_per_value=1, latency_s=array("d"))
    for start in range(0, len(values), 50):
        measured.latency_s.extend(values[start : start + 50])
        measured.windows.append(Window(calls=50, wall_s=0.05, readings=()))
    samples, _ = samples_of(measured, [], rows=None, cores=2)
    return samples[0]


def _summarised(values: list[float]) -> object:
    run = _run(_sample(values))
    return run, figures(run)


def _updated(values: list[float]) -> Any:
    """Fill pytest-benchmark's record, each duration an object of its own as the difference of two clock readings is."""
    stats: Any = importlib.import_module("pytest_benchmark.stats")  # its functions have no types

    fixture = SimpleNamespace(
        name="t", fullname="t", group=None, param=None, params=None, extra_info={}, cprofile_stats=None
    )
    record = stats.Metadata(fixture, iterations=1, options={})
    for value in values:
        record.update(value)  # divides by the iterations, which makes a new float
    return record


def _updated_summarised(values: list[float]) -> object:
    record = _updated(values)
    return record, record.as_dict(include_data=False)


def _growth(written: Callable[[list[float]], str], values: list[float]) -> float:
    """Return the bytes that a value adds: twice as many against once, so that what stands around cancels out."""
    half = len(values) // 2
    return (len(written(values)) - len(written(values[:half]))) / (len(values) - half)


def _our_json(values: list[float]) -> str:
    return to_json(_sample(values)).decode()  # as reports.json_file writes it


def _their_json(values: list[float]) -> str:
    theirs: Any = importlib.import_module("pytest_benchmark.utils")
    whole = {"benchmarks": [_updated(values).as_dict(include_data=True)]}
    text: str = theirs.safe_dumps(whole, ensure_ascii=True, indent=4)  # as its FileStorage.save writes it
    return text


def _run(sample: Sample) -> Run:
    return Run(
        test="t",
        label="",
        scenario="",
        machine=_MACHINE,
        revision="",
        started_at="",
        samples=(sample,),
        conditions={},
        context={},
    )
