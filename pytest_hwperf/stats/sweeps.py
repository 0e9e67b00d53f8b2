"""Sweeps: one thing measured at several points, such as batch sizes, and which of them is best within the limits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.metrics import METRICS, least_apart, metric_of
from pytest_hwperf.records.run import Figure, Key, figure_of, replace
from pytest_hwperf.records.sweep import BATCH, GOALS, Answer, Best, Sweep, SweepPoint, SweepRow
from pytest_hwperf.records.verdict import Budget, BudgetOutcome
from pytest_hwperf.stats.estimates import clear_of
from pytest_hwperf.stats.loads import next_rate

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
    """Put the points of a sweep together and choose the best of them for each goal."""
    found = tuple(note for note in (_unserved(rows), *notes) if note)
    return Sweep(name=name, rows=tuple(rows), best=tuple(_best(rows)), notes=found)


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
    """Whether the memory of a point is known to keep its limits."""
    found = [answer.outcome for answer in row.answers if answer.limit.metric == MEMORY]
    return row.point.skipped is None and bool(found) and all(outcome == "passed" for outcome in found)


def _answer(limit: Budget, figures: Sequence[Figure], fill_s: float | None) -> Answer:
    figure, metric = figure_of(figures, limit.key), metric_of(limit.metric)
    if figure is None:
        return Answer(limit=limit, outcome="unmeasured")
    estimate = figure.estimate
    if metric.taken == "calls" and fill_s:  # what the first row of a batch waits before its call
        low, high = (None if end is None else end + fill_s for end in (estimate.low, estimate.high))
        estimate = replace(estimate, value=estimate.value + fill_s, low=low, high=high)
    clear = clear_of(estimate, limit.limit, metric.better)
    outcome: BudgetOutcome = "inconclusive" if clear is None else "passed" if clear else "failed"
    return Answer(limit=limit, outcome=outcome, value=estimate.value)


def _unserved(rows: Sequence[SweepRow]) -> Statement | None:
    """Say that the batch which is served is none of those that were measured."""
    served = next((row.point.serving_batch for row in rows if row.point.serving_batch), 0)
    sizes = [row.point.values.get(BATCH) for row in rows if row.is_measured]
    if not served or served in sizes or None in sizes:
        return None
    return state("served not swept", served=served, measured=", ".join(dict.fromkeys(map(str, sizes))))


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
