"""A sweep of one model: its points in several rounds of drawn order, without larger batches than one that misses."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from pytest_hwperf.gate.models.targets import failures_explained, function_of, is_function
from pytest_hwperf.gate.models.worker import command_of
from pytest_hwperf.host.disturbance import Interference
from pytest_hwperf.host.one_shot import ask
from pytest_hwperf.host.worker_protocol import ModelSpec, WorkerTask
from pytest_hwperf.measure.plan import SamplingLimits
from pytest_hwperf.measure.samples import memory_samples
from pytest_hwperf.measure.sampling import Sampler
from pytest_hwperf.measure.stream import Stream
from pytest_hwperf.measure.subjects import LoadedSubject, subject_of_callable, subject_of_scenario
from pytest_hwperf.records.contracts import Meter
from pytest_hwperf.records.errors import WorkerError
from pytest_hwperf.records.markers import BATCH
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import metric_of, taken_by
from pytest_hwperf.records.report import Sweep, SweepPoint, SweepRow
from pytest_hwperf.records.run import Figure, replace
from pytest_hwperf.runtimes.onnx_file import compared_file
from pytest_hwperf.runtimes.threads import limit_threads
from pytest_hwperf.stats.choice.sweeps import (
    Round,
    figures_of,
    figures_of_calls,
    fits,
    is_beyond,
    largest_batch,
    missed,
    next_batch,
    row_of,
    sweep_of,
    why_unfit,
)
from pytest_hwperf.stats.figures.estimates import estimate

Measure = Callable[[SweepPoint, float], Round]  # calls a point for about so many seconds
Memory = Callable[[SweepPoint], Sequence[Figure]]  # measures it in fresh processes

ROUNDS = 6  # the fewest whose range holds the median with 95 %
_SHOWN = ("p50", "p95")
_REHEARSAL = 0.3  # of the time of a round


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTools:
    """What touches the model."""

    measure: Measure
    memory: Memory | None = None  # None: not asked for
    most_rows: int = 0  # above 0: the largest batch up to so many whose memory keeps its limits is searched
    watch: Callable[[], Callable[[], Sequence[Statement]]] = lambda: tuple  # begins to watch what disturbs; ends it
    progress: Callable[[str, str, float], None] = lambda *_: None  # stage, point, and the share of the rounds done


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep has shown."""

    sweep: Sweep
    seed: int
    rounds: int  # that are whole
    is_interrupted: bool


@dataclass(slots=True)
class _State:
    """What is known of each point so far."""

    points: list[SweepPoint]
    rounds: dict[int, list[Round]] = field(default_factory=dict)  # position → those measured
    memory: dict[int, Sequence[Figure]] = field(default_factory=dict)
    whole: int = 0  # rounds over all points

    @property
    def left(self) -> list[int]:
        """Positions that are measured."""
        return [position for position, point in enumerate(self.points) if point.skipped is None]

    def figures(self, position: int) -> tuple[Figure, ...]:
        """Return everything that is known of a point."""
        wanted = dict.fromkeys([*_SHOWN, *self.limited(position)])
        return (*figures_of(self.rounds.get(position, []), list(wanted)), *self.memory.get(position, ()))

    def row(self, position: int) -> SweepRow:
        """Answer the limits of a point by what is known of it."""
        return row_of(self.points[position], self.figures(position))

    def stop_beyond(self, position: int, figures: Sequence[Figure]) -> None:
        """Leave out the points that miss more than this one does."""
        why = missed(row_of(self.points[position], figures))
        for other in self.left if why else ():
            if is_beyond(self.points[other], self.points[position]):
                self.points[other] = replace(self.points[other], skipped=why)

    def limited(self, position: int) -> list[str]:
        """Return the statistics of the latency that have a limit at a point."""
        limits = self.points[position].limits
        return [limit.statistic for limit in limits if metric_of(limit.metric).taken == "calls"]


def sweep_model(name: str, points: Sequence[SweepPoint], tools: SweepTools, *, seed: int, round_s: float) -> Swept:
    """Measure all points, and choose the best ones; Ctrl-C keeps what was measured so far."""
    known, interrupted, notes = _State([*points]), False, list[Statement]()
    ended = tools.watch()
    try:
        if tools.memory and tools.most_rows:
            notes += [_search(known, tools.memory, tools, position) for position in known.left]
        _rehearse(known, tools, round_s)
        _measure(known, tools, Random(seed), round_s)  # noqa: S311 - an order, no secret
    except KeyboardInterrupt:
        interrupted = True
        notes.append(state("cut off", rounds=known.whole, of=ROUNDS))
    rows = [known.row(position) for position in range(len(known.points))]
    if tools.most_rows:
        rows.sort(key=lambda row: _rows(row.point))
    order = [state("drawn order", rounds=known.whole, seed=str(seed))] if known.whole else []
    return Swept(
        sweep=sweep_of(name, rows, *order, *notes, *ended()),
        seed=seed,
        rounds=known.whole,
        is_interrupted=interrupted,
    )


