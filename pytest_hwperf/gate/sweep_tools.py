"""A model at the points of a sweep: called in this process, its memory taken in fresh ones."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_hwperf.core.contracts import Meter
from pytest_hwperf.core.estimates import estimate
from pytest_hwperf.core.metrics import taken_by
from pytest_hwperf.core.records import Figure
from pytest_hwperf.core.rounds import Round
from pytest_hwperf.core.statements import Statement
from pytest_hwperf.core.sweeps import BATCH, SweepPoint
from pytest_hwperf.gate.model_worker import MODULE
from pytest_hwperf.gate.targets import failures_explained, function_of, is_function
from pytest_hwperf.host.command_line import Command, undisturbed
from pytest_hwperf.host.control_groups import control_groups
from pytest_hwperf.host.interference import Interference, snapshot
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import ModelSpec, WorkerTask
from pytest_hwperf.measure.fresh_process import memory_samples
from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.measure.subjects import LoadedSubject, subject_of_callable, subject_of_scenario
from pytest_hwperf.scenarios.onnx_file import compared_file
from pytest_hwperf.scenarios.threads import limit_threads

_PROCESSES = 3  # for the memory of a point
_NODE = "sweep"


class ModelAtPoints:
    """A model, loaded once for each number of threads."""

    def __init__(self, model: str, X: Any, energy: Meter | None = None) -> None:
        """Measure `model` on the rows of `X`; nothing is loaded yet."""
        self._model, self._X, self._energy = model, X, energy
        self._scenario = cache(self._open)
        self._streams: dict[tuple[int, int], tuple[LoadedSubject, Stream]] = {}

    def measure(self, point: SweepPoint, seconds: float) -> Round:
        """Call the model at a point for about so many seconds, warm-up apart."""
        rows, threads = _place(point)
        limits = SamplingLimits(
            max_time_s=seconds, min_time_s=seconds, min_calls=1, window_s=seconds, single_calls=True
        )
        meters = [self._energy] if self._energy else []
        with failures_explained(f"{self._model} at {point.named}"):
            loaded, stream = self._stream(rows, threads)
            with loaded.scope():
                measured = Sampler(stream, limits).measure(meters, lambda _: True)
        joules = [window.readings[0].value for window in measured.windows if window.readings]
        counted = [value for value in joules if value is not None]
        return Round(
            latency_s=measured.latency_s,
            calls=sum(window.calls for window in measured.windows),
            wall_s=sum(window.wall_s for window in measured.windows),
            rows=rows,
            joules=sum(counted) if counted and len(counted) == len(measured.windows) else None,
            energy_source=self._energy.source if self._energy else "",
            energy_estimated=bool(self._energy and self._energy.covers == "estimate"),
        )

    def _stream(self, rows: int, threads: int) -> tuple[LoadedSubject, Stream]:
        if (rows, threads) not in self._streams:
            loaded = self._load(rows, threads)
            self._streams[rows, threads] = loaded, loaded.stream()
        return self._streams[rows, threads]

    def _load(self, rows: int, threads: int) -> LoadedSubject:
        if is_function(self._model):
            function = function_of(self._model)
            subject = subject_of_callable(function, (self._X,), {}, y_true=None, batch_size=rows)
            return dataclasses.replace(subject.load(), scope=partial(limit_threads, threads))
        return subject_of_scenario(self._scenario(threads), self._X, None, rows).load()

    def _open(self, threads: int) -> Any:
        """Return the scenario of a file, whose session all batch sizes share."""
        scenario = compared_file(Path(self._model), threads)
        return dataclasses.replace(scenario, load=cache(scenario.load), classifies=False)


def memory_of(model: str, data: Path, point: SweepPoint) -> Sequence[Figure]:
    """Measure the peak memory of a model at a point, in fresh processes."""
    rows, threads = _place(point)
    return memory_figures(
        ModelSpec(model=model, data=str(data), batch_size=rows, threads=threads, test=_NODE, label="")
    )


def memory_figures(spec: ModelSpec) -> Sequence[Figure]:
    """Measure the peak memory of a model, in fresh processes."""
    environment = undisturbed(os.environ)
    command = Command(module=MODULE, arguments=[], model=spec, directory=Path.cwd(), environment=environment)
    results = ask(WorkerTask(role="memory", growth=False), [command] * _PROCESSES)
    samples, _ = memory_samples(taken_by("memory"), results, limits={})
    return [
        Figure(metric=one.metric, statistic="p50", estimate=estimate(one, "p50"), source=one.source, per=one.per)
        for one in samples
    ]


def watch_machine() -> Callable[[], Sequence[Statement]]:
    """Begin to watch what disturbs the calls; return what ends it and says what was much."""
    watched = Interference(partial(snapshot, groups=tuple(control_groups())))
    return lambda: watched.end()[1]


def _place(point: SweepPoint) -> tuple[int, int]:
    return int(point.values[BATCH]), int(point.values["threads"])
