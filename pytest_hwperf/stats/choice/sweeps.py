"""Sweeps: one thing measured at several points, in rounds, and which of them is best within the limits."""

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import median

from pytest_hwperf.records.markers import BATCH
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import ENERGY, METRICS, least_apart, metric_of
from pytest_hwperf.records.report import GOALS, Answer, Best, Sweep, SweepPoint, SweepRow
from pytest_hwperf.records.run import Estimate, Figure, Key, Sample, Values, figure_of
from pytest_hwperf.records.structs import Count, Number, Record, Size
from pytest_hwperf.records.verdict import Budget, BudgetOutcome
from pytest_hwperf.stats.figures.estimates import clear_of, estimate
from pytest_hwperf.stats.service.loads import next_rate

MEMORY = "memory"

# What a table of a sweep shows of each point, with the words above it.
SHOWN: Mapping[Key, str] = {
    ("latency", "p50"): "p50",
    ("latency", "p95"): "p95",
    ("throughput", "mean"): "calls",
    ("sample_throughput", "mean"): "samples",
    ("energy", "mean"): "energy a sample",
    ("memory", "p50"): "memory",
}


def row_of(point: SweepPoint, figures: Iterable[Figure]) -> SweepRow:
    """Answer the limits of a point by its figures; a limit is passed or failed by the whole interval."""
    found, limited = tuple(figures), {limit.key for limit in point.limits}
    # Defaults for every test whose metric this one does not give fail nothing elsewhere either.
    asked = [limit for limit in point.limits if not limit.default or figure_of(found, limit.key)]
    is_answered = found and point.skipped is None
    answers = tuple(_answer(limit, found, point.fill_s) for limit in asked if is_answered)
    kept = tuple(figure for figure in found if figure.key in SHOWN or figure.key in limited)
    return SweepRow(point=point, figures=kept, answers=answers)


def sweep_of(name: str, rows: Sequence[SweepRow], *notes: Statement) -> Sweep:
    """Put the points of a sweep together, say if the batch that is served is none of them, and choose the best."""
    served = next((row.point.serving_batch for row in rows if row.point.serving_batch), 0)
    sizes = [row.point.values.get(BATCH) for row in rows if row.is_measured]
    if served and served not in sizes and None not in sizes:
        measured = ", ".join(dict.fromkeys(map(str, sizes)))
        notes = (state("served not swept", served=served, measured=measured), *notes)
    return Sweep(name=name, rows=tuple(rows), best=tuple(_best(rows)), notes=notes)


def missed(row: SweepRow) -> Statement | None:
    """Say which limit a point misses that every larger batch will miss too; None where there is none."""
    if BATCH not in row.point.values:
        return None
    for answer in row.answers:
        metric = metric_of(answer.limit.metric)
        if answer.outcome == "failed" and metric.grows_with_batch and metric.better == "lower":
            return state("beyond a missed limit", point=row.point.named, limit=str(answer))
    return None


def is_beyond(point: SweepPoint, other: SweepPoint) -> bool:
    """Whether `point` differs from `other` by a larger batch alone."""
    mine, its = dict(point.values), dict(other.values)
    rows, fewer = mine.pop(BATCH, None), its.pop(BATCH, None)
    alike = (point.sweep, point.scenario, mine) == (other.sweep, other.scenario, its)
    return alike and isinstance(rows, int) and isinstance(fewer, int) and rows > fewer


def next_batch(tried: Mapping[int, bool], most: int) -> int | None:
    """Return the batch to try next on the way to the largest that fits; None where it is known."""
    rate = next_rate(tried, 1.0)
    rows = 0 if rate is None else min(round(rate), most)
    return None if rows in (0, *tried) else rows