def _rehearse(known: _State, tools: SweepTools, round_s: float) -> None:
    """Find what misses a limit, the smallest batches first: memory before anything else, since it may run out."""
    rising = sorted(known.left, key=lambda position: _rows(known.points[position]))
    for position in rising if tools.memory else ():
        if known.points[position].skipped is None and tools.memory and position not in known.memory:
            tools.progress("memory", known.points[position].named, 0.0)
            _take_memory(known, tools.memory, position)
    for position in rising:
        point = known.points[position]
        if point.skipped is None:
            tools.progress("rehearsal", point.named, 0.0)
            rehearsed = tools.measure(point, _REHEARSAL * round_s)  # no round: it was the first, and in rising order
            known.stop_beyond(position, [*figures_of_calls([rehearsed], known.limited(position))])


def _search(known: _State, memory: Memory, tools: SweepTools, first: int) -> Statement:
    """Add the points on the way to the largest batch whose memory keeps its limits, and say which it is."""
    places, tried = {1: first}, dict[int, bool]()
    while (rows := next_batch(tried, tools.most_rows)) is not None:
        if rows not in places:
            places[rows] = len(known.points)
            start = known.points[first]
            known.points.append(replace(start, values={**start.values, BATCH: rows}, skipped=None))
        place = places[rows]
        tools.progress("memory", known.points[place].named, 0.0)
        _take_memory(known, memory, place)
        tried[rows] = fits(known.row(place))
    best = max((rows for rows, kept in tried.items() if kept), default=1)
    said = largest_batch(known.row(places[best]), tried)
    for place in (places[rows] for rows, kept in tried.items() if not kept):
        if known.points[place].skipped is None:
            known.points[place] = replace(known.points[place], skipped=why_unfit(known.row(place)))
    return said


def _take_memory(known: _State, memory: Memory, position: int) -> None:
    """Measure it; where the process is lost, it has perhaps taken all there is: nothing larger is tried."""
    point = known.points[position]
    try:
        known.memory[position] = memory(point)
    except WorkerError as error:
        lost = state("memory lost", point=point.named, why=str(error))
        known.points = [
            replace(one, skipped=lost) if one is point or is_beyond(one, point) else one for one in known.points
        ]
    else:
        known.stop_beyond(position, known.memory[position])


def _measure(known: _State, tools: SweepTools, random: Random, round_s: float) -> None:
    left = known.left
    for number in range(ROUNDS if left else 0):
        order = random.sample(left, len(left))
        for done, position in enumerate(order):
            share = (number * len(left) + done) / (ROUNDS * len(left))
            tools.progress(f"round {number + 1} of {ROUNDS}", known.points[position].named, share)
            known.rounds.setdefault(position, []).append(tools.measure(known.points[position], round_s))
        known.whole += 1


def _rows(point: SweepPoint) -> int:
    rows = point.values.get(BATCH, 1)
    return rows if isinstance(rows, int) else 1


_PROCESSES = 3  # for the memory of a point


class ModelAtPoints:
    """A model, loaded once for each number of threads."""

    def __init__(self, model: str, X: Any, energy: Meter | None = None) -> None:
        """Measure `model` on the rows of `X`; nothing is loaded yet."""
        self._model, self._X, self._energy = model, X, energy
        self._scenario, self._stream = cache(self._open), cache(self._load)

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

    def _load(self, rows: int, threads: int) -> tuple[LoadedSubject, Stream]:
        if is_function(self._model):
            function = function_of(self._model)
            loaded = subject_of_callable(function, (self._X,), {}, y_true=None, batch_size=rows).load()
            loaded = dataclasses.replace(loaded, scope=partial(limit_threads, threads))
        else:
            loaded = subject_of_scenario(self._scenario(threads), self._X, None, rows).load()
        return loaded, loaded.stream()

    def _open(self, threads: int) -> Any:
        """Return the scenario of a file, whose session all batch sizes share."""
        scenario = compared_file(Path(self._model), threads)
        return dataclasses.replace(scenario, load=cache(scenario.load), classifies=False)


def memory_of(model: str, data: Path, point: SweepPoint) -> Sequence[Figure]:
    """Measure the peak memory of a model at a point, in fresh processes."""
    rows, threads = _place(point)
    spec = ModelSpec(model=model, data=str(data), batch_size=rows, threads=threads, test="sweep", label="")
    return memory_figures(spec)


def memory_figures(spec: ModelSpec) -> Sequence[Figure]:
    """Measure the peak memory of a model, in fresh processes."""
    results = ask(WorkerTask(role="memory", growth=False), [command_of(spec)] * _PROCESSES)
    samples, _ = memory_samples(taken_by("memory"), results, limits={})
    return [
        Figure(metric=one.metric, statistic="p50", estimate=estimate(one, "p50"), source=one.source, per=one.per)
        for one in samples
    ]


def watch_machine() -> Callable[[], Sequence[Statement]]:
    """Begin to watch what disturbs the calls; return what ends it and says what was much."""
    watched = Interference()
    return lambda: watched.end()[1]


def _place(point: SweepPoint) -> tuple[int, int]:
    return int(point.values[BATCH]), int(point.values["threads"])