def largest_batch(row: SweepRow, tried: Mapping[int, bool]) -> Statement:
    """Say which batch is the largest that fits, by the row of it; where none does, by that of the smallest."""
    limit = _of_memory(row)
    bad = min((rows for rows, fits in tried.items() if not fits), default=None)
    if not any(tried.values()):
        why = str(row.point.skipped) if row.point.skipped else limit
        return state("no batch fits", point=row.point.named, limit=why)
    if bad is None:
        return state("every batch fits", point=row.point.named, limit=limit)
    return state("largest batch", point=row.point.named, limit=limit, next=bad)


def why_unfit(row: SweepRow) -> Statement:
    """Say why a batch on the way to the largest one is not measured further."""
    return state("not known to fit", limit=_of_memory(row))


def _of_memory(row: SweepRow) -> str:
    return ", ".join(str(answer) for answer in row.answers if answer.limit.metric == MEMORY)


def fits(row: SweepRow) -> bool:
    found = [answer.outcome for answer in row.answers if answer.limit.metric == MEMORY]
    return row.point.skipped is None and bool(found) and all(outcome == "passed" for outcome in found)


def _answer(limit: Budget, figures: Sequence[Figure], fill_s: float | None) -> Answer:
    figure, metric = figure_of(figures, limit.key), metric_of(limit.metric)
    if figure is None:
        return Answer(limit=limit, outcome="unmeasured")
    estimate = figure.estimate
    if metric.taken == "calls" and fill_s:  # what the first row of a batch waits before its call
        estimate = estimate.mapped(lambda seconds: seconds + fill_s)
    clear = clear_of(estimate, limit.limit, metric.better)
    outcome: BudgetOutcome = "inconclusive" if clear is None else "passed" if clear else "failed"
    return Answer(limit=limit, outcome=outcome, value=estimate.value)


def _best(rows: Sequence[SweepRow]) -> Iterator[Best]:
    eligible = {position: row for position, row in enumerate(rows) if row.is_eligible}
    for goal, keys in GOALS.items():
        for key in keys:
            found = {position: figure_of(row.figures, key) for position, row in eligible.items()}
            figures = {position: figure for position, figure in found.items() if figure}
            if not figures or len(figures) < len(eligible):
                continue
            if len({figure.source for figure in figures.values()}) == 1:  # others are never compared
                metric, statistic = key
                yield Best(goal=goal, metric=metric, statistic=statistic, rows=_ranked(figures, metric))
            break


def _ranked(figures: Mapping[int, Figure], metric: str) -> tuple[int, ...]:
    """Return the position of the best figure, then those of all that it cannot be told apart from.

    Told apart: the intervals have no value in common, by more than `least_apart`.
    """
    sign, margin = -1 if METRICS[metric].better == "higher" else 1, least_apart(metric)
    order = sorted(figures, key=lambda position: sign * figures[position].estimate.value)
    first = figures[order[0]].estimate

    def reaches(low: float | None, high: float | None) -> bool:  # an open end reaches everywhere
        return low is None or high is None or low <= high * (1 + margin)

    others = {position: figures[position].estimate for position in order}
    return tuple(at for at, one in others.items() if reaches(first.low, one.high) and reaches(one.low, first.high))


_CLOCK = "perf_counter"
_MEDIAN = "p50"


class Round(Record, frozen=True, kw_only=True):
    """Calls in a row."""

    latency_s: Values  # of each call
    calls: Count
    wall_s: Size
    rows: Count = 0  # of a call; 0: not known
    joules: Number | None = None  # of all calls; None: not measured
    energy_source: str = ""
    energy_estimated: bool = False


def figures_of(rounds: Sequence[Round], statistics: Collection[str]) -> tuple[Figure, ...]:
    """Return the figures of all rounds together, none without a round.

    Medians and rates have one value a round: what drifts between rounds is part of their interval. Other statistics
    of the latency are of all calls, since a round has too few of them.
    """
    if not rounds:
        return ()
    first, shown = rounds[0], {("latency", _MEDIAN): [median(one.latency_s) for one in rounds]}
    shown["throughput", "mean"] = [one.calls / one.wall_s for one in rounds]
    if all(one.rows for one in rounds):
        shown["sample_throughput", "mean"] = [one.calls * one.rows / one.wall_s for one in rounds]
    joules = [one.joules / one.calls / (one.rows or 1) for one in rounds if one.joules is not None]
    if len(joules) == len(rounds):
        shown[ENERGY, "mean"] = joules
    found = [
        Figure(
            metric=metric, statistic=statistic, estimate=over_rounds(values), per="round",
            source=first.energy_source if metric == ENERGY else _CLOCK,
            estimated=metric == ENERGY and first.energy_estimated,
        )
        for (metric, statistic), values in shown.items()
    ]  # fmt: skip
    return (*found, *figures_of_calls(rounds, [statistic for statistic in statistics if statistic != _MEDIAN]))


def figures_of_calls(rounds: Sequence[Round], statistics: Collection[str]) -> Iterator[Figure]:
    """Yield statistics of the latency of all calls, as if there were no rounds: a drift between them is not seen."""
    values = array("d")
    for one in rounds:
        values.extend(one.latency_s)
    sample = Sample(metric="latency", values=values, per="call", source=_CLOCK)
    for statistic in statistics:
        found = estimate(sample, statistic)
        yield Figure(metric="latency", statistic=statistic, estimate=found, source=_CLOCK, per="call")


def over_rounds(values: Sequence[float]) -> Estimate:
    """Return median and range: that of n rounds holds the median with probability 1 - 2^(1 - n), 97 % for six."""
    n = len(values)
    ends = (None, None) if n == 1 else (min(values), max(values))
    method = f"median and range of {n} rounds, this process only"
    return Estimate.of(median(values), ends, 1 - 2.0 ** (1 - n), n, method)


_FENCE = 1.5  # interquartile ranges beyond a quartile: what lies further out is an outlier


class Stats:
    """Statistics of the times of calls, in seconds, with the names and definitions of pytest-benchmark."""

    def __init__(self, data: Sequence[float]) -> None:
        self.data = list(data)
        self.sorted_data = ordered = sorted(self.data)
        self.rounds = len(ordered)  # how many times there are; calls that were timed in batches share one
        self.min, self.median, self.max = ordered[0], median(ordered), ordered[-1]
        self.total = math.fsum(ordered)
        self.mean = self.total / self.rounds
        squares = math.fsum((value - self.mean) ** 2 for value in ordered)
        self.stddev = math.sqrt(squares / (self.rounds - 1)) if self.rounds > 1 else 0.0
        self.q1, self.q3 = _quartile(ordered), -_quartile([-value for value in reversed(ordered)])
        self.iqr = self.q3 - self.q1
        low, high = self.q1 - _FENCE * self.iqr, self.q3 + _FENCE * self.iqr
        self.ld15iqr = ordered[bisect_left(ordered, low)]
        self.hd15iqr = ordered[bisect_right(ordered, high) - 1]
        self.stddev_outliers = sum(abs(value - self.mean) > self.stddev for value in ordered)
        self.iqr_outliers = sum(not low <= value <= high for value in ordered)
        self.outliers = f"{self.stddev_outliers};{self.iqr_outliers}"
        self.ops = self.rounds / self.total if self.total else 0.0  # calls a second


def _quartile(data: Sequence[float]) -> float:
    """Return the lower quartile of sorted numbers.

    References:
        en.wikipedia.org/wiki/Quartile, methods 2 (of even numbers) and 3 (of odd ones), as pytest-benchmark takes it.
    """
    count = len(data)
    if count == 1:
        return data[0]
    if count % 2 == 0:
        return median(data[: count // 2])
    n = count // 4
    if count % 4 == 1:
        return 0.25 * data[n - 1] + 0.75 * data[n]
    return 0.75 * data[n] + 0.25 * data[n + 1]
